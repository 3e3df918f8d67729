"""Batches as a file has them -> batches as a schema wants them, exactly. Pure."""

from __future__ import annotations

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.formats.exact import fit
from singer_arrow.formats.values import BadValueError

__all__ = ["fit", "fit_batch"]


def fit_batch(batch: pa.RecordBatch, schema: pa.Schema, url: object, *, row_group: int | None = None) -> pa.RecordBatch:
    """The columns of a schema, found by name in a batch of a file; one that the file lacks is null.

    Raises:
        DataError: A value does not fit, or a wanted column stands in the file twice; names the column.
    """
    columns = []
    for field in schema:
        at = batch.schema.get_all_field_indices(field.name)
        if len(at) > 1:
            hint = "Rename one of them at the source"
            raise DataError("the file has it twice", url=url, column=field.name, hint=hint)
        try:
            columns.append(fit(batch.column(at[0]), field) if at else pa.nulls(batch.num_rows, field.type))
        except BadValueError as error:
            raise DataError(str(error), url=url, row_group=row_group, column=field.name) from None
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    rows = pa.StructArray.from_buffers(pa.struct([]), batch.num_rows, [None])  # rows without columns
    return pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(schema.metadata)
