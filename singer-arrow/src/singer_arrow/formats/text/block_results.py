"""What the outcomes of a file's blocks come to: rows to count, errors to raise, batches to give."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.cut_digits import warn_of_cuts
from singer_arrow.enforcement.schema_drift import new_columns, raise_new_columns, type_name, widened_field
from singer_arrow.errors import DriftError
from singer_arrow.formats.text.rows import Outcome, Tally, TextRows
from singer_arrow.read_progress import ReadProgress

logger = logging.getLogger(__name__)
SAMPLE = 1 << 20
"""Bytes of a file's head that tell which types its columns have as such."""


@dataclass(frozen=True)
class Settlement:
    """Settles the blocks of one file, in order.

    Attributes:
        rows: How its rows become batches.
        progress: Where they are counted.
        url: The file.
        infer: The types of all its columns, told from its head.
        warned: Columns with a warning about digits that were cut off.
    """

    rows: TextRows
    progress: ReadProgress
    url: object
    infer: Callable[[], pa.Schema]
    warned: set[str] = field(default_factory=set)

    def settle(self, outcome: Outcome, lines_before: int) -> pa.RecordBatch | None:
        """Count a block's rows, and give its batch, if it has rows.

        Raises:
            DataError: A row must not be as it is.
            DriftError: The schema must change before the batch.
        """
        if self.rows.options.on_drift == "raise":
            self._refuse_drift(outcome, lines_before)
        warn_of_cuts(logger, self.url, outcome.cuts, self.warned)
        if outcome.failed is not None:
            raise outcome.failed.error(self.url, lines_before)
        self._count(self.progress.skip, outcome.skipped, lines_before)
        self._count(self.progress.rescue, outcome.rescued, lines_before)
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
            raise_new_columns([self._found(pa.field(name, pa.null())) for name in self._new], self.url)
        drifted = [
            (problem, own, merged)
            for problem in outcome.misfits
            if problem.column not in self.rows.options.declared_columns
            for own in [self.rows.schema.field(problem.column)]
            if (merged := widened_field(own, self._found(own))) is not None
        ]
        if drifted:
            told = "; ".join(
                f"{problem.reason}, as the file has {own.name!r} as {type_name(self._found(own))}, "
                f"the schema as {type_name(own)}"
                for problem, own, _ in drifted
            )
            first = drifted[0][0].error(self.url, lines_before)
            fields = [merged for *_, merged in drifted]
            raise DriftError(told, fields, url=self.url, line=first.line, column=first.column)

    def _found(self, own: pa.Field) -> pa.Field:
        """A column as the head of the file has it; text if neither the head nor the schema knows a value of it."""
        at = self._types.get_field_index(own.name)
        found = self._types.field(at) if at >= 0 else pa.field(own.name, pa.null())
        return found.with_type(pa.string()) if pt.is_null(found.type) and pt.is_null(own.type) else found

    @cached_property
    def _new(self) -> list[str]:
        return new_columns(self.rows.names, self.rows.schema, self.rows.options)

    @cached_property
    def _types(self) -> pa.Schema:
        return self.infer()
