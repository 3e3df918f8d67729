"""The SDK's test suite for taps, over local files of several formats.

It runs without `batch_config`: with it the suite sees no records, and most of its tests pass without checking anything.
"""

from __future__ import annotations

import json
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from singer_sdk.testing import get_tap_test_class

from tap_s3_files.tap import TapS3Files

ROWS = 20


def _write(folder: Path) -> None:
    lines = [f"{n},{str(n % 2 == 0).lower()},{n / 4},2024-05-01,2024-05-01T10:00:{n:02d}Z" for n in range(ROWS)]
    (folder / "a.csv").write_text("\n".join(["id,good,score,day,at", *lines]))
    objects = [{"id": n, "tags": ["a"], "place": {"x": n / 2, "name": "here"}} for n in range(ROWS)]
    (folder / "a.jsonl").write_text("".join(json.dumps(o) + "\n" for o in objects))
    table = pa.table(
        {
            "id": list(range(ROWS)),
            # The suite validates with floats, in which 0.07 is no multiple of 0.01, but quarters are.
            "price": pa.array([Decimal(n) / 4 for n in range(ROWS)], pa.decimal128(10, 2)),
            "at": pa.array([datetime(2024, 5, 1, 10, n, tzinfo=UTC) for n in range(ROWS)], pa.timestamp("us", "UTC")),
            "raw": pa.array([bytes([n]) for n in range(ROWS)], pa.binary()),
        }
    )
    pq.write_table(table, folder / "a.parquet")


# The suite reads the files during test collection, so they are created here; they are removed with the tests' folder.
_FOLDER = Path(tempfile.mkdtemp(prefix="tap-conformance-"))
_write(_FOLDER)
CONFIG: dict[str, Any] = {
    "streams": [
        {"name": f"from_{suffix}", "path": f"{_FOLDER}/*.{suffix}", "key_properties": ["id"]}
        for suffix in ("csv", "jsonl", "parquet")
    ]
}

TestTapS3Files = get_tap_test_class(tap_class=TapS3Files, config=CONFIG)
