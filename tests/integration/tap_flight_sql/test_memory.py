"""Memory is bounded by the messages of the server and by `memory_limit_mb`, however large the result is."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from local_cloud import Cloud
from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Programs

QUERY = "SELECT i AS id, repeat('x', 200) || i AS text FROM range({}) r(i)"


def peak_mb(run: Programs, folder: Path, rows: int, **options: Any) -> float:
    """Run the tap, and return the largest resident memory of its process."""
    batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{folder}/batches"}}
    config = {"streams": [{"name": "rows", "query": QUERY.format(rows)}], "batch_config": batches, **options}
    process = run.start("tap-flight-sql", config=["ENV", config])
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s*(\d+)", status.read_text())
        peak = max(peak, int(found[1]) if found else 0)  # an ended process has no such line
        time.sleep(0.02)
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    assert sum(map(int, re.findall(rb'"row_count": ?(\d+)', out))) == rows
    return peak / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_a_result_far_larger_than_the_limit(flight: FlightSql, flight_cloud: Cloud, tmp_path: Path) -> None:
    run = Programs(flight_cloud.environ(), tmp_path)
    options = {"memory_limit_mb": 64, "max_workers": 2}
    start, peak = (peak_mb(run, tmp_path, rows, **options) for rows in (1, 3_000_000))  # the rows are 650 MB
    # Rows that wait, those being encoded, and five messages of 2 MB for each endpoint that is read.
    assert peak - start < 250
