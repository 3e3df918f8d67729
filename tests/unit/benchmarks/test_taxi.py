"""The output of contenders in the taxi cases is counted, and a wrong number is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.cases.taxi_files import records
from benchmarks.harness import BenchmarkError, Measured

ROW = {"store_and_fwd_flag": "N", "about": '"RECORD" is a word too ' * 9}
SINGER = [
    {"type": "SCHEMA", "stream": "trips", "schema": {}},
    *({"type": "RECORD", "stream": "trips", "record": ROW} for _ in range(3)),
    {"type": "STATE", "value": {"about": "RECORD"}},
]
AIRBYTE = [
    {"type": "LOG", "log": {"level": "INFO", "message": "begins"}},
    *({"type": "RECORD", "record": {"stream": "trips", "data": ROW, "emitted_at": 1}} for _ in range(3)),
]
SINGER_LAST = [{"stream": "trips", "record": ROW, "type": "RECORD"} for _ in range(3)]


@pytest.mark.parametrize("messages", [SINGER, AIRBYTE, SINGER_LAST])
def test_records_are_counted(tmp_path: Path, messages: list[object]) -> None:
    stdout = tmp_path / "stdout"
    stdout.write_text("".join(json.dumps(message) + "\n" for message in messages))
    measured = Measured(0, 1, 1, (1,), 1, 1, stdout)

    assert records(3)(tmp_path, measured) == {"rows": 3, "bytes": stdout.stat().st_size}
    with pytest.raises(BenchmarkError, match="3 rows came out where 4 went in"):
        records(4)(tmp_path, measured)
