"""Check the batches of a file one by one, as target-redshift does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from target_redshift.conversion import Check
from target_redshift.types import Column


def checked(
    batches: Iterable[pa.RecordBatch], columns: Sequence[Column], url: str, **options: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the batches after checking each."""
    check, before = Check(columns, **options), 0
    for batch in batches:
        yield check(batch, url, before)
        before += batch.num_rows
