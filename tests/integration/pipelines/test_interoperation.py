"""Other targets read our batch files, and our targets read those of the SDK's encoders."""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from pathlib import Path

import pytest
import stock_tap
from stock_target import rows_of
from warehouses import Warehouse

from local_cloud.programs import Programs

PROGRAMS = Path(__file__).parents[2] / "support"
SOURCE = "id,name,score,day,at,good\n" + "".join(
    f"{n},name {n} é,{n / 8},2026-01-{n + 1:02d},2026-01-01T00:00:{n:02d}Z,{str(n % 2 == 0).lower()}\n"
    for n in range(20)
)


@pytest.fixture
def sent(request: pytest.FixtureRequest, run: Programs, tmp_path: Path) -> str:
    """Run our tap with batch files on local disk in a given format, and return its messages."""
    (tmp_path / "rows.csv").write_text(SOURCE)
    config = {
        "streams": [{"name": "rows", "path": str(tmp_path / "rows.csv")}],
        "batch_config": {"encoding": request.param, "storage": {"root": f"file://{tmp_path}/batches"}},
        "metadata_columns": False,
    }
    return run("tap-s3-files", config=config).check().stdout


FORMATS = pytest.mark.parametrize(
    "sent", [{"format": "parquet"}, {"format": "jsonl", "compression": "gzip"}], ids=["parquet", "jsonl"], indirect=True
)


@FORMATS
def test_the_stock_target_reads_ours(sent: str, run: Programs, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run(sys.executable, PROGRAMS / "stock_target.py", stdin=sent, config={"out": str(out)}).check()
    rows = rows_of(out)
    assert [r["id"] for r in rows] == list(range(20))
    assert rows[3]["name"] == "name 3 é"
    assert float(rows[3]["score"]) == 0.375
    assert rows[3]["good"] is False
    assert datetime.fromisoformat(str(rows[3]["at"])) == datetime.fromisoformat("2026-01-01T00:00:03Z")


@FORMATS
def test_a_public_target_reads_ours(sent: str, run: Programs, tmp_path: Path) -> None:
    run("target-csv", stdin=sent, config={"output_path": str(tmp_path)}).check()
    (found,) = [p for p in tmp_path.rglob("rows*.csv") if p.name != "rows.csv"] or tmp_path.rglob("rows.csv")
    with found.open() as file:
        rows = list(csv.DictReader(file))
    assert [r["id"] for r in rows] == [str(n) for n in range(20)]
    assert rows[7]["name"] == "name 7 é"


@pytest.mark.parametrize("encoding", [{"format": "jsonl", "compression": "gzip"}, {"format": "parquet"}], ids=str)
def test_ours_reads_the_stock_taps(
    encoding: dict[str, str], run: Programs, warehouse: Warehouse, tmp_path: Path
) -> None:
    storage = {"root": f"file://{tmp_path}/batches", "prefix": ""}
    config = {"batch_config": {"encoding": encoding, "storage": storage, "batch_size": 10}}
    sent = run(sys.executable, PROGRAMS / "stock_tap.py", config=config).check()
    assert len(sent.of_type("BATCH")) == 3
    run(warehouse.program, stdin=sent.stdout, config=["ENV", {}]).check()

    expected = [stock_tap.row(n) for n in range(stock_tap.ROWS)]
    assert warehouse.table("numbers") == [{**r, "at": datetime.fromisoformat(r["at"])} for r in expected]
