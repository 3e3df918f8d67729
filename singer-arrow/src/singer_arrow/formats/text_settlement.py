"""What the outcomes of a file's blocks come to: rows to count, errors to raise, batches to give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import DriftError
from singer_arrow.formats.drift import named, refuse_new, unknown, wider
from singer_arrow.formats.protocol import Course
from singer_arrow.formats.text_rows import Outcome, Tally, TextRows

SAMPLE = 1 << 20
"""Bytes of a file's head that tell which types its columns have as such."""


@dataclass(frozen=True)
class Settlement:
    """Settles the blocks of one file, in order.

    Attributes:
        rows: How its rows become batches.
        course: Where they are counted.
        url: The file.
        infer: The types of all its columns, told from its head.
    """

    rows: TextRows
    course: Course
    url: object
    infer: Callable[[], pa.Schema]

    def settle(self, outcome: Outcome, lines_before: int) -> pa.RecordBatch | None:
        """Count a block's rows, and give its batch, if it has rows.

        Raises:
            DataError: A row must not be as it is.
            DriftError: The schema must change before the batch.
        """
        if self.rows.options.on_drift == "raise":
            self._refuse_drift(outcome, lines_before)
        if outcome.failed is not None:
            raise outcome.failed.error(self.url, lines_before)
        self._count(self.course.skip, outcome.skipped, lines_before)
        self._count(self.course.rescue, outcome.rescued, lines_before)
        return outcome.batch if outcome.batch is not None and outcome.batch.num_rows else None

    def _count(self, count: Callable[..., None], tally: Tally, lines_before: int) -> None:
        told = [problem.error(self.url, lines_before) for problem in tally.first]
        for error in told[:-1]:
            count(error)
        if told:
            count(told[-1], tally.rows - len(told) + 1)

    def _refuse_drift(self, outcome: Outcome, lines_before: int) -> None:
        has_rows = outcome.failed is not None or (outcome.batch is not None and outcome.batch.num_rows > 0)
        if self._new and has_rows:
            refuse_new([_of_some_type(_found(self._types, name)) for name in self._new], self.url)
        drifted = [
            (problem, own, merged)
            for problem in outcome.misfits
            for own in [self.rows.schema.field(problem.column)]
            if (merged := wider(own, _found(self._types, own.name))) is not None
        ]
        if drifted:
            told = "; ".join(
                f"the file has {own.name!r} as {named(_found(self._types, own.name))}, the schema as {named(own)}"
                for _, own, _ in drifted
            )
            first = drifted[0][0].error(self.url, lines_before)
            fields = [merged for *_, merged in drifted]
            raise DriftError(told, fields, url=self.url, line=first.line, column=first.column)

    @cached_property
    def _new(self) -> list[str]:
        return unknown(self.rows.names, self.rows.schema, self.rows.options)

    @cached_property
    def _types(self) -> pa.Schema:
        return self.infer()


def _found(types: pa.Schema, name: str) -> pa.Field:
    at = types.get_field_index(name)
    return types.field(at) if at >= 0 else pa.field(name, pa.null())


def _of_some_type(field: pa.Field) -> pa.Field:
    """The field; of text where the head holds no value, as any later one is text at least."""
    return field.with_type(pa.string()) if pt.is_null(field.type) else field
