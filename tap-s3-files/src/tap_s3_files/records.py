"""Rows of a task as records: encoded up to the first row that cannot be."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from singer_arrow.errors import DataError
from singer_arrow.sdk.tap import Encode, Encoded
from tap_s3_files.plan.model import Position
from tap_s3_files.read_task import Piece

if TYPE_CHECKING:
    import pyarrow as pa


def encode_rows(
    encode: Encode[Encoded], batch: pa.RecordBatch
) -> Generator[Encoded, None, tuple[int, DataError | None]]:
    """Yield the encoded parts of a batch; return the number of rows, and the error that ended it."""
    from singer_arrow.records.encoder import rows_in

    rows = 0
    try:
        for item in encode(batch):
            yield item
            rows += rows_in(item)
    except DataError as error:
        return rows, error
    return rows, None


def within_piece(piece: Piece, sent: int, start: Position) -> Position:
    """Return the position after the first `sent` rows of a piece that begins at `start`."""
    if piece.batch is None or not sent:
        return start
    return Position(piece.after.object, piece.after.rows - piece.batch.num_rows + sent, None)
