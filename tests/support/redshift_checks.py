"""Batches of a file, looked at one after the other as target-redshift does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from target_redshift.conversion import Check
from target_redshift.tables.types import Column


def checked(
    batches: Iterable[pa.RecordBatch], columns: Sequence[Column], url: str, **options: Any
) -> Iterator[pa.RecordBatch]:
    """The batches, each of which was looked at."""
    check, before = Check(columns, **options), 0
    for batch in batches:
        yield check(batch, url, before)
        before += batch.num_rows
