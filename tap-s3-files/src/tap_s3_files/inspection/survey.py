"""What a sample of a stream's rows shows: columns, keys, and types of which it is no proof."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.spelling import hint
from singer_arrow.schema.type_names import setting_type
from singer_arrow.storage.object_info import ObjectInfo
from tap_s3_files.catalog import sample_objects, source_schema
from tap_s3_files.discovery import infer_schema, partition_columns
from tap_s3_files.inspection.sample_rows import first_rows
from tap_s3_files.listing.listing import Listing
from tap_s3_files.run import TapRun
from tap_s3_files.settings import StreamSettings
from tap_s3_files.stream_job import StreamJob

MAX_ROWS = 10_000
"""Rows of all sampled objects of a stream."""
TEXT_FORMATS = frozenset({"csv", "fixed_width"})
"""Formats whose values are text: settings describe how dates and numbers are written."""
_KEY_NAME = re.compile(r"(?:^|_|[a-z](?=[A-Z]))(?:id|key|uuid|guid|code|number|num|no|nr|sku)$", re.IGNORECASE)
_LABEL_NAME = re.compile(
    r"(?:^|_)(?:zip|zip_?code|postal_?code|plz|phone|fax|isbn|ean|iban|account|sku)(?:_|$)", re.IGNORECASE
)
_NUMBER = r"^ *[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)? *$"
_MOST_OTHER = 0.1
"""Share of a text column's values that may be no numbers where the rest are."""
_MOST_DIGITS = 4
"""Digits after the point up to which numbers may be meant as decimals."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A setting in YAML that may be right, and why; with `column`, the type of that one in the setting `schema`."""

    setting: str
    reason: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """What a sample of a stream shows.

    `columns` are those of the files and of their keys, with the types that a run would infer; `keys` are named like a
    key, and their values identify each row of the sample; `others` do so alone.
    """

    columns: pa.Schema
    rows: int
    objects: int
    keys: tuple[str, ...]
    others: tuple[str, ...]
    doubts: tuple[Doubt, ...]


def survey(run: TapRun, stream: StreamSettings, objects: Sequence[ObjectInfo]) -> Survey:
    """Return what a sample of a stream's objects shows."""
    listed = Listing(objects)
    samples = sample_objects(listed, run.settings.sample_files)
    found = {info: infer_schema(run, stream, info) for info in samples}
    schemas = {info: schema for info, schema in found.items() if isinstance(schema, pa.Schema)}
    error = next((e for e in found.values() if isinstance(e, Exception)), None)
    if error is not None and not schemas:
        raise error
    schema = source_schema(
        list(schemas.values()), stream, partition_columns(stream, listed), sampled=[i.url for i in schemas]
    )
    job = StreamJob(
        stream.name, schema, metadata_columns=False, format=stream.format, options=stream.read,
        partitions=stream.partitions,
    )  # fmt: skip
    each = max(1, MAX_ROWS // max(1, len(schemas)))
    rows = pa.concat_tables([first_rows(run, job, [info], each)[0] for info in schemas])
    keys, others = find_keys(rows)
    unsure = chain(
        _without_value(rows, list(schemas.values())),
        _in_text(rows) if stream.format in TEXT_FORMATS else (),
        _numbers(rows) if stream.format in TEXT_FORMATS | {"jsonl", "json"} else (),
    )
    return Survey(schema, rows.num_rows, len(schemas), keys, others, tuple(unsure))


def find_keys(rows: pa.Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that identify each row and are named like a key, and others that do so alone.

    One row proves nothing.
    """
    if rows.num_rows < 2:
        return (), ()
    kinds = (pt.is_integer, pt.is_string, pt.is_decimal, pt.is_date)
    able = [f.name for f in rows.schema if any(is_of(f.type) for is_of in kinds) and not rows[f.name].null_count]
    unique = [name for name in able if len(pc.unique(rows[name])) == rows.num_rows]
    named = [name for name in able if _KEY_NAME.search(name)]
    best = next((name for name in unique if name in named), None)
    if best is not None:
        return (best,), tuple(name for name in unique if name != best)
    for pair in combinations(named[:6], 2):
        if rows.group_by(list(pair)).aggregate([]).num_rows == len(rows):
            return pair, tuple(unique)
    return (), tuple(unique)


def _without_value(rows: pa.Table, inferred: Sequence[pa.Schema]) -> Iterator[Doubt]:
    for field in rows.schema:
        kinds = {
            setting_type(s.field(field.name))
            for s in inferred
            if field.name in s.names and not pt.is_null(s.field(field.name).type)
        }
        if rows[field.name].null_count == rows.num_rows and not kinds:
            yield Doubt("string", "no value in the sample", field.name)
        elif len(kinds) > 1:
            yield Doubt(setting_type(field), f"{' in some objects, '.join(sorted(kinds))} in others", field.name)


def _in_text(rows: pa.Table) -> Iterator[Doubt]:
    """Yield what columns of text may be: dates and numbers of other countries, numbers with a mark for none."""
    for field in rows.schema:
        values = rows[field.name].drop_null()
        if not pt.is_string(field.type) or not len(values):
            continue
        if settings := hint(values.combine_chunks()):
            for setting in settings.split(" and "):
                name, _, value = setting.partition(" to ")
                yield Doubt(f"{name.strip(chr(39))}: {value}", f"column {field.name} is text otherwise")
            continue
        other = values.filter(pc.invert(pc.match_substring_regex(values, _NUMBER)))
        if 0 < len(other) <= _MOST_OTHER * len(values):
            marks = pc.unique(other).to_pylist()
            if len(marks) == 1:
                yield Doubt(
                    f"csv: {{null_values: [{chr(34) * 2}, {marks[0]!r}]}}", f"column {field.name} is numbers then"
                )
            else:
                share = len(other) / len(values)
                yield Doubt("number", f"{share:.1%} of its values are no numbers; see on_bad_row", field.name)


def _numbers(rows: pa.Table) -> Iterator[Doubt]:
    """Yield columns of numbers that may be meant as exact decimals, or as text."""
    for field in rows.schema:
        values = rows[field.name].drop_null()
        if pt.is_integer(field.type) and _LABEL_NAME.search(field.name):
            yield Doubt("string", "integer otherwise, which keeps no leading zero", field.name)
        if pt.is_floating(field.type) and len(values):
            digits = next(
                (n for n in range(_MOST_DIGITS + 1) if pc.all(pc.equal(pc.round(values, n), values)).as_py()), 0
            )
            if digits:
                reason = f"number otherwise, which is not exact; the sample has up to {digits} digits after the point"
                yield Doubt(f"decimal(18,{digits})", reason, field.name)
