"""Batches as a file has them -> batches as a schema wants them, exactly; what does not fit goes as the options say."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit, fit_read
from singer_arrow.casting.from_text import BadValueError
from singer_arrow.enforcement.bad_rows import EnforcementInput, apply_policy
from singer_arrow.enforcement.projection import schema_columns
from singer_arrow.enforcement.schema_drift import paths_with_exclusions
from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ReadProgress

__all__ = ["fit", "fit_batch"]

_PLAIN = ReadOptions()


def fit_batch(
    batch: pa.RecordBatch,
    schema: pa.Schema,
    url: object,
    *,
    row_group: int | None = None,
    first_row: int = 1,
    options: ReadOptions = _PLAIN,
    progress: ReadProgress | None = None,
) -> pa.RecordBatch:
    """The columns of a schema, found by name in a batch of a file; one that the file lacks is null.

    Args:
        batch: With the file's own types; of its columns those of the schema, and new ones to be rescued.
        schema: What is wanted.
        url: The file.
        row_group: Where in it.
        first_row: The number of the batch's first row in the row group.
        options: What happens to values that do not fit; by default they are an error.
        progress: Counts rows that are left out, and rows of which something is rescued.

    Returns:
        The rows in order, all of them unless `options.on_bad_row` is `skip`. `RESCUED` has each value under its
        column's name: of an object with new members the whole object, as the file has it, but for members left out.

    Raises:
        DataError: A value does not fit, or a wanted column stands in the file twice; names the column.
        DriftError: A value does not fit, the file has the column in another type, the column is not one of
            `options.declared_columns`, and `options.on_drift` is `raise`.
    """
    fitting = EnforcementInput(batch, schema, url, row_group, options, progress or ReadProgress(), first_row)
    fitted, bad = dict[str, pa.Array](), dict[str, DataError]()
    for name in schema_columns(schema, options):
        at = batch.schema.get_all_field_indices(name)
        if len(at) > 1:
            raise fitting.error("the file has it twice", name, hint="Rename one of them at the source")
        field = schema.field(name)
        try:
            fitted[name] = (
                fit_read(_given(batch.column(at[0]), field, options), field, json_output=options.json_output)
                if at
                else pa.nulls(batch.num_rows, field.type)
            )
        except BadValueError as error:
            held = name in paths_with_exclusions(
                options.excluded_members
            )  # of which the error would tell what is left out
            bad[name] = fitting.refusal(name, error.row) if held else fitting.error(str(error), name, row=error.row)
    return apply_policy(fitting, fitted, bad) if bad or options.rescues else fitting.made(batch.num_rows, fitted)


def _given(column: pa.Array, field: pa.Field, options: ReadOptions) -> pa.Array:
    """The column, with floats in place of decimals if a SCHEMA asks for floats and may be rounded to."""
    t = _floats_for(column.type, field.type) if options.rounds_decimals else column.type
    return column if t == column.type else column.cast(t)


def _floats_for(source: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pt.is_decimal(source) and pt.is_floating(wanted):
        return wanted
    if pt.is_struct(source) and pt.is_struct(wanted):
        names = {f.name: f.type for f in wanted}
        return pa.struct([f.with_type(_floats_for(f.type, names.get(f.name, f.type))) for f in source])
    if pt.is_list(source) and pt.is_list(wanted):
        return pa.list_(source.value_field.with_type(_floats_for(source.value_type, wanted.value_type)))
    return source
