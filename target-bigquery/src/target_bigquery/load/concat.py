"""Joins files that this target wrote into one for a load job, without decoding them."""

from __future__ import annotations

import mmap
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from singer_arrow.formats.avro.container import header_size


def join_avro(paths: Sequence[Path], target: Path) -> None:
    """Join Avro files that were written here, with the same schema and the same sync marker."""
    with target.open("wb") as out:
        for number, path in enumerate(paths):
            with path.open("rb") as source:
                if number:
                    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as view:
                        source.seek(header_size(view))
                shutil.copyfileobj(source, out, 1 << 20)


def join_jsonl(paths: Sequence[Path], target: Path) -> None:
    """Join gzip files into one of a single member, which all readers accept."""
    from isal import igzip

    opened: Any = igzip.open  # it has no types
    with opened(target, "wb", compresslevel=1) as out:
        for path in paths:
            with opened(path, "rb") as source:
                shutil.copyfileobj(source, out, 1 << 20)
