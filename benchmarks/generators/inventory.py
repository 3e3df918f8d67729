"""An S3 Inventory of the objects that `benchmarks.services.many_objects` lists, as CSV.gz or Parquet."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.services.many_objects import BODY, BUCKET, Keys, etag

ROWS_PER_FILE = 500_000
_CSV = "Bucket, Key, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag"
_PARQUET = """message s3.inventory { required binary bucket (UTF8); required binary key (UTF8);
 optional boolean is_latest; optional boolean is_delete_marker; optional int64 size;
 optional int64 last_modified_date (TIMESTAMP(MILLIS,true)); optional binary e_tag (UTF8); }"""
_SCHEMA = pa.schema(
    [
        ("bucket", pa.string()),
        ("key", pa.string()),
        ("is_latest", pa.bool_()),
        ("is_delete_marker", pa.bool_()),
        ("size", pa.int64()),
        ("last_modified_date", pa.timestamp("ms", "UTC")),
        ("e_tag", pa.string()),
    ]
)


def write_inventory(folder: Path, count: int, kind: str, final: Path) -> None:
    """Write the manifest.json and the files of an inventory.

    Args:
        folder: A new folder for them.
        count: Number of objects.
        kind: `CSV` or `Parquet`.
        final: The folder in which they will be.
    """
    folder.mkdir()
    keys, names = Keys(count, 0), []
    for first in range(0, count, ROWS_PER_FILE):
        numbers = range(first, min(count, first + ROWS_PER_FILE))
        names.append(f"{first:09d}.{'csv.gz' if kind == 'CSV' else 'parquet'}")
        (_write_csv if kind == "CSV" else _write_parquet)(folder / names[-1], keys, numbers)
    manifest = {
        "destinationBucket": "arn:aws:s3:::",
        "fileFormat": kind,
        "fileSchema": _CSV if kind == "CSV" else _PARQUET,
        "files": [{"key": str(final.absolute() / name).lstrip("/")} for name in names],
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))


def _write_csv(path: Path, keys: Keys, numbers: range) -> None:
    with gzip.open(path, "wt", compresslevel=6, newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
            (
                BUCKET,
                quote_plus(keys[n], safe="/"),
                "true",
                "false",
                len(BODY),
                f"{keys.modified(n):%FT%T.000Z}",
                etag(n),
            )
            for n in numbers
        )


def _write_parquet(path: Path, keys: Keys, numbers: range) -> None:
    columns = [
        [BUCKET] * len(numbers),
        [keys[n] for n in numbers],
        [True] * len(numbers),
        [False] * len(numbers),
        [len(BODY)] * len(numbers),
        [keys.modified(n) for n in numbers],
        [etag(n) for n in numbers],
    ]
    pq.write_table(pa.table(columns, schema=_SCHEMA), path)
