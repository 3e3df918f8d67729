"""A run resumes within an object where another run ended, and writes the same batch files."""

import io
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import file_bytes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from convert_folder import JOB, Folder, file_of
from workbooks import xlsx

from singer_arrow.errors import DataError
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.reading.parallel import Budget
from singer_arrow.storage.urls import Url
from tap_s3_files.convert import Step
from tap_s3_files.plan_model import Cuts, Position, Task
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.run import StreamJob, TaskContext


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr("tap_s3_files.plan_model.SMALL_OBJECT", 0)
    return Folder(tmp_path)


def cuts_in(folder: Folder) -> Cuts:
    return Cuts(folder.storage, Url.parse(str(folder.path / "_plans")), "x")


class Large:
    """A large Parquet file whose conversion stops after some batch files and is resumed by another run."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        text = random.Random(1).randbytes(60_000 * 100).hex()
        rows = pa.table({"id": range(60_000), "name": [text[n * 200 : (n + 1) * 200] for n in range(60_000)]})
        pq.write_table(rows, folder.path / "a.parquet", row_group_size=3_000, compression="none")
        self.info = folder.storage.head(Url.parse(str(folder.path / "a.parquet")))

    def run(self, stop_after: int | None = None, start: Position | None = None, **batch: Any) -> list[Step]:
        cuts = cuts_in(self.folder)
        steps = self.folder.steps(Task((self.info,)), target_bytes=400_000, start=start, cuts=cuts, **batch)
        return list(islice(steps, stop_after))

    def read(self) -> int:
        """Return the bytes read since the last call."""
        progress = self.folder.context.progress
        count = progress.counts.bytes
        progress.add(Counts(bytes=-count))
        return count


@pytest.fixture
def large(folder: Folder) -> Large:
    return Large(folder)


def test_what_an_interrupted_run_made_is_sent_again_and_not_made_again(large: Large) -> None:
    expected = [s.batch for s in large.run()]
    whole = large.read()
    for path in (large.folder.path / "_plans").rglob("*.json"):
        path.unlink()
    assert len(expected) > 6
    large.run(4)
    large.read()
    written = {p: p.stat().st_mtime_ns for p in (large.folder.path / "out").iterdir()}
    assert [s.batch for s in large.run()] == expected
    assert large.read() < 0.7 * whole
    made = [large.folder.path / "out" / str(b.manifest[0]).rpartition("/")[2] for b in expected[:4] if b]
    assert [p.stat().st_mtime_ns for p in made] == [written[p] for p in made]


def test_a_run_continues_at_its_state(large: Large) -> None:
    steps = large.run()
    whole, after = large.read(), steps[3].after
    assert after is not None
    there = Position(0, after.rows, None)  # as stored in STATE
    assert [s.batch for s in large.run(start=there)] == [s.batch for s in steps[4:] if s.batch]
    assert large.read() == 0 < whole
    for path in (large.folder.path / "out").iterdir():
        path.unlink()
    assert [s.batch for s in large.run(start=there)] == [s.batch for s in steps[4:] if s.batch]
    assert 0 < large.read() < 0.7 * whole


def test_without_a_note_the_object_is_read_from_its_start_and_no_row_is_sent_twice(large: Large) -> None:
    steps = large.run()
    for path in (large.folder.path / "_plans").rglob("*.json"):
        path.unlink()
    after = steps[3].after
    assert after is not None
    assert [s.batch for s in large.run(start=Position(0, after.rows, None))] == [s.batch for s in steps[4:]]


def test_a_batch_file_that_is_gone_is_made_again(large: Large) -> None:
    steps = large.run()
    assert steps[2].batch is not None
    file_of(steps[2].batch).unlink()
    assert [s.batch for s in large.run()] == [s.batch for s in steps if s.batch]
    assert file_of(steps[2].batch).exists()


def test_an_object_that_was_replaced_since_is_not_gone_on_with(large: Large, caplog: pytest.LogCaptureFixture) -> None:
    after = large.run(3)[2].after
    assert after is not None
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), large.folder.path / "a.parquet")
    again = large.run(start=Position(0, after.rows, None))
    assert [s.batch for s in again] == [None]
    assert f"its first {after.rows:,} rows were sent by an earlier run" in caplog.text


def test_batch_files_of_another_format_are_made_again(large: Large) -> None:
    large.run(4)
    again = [s.batch for s in large.run(format="jsonl", compression="gzip") if s.batch]
    assert {(b.format, b.manifest[0].rpartition(".")[2]) for b in again} == {("jsonl", "gz")}
    assert sum(b.row_count or 0 for b in again) == 60_000


def test_a_file_that_was_not_the_last_one_stays_one_that_is_not(folder: Folder) -> None:
    """A run that failed at bad rows after it is followed by one that skips them, when the file has expired."""
    info = folder.write("a.csv", "id,name\n" + "1,a\n" * 5 + "x,b\n" * 400)

    def run(on_bad_row: str) -> Iterator[Step]:
        job = replace(JOB, options=ReadOptions(on_bad_row=on_bad_row, block_bytes=20))
        return folder.steps(Task((info,)), job=job, target_bytes=1, cuts=cuts_in(folder))

    failing = run("fail")
    first = next(failing).batch
    with pytest.raises(DataError):
        next(failing)
    assert first is not None
    file_of(first).unlink()
    assert [s.batch for s in run("skip") if s.batch] == [first]


@pytest.mark.parametrize(
    ("name", "head", "usual", "odd"),
    [("a.csv", "a,b\n", "1,2\n", "5.0,6.0\n"), ("a.jsonl", "", '{"a":1,"b":2}\n', '{"a":5.0,"b":6.0}\n')],
)
@pytest.mark.full
def test_where_files_end_depends_neither_on_timing_nor_on_where_a_reading_begins(
    folder: Folder, name: str, head: str, usual: str, odd: str
) -> None:
    info = folder.write(name, head + usual * 9_000 + odd + usual * 21_000)
    schema, options = pa.schema([("a", pa.int64()), ("b", pa.int64())]), ReadOptions(block_bytes=1 << 11)
    job = StreamJob("orders", schema, False, "auto", options)
    for target_bytes in (20_600, 20_650):  # where bitmaps of ten batches would decide
        files = []
        for _ in range(4):
            found = folder.steps(Task((info,)), job=job, target_bytes=target_bytes)
            files.append([(s.batch.batch_id, s.batch.row_count, s.after) for s in found if s.batch])
        assert len(files[0]) > 4
        assert all(other == files[0] for other in files)
        small = Folder(folder.path)
        small.context = TaskContext(job, folder.storage, Budget(1 << 16, 1 << 16), Progress("orders"))
        little = replace(job, held_bytes=1 << 14)
        rest = list(small.steps(Task((info,)), job=little, target_bytes=target_bytes, start=files[0][2][2]))
        assert [(s.batch.batch_id, s.batch.row_count, s.after) for s in rest if s.batch] == files[0][3:]


def _file(name: str, rows: int) -> bytes:
    table = pa.table({"a": range(rows), "b": range(rows)})
    if name.endswith(".avro"):
        import polars as pl

        text = io.BytesIO()
        frame: Any = pl.from_arrow(table)
        frame.write_avro(text)
        return text.getvalue()
    if name.endswith(".xlsx"):
        return xlsx({"s": [["a", "b"], *([n, n] for n in range(rows))]})
    if name.endswith(".fixed_width"):
        return "".join(f"{n:8}{n:8}\n" for n in range(rows)).encode()
    if name.endswith(".orc"):
        return file_bytes.orc(table, batch_size=1024, stripe_size=1000)
    return file_bytes.ipc(table, 1_000)


@pytest.mark.parametrize("name", ["a.avro", "a.arrow", "a.orc", "a.fixed_width"])
def test_a_resumed_run_of_any_format_writes_the_same_files(folder: Folder, name: str) -> None:
    info = folder.write(name, _file(name, 6_000))
    schema, columns = (
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
        (FixedColumn("a", 1, 8), FixedColumn("b", 9, 8)),
    )
    form = "fixed_width" if name.endswith(".fixed_width") else "auto"
    options = ReadOptions(block_bytes=1 << 13, batch_rows=500, fixed_width=columns if form == "fixed_width" else ())
    job = StreamJob("orders", schema, False, form, options)

    def run(start: Position | None = None) -> list[tuple[str, int | None, Position | None]]:
        found = folder.steps(Task((info,)), job=job, target_bytes=5_000, start=start)
        return [(s.batch.batch_id, s.batch.row_count, s.after) for s in found if s.batch]

    whole = run()
    assert len(whole) > 3
    assert sum(rows or 0 for _, rows, _ in whole) == 6_000
    for i in (0, 2):
        after = whole[i][2]
        assert after is not None
        for start in (after, Position(after.object, after.rows, None)):
            assert run(start) == whole[i + 1 :]


@pytest.mark.full
def test_a_format_without_places_is_one_file(folder: Folder) -> None:
    """Without places no reading can start at a cut, so runs with other settings would cut elsewhere."""
    info = folder.write("a.xlsx", _file("a.xlsx", 3_000))
    job = StreamJob("orders", pa.schema([("a", pa.int64())]), False, "auto", ReadOptions(batch_rows=500))
    steps = folder.steps(Task((info,)), job=job, target_bytes=500, cuts=cuts_in(folder))
    assert [(s.batch.row_count, s.after) for s in steps if s.batch] == [(3_000, None)]


def test_rows_of_a_file_that_is_sent_again_count_as_one_object(large: Large) -> None:
    first, again = (sum((s.counts for s in large.run()), Counts()) for _ in range(2))
    assert (again.objects, again.rows_written, again.batch_files) == (1, 60_000, first.batch_files)
    assert first.objects == 1
