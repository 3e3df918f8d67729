"""Batches of a file -> batches of exactly a schema: `fit_batch`."""

from __future__ import annotations

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.from_arrow import fit, fit_read
from singer_arrow.casting.from_text import BadValueError
from singer_arrow.enforcement.bad_rows import EnforcementInput, apply_policy
from singer_arrow.enforcement.schema_drift import paths_with_exclusions, schema_columns
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
    """Cast a batch to exactly `schema`; columns are matched by name, missing ones are null.

    Args:
        batch: Rows with the file's types: columns of the schema, and new ones to rescue.
        schema: The result's schema.
        url: The file.
        row_group: Number of the row group.
        first_row: Number of the batch's first row in the row group.
        options: Policies for values that do not fit. Default: such a value is an error.
        progress: Counts skipped and rescued rows.

    Returns:
        The rows in order; all of them unless `options.on_bad_row` is `skip`. `RESCUED` maps column names to values; for
        an object with new members, to the whole object without excluded members.

    Raises:
        DataError: A value does not fit, or the file has a column of the schema twice; names the column.
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
                fit_read(_with_floats(batch.column(at[0]), field, options), field, json_output=options.json_output)
                if at
                else pa.nulls(batch.num_rows, field.type)
            )
        except BadValueError as error:
            if name in paths_with_exclusions(options.excluded_members):  # which an error must not show
                bad[name] = fitting.mismatch_error(name, error.row)
            else:
                bad[name] = fitting.error(str(error), name, row=error.row)
    return apply_policy(fitting, fitted, bad) if bad or options.rescues else fitting.to_batch(batch.num_rows, fitted)


def _with_floats(column: pa.Array, field: pa.Field, options: ReadOptions) -> pa.Array:
    """Return the column with decimals as floats where the field has floats, if `rounds_decimals` is set."""
    t = _floats_for(column.type, field.type) if options.rounds_decimals else column.type
    return column if t == column.type else column.cast(t)


def _floats_for(source: pa.DataType, target: pa.DataType) -> pa.DataType:
    if pt.is_decimal(source) and pt.is_floating(target):
        return target
    if pt.is_struct(source) and pt.is_struct(target):
        names = {f.name: f.type for f in target}
        return pa.struct([f.with_type(_floats_for(f.type, names.get(f.name, f.type))) for f in source])
    if pt.is_list(source) and pt.is_list(target):
        return pa.list_(source.value_field.with_type(_floats_for(source.value_type, target.value_type)))
    return source
