"""Files of taxi trips on S3, and what contenders made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.case import Facts
from benchmarks.connectors import expect
from benchmarks.generators import taxi
from benchmarks.harness import Measured
from benchmarks.s3 import LocalS3
from benchmarks.workbench import Workbench

if TYPE_CHECKING:
    from pyarrow import fs

SEED = 2022
RECORD = re.compile(rb'^\{"type": ?"RECORD"|"type": ?"RECORD"\}\s*$')


@dataclass(frozen=True)
class Files:
    """Objects of one kind below a prefix.

    Attributes:
        kind: parquet, csv, csv.gz or jsonl.gz.
        prefix: of the keys, without a slash at its end.
        urls: of the objects.
        rows: in all of them.
        bytes: of all of them.
    """

    kind: str
    prefix: str
    urls: Sequence[str]
    rows: int
    bytes: int


def files(bench: Workbench, kind: str, rows: int, count: int = 1) -> Files:
    """The files, made if need be, on S3."""
    s3, prefix = bench.s3(), f"taxi/{kind}-{rows}-{count}"
    suffix = f"zstd.{kind}" if kind == "parquet" else kind
    made = [bench.made(f"trips-{rows}-{n}.{suffix}", _write(kind, rows, n)) for n in range(count)]
    urls = [s3.upload(source, f"{prefix}/{n}.{kind}") for n, source in enumerate(made)]
    return Files(kind, prefix, urls, rows * count, sum(source.stat().st_size for source in made))


def _write(kind: str, rows: int, number: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        if kind == "parquet":
            taxi.write_parquet(path, rows, seed=SEED + number, compression="zstd")
        else:
            taxi.write_text(path, rows, seed=SEED + number)

    return write


def written(s3: LocalS3, rows: int) -> Callable[[Path, Measured], Facts]:
    """Counts the rows and bytes of the Parquet files below the run's prefix, and removes them."""
    place = s3.filesystem()

    def facts(folder: Path, _: Measured) -> Facts:
        try:
            return parquet_files(place, f"{s3.bucket}/{folder.name}", rows)
        finally:
            s3.remove(folder.name)

    return facts


def parquet_files(place: fs.FileSystem, below: str, rows: int) -> Facts:
    """The rows, which must be as many, and bytes of the Parquet files below a path."""
    import pyarrow.parquet as pq
    from pyarrow import fs

    found = [
        each for each in place.get_file_info(fs.FileSelector(below, recursive=True)) if each.path.endswith(".parquet")
    ]
    there = sum(pq.read_metadata(each.path, filesystem=place).num_rows for each in found)
    return {"rows": expect(rows, there), "bytes": sum(each.size for each in found), "files": len(found)}


def records(rows: int) -> Callable[[Path, Measured], Facts]:
    """Counts RECORD messages, of Singer or of Airbyte, on standard output."""

    def facts(_: Path, measured: Measured) -> Facts:
        with measured.stdout.open("rb") as file:
            # A message's type is at its start or its end: no need to parse the columns of each.
            found = sum(bool(RECORD.match(line[:24]) or RECORD.search(line[-24:])) for line in file)
        return {"rows": expect(rows, found), "bytes": measured.stdout.stat().st_size}

    return facts
