"""A target shows the records that it has read, while it reads and before they are loaded."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from singer_lines import lines
from warehouses import Warehouse

from local_cloud.programs import Programs

SCHEMA = {
    "type": "SCHEMA",
    "stream": "rows",
    "schema": {"properties": {"id": {"type": "integer"}}},
    "key_properties": [],
}
SHOWN = re.compile(r"Progress of rows: 0 rows from ([\d,]+) records")


@pytest.fixture
def killed_in_the_end() -> Iterator[list[threading.Timer]]:
    timers: list[threading.Timer] = []
    yield timers
    for timer in timers:
        timer.cancel()


def test_records_are_shown_before_they_are_loaded(
    warehouse: Warehouse, run: Programs, killed_in_the_end: list[threading.Timer]
) -> None:
    records = [{"type": "RECORD", "stream": "rows", "record": {"id": n}} for n in range(3000)]
    target = run.start(warehouse.program, config=["ENV", warehouse.config])
    killed_in_the_end.append(threading.Timer(60, target.kill))
    killed_in_the_end[0].start()
    assert target.stdin is not None
    assert target.stderr is not None
    target.stdin.write(lines([SCHEMA, *records]).encode())
    target.stdin.flush()  # the tap has more, and is slow
    shown = next((found for line in target.stderr if (found := SHOWN.search(line.decode()))), None)
    _, rest = target.communicate()
    assert shown is not None
    assert shown[1] == "3,000"
    assert target.returncode == 0
    assert "Loaded rows: 3,000 rows" in rest.decode()
