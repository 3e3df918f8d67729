"""A task gives the same batch files, messages and ids on every run, whatever went wrong with other ones."""

import gzip
import io
import json
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import file_bytes
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from workbooks import xlsx

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError, ObjectChangedError
from singer_arrow.executors import Stopped
from singer_arrow.formats import FixedColumn, ReadOptions
from singer_arrow.reading.budget import Budget
from singer_arrow.storage import ObjectInfo, Storage
from singer_arrow.urls import Url
from tap_s3_files.catalog import METADATA
from tap_s3_files.config import BatchSettings
from tap_s3_files.convert import Step, convert
from tap_s3_files.plan import Position, Task
from tap_s3_files.progress import Counts, Progress
from tap_s3_files.rows import NEW_VERSION, Job, Worker, format_of, read
from tap_s3_files.store import SegmentStore

SOURCE = pa.schema([("id", pa.int64()), ("name", pa.string())])
JOB = Job("orders", pa.schema([*SOURCE, *METADATA]), True, "auto", ReadOptions())


class Folder:
    """Objects on local disk, and a worker that reads them."""

    def __init__(self, path: Path) -> None:
        self.path, self.storage = path, Storage()
        self.batch = BatchSettings(Url.parse(str(path / "out")), "", "parquet", "zstd", 1 << 20)
        self.worker = Worker(self.storage, Budget(), Progress("orders"), threading.Event())

    def csv(self, name: str, first: int, rows: int) -> ObjectInfo:
        lines = "".join(f"{n},n{n}\n" for n in range(first, first + rows))
        return self.write(name, f"id,name\n{lines}")

    def write(self, name: str, text: str | bytes) -> ObjectInfo:
        path = self.path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.storage.head(Url.parse(str(path)))

    def convert(self, *objects: ObjectInfo, job: Job = JOB, target_bytes: int = 1 << 20, **more: Any) -> list[Batch]:
        found = []
        for step in convert(job, Task(objects), self.worker, replace(self.batch, **more), target_bytes):
            self.worker.progress.add(step.counts)
            found += [step.batch] if step.batch else []
        return found

    def rows(self, *objects: ObjectInfo, job: Job = JOB) -> list[dict[str, Any]]:
        pieces = read(job, Task(objects), self.worker)
        return [row for piece in pieces if piece.batch for row in piece.batch.to_pylist()]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def file_of(batch: Batch) -> Path:
    (url,) = batch.manifest
    return Url.parse(url).local_path()


def test_rows_carry_where_they_come_from(folder: Folder) -> None:
    a, b = folder.csv("a.csv", 0, 2), folder.csv("b.csv", 2, 1)
    assert folder.rows(a, b) == [
        {
            "id": n,
            "name": f"n{n}",
            "_sdc_source_bucket": "",
            "_sdc_source_file": info.url.key,
            "_sdc_source_lineno": line,
            "_sdc_source_modified_at": info.modified,
            "_sdc_source_etag": info.etag,
        }
        for n, info, line in ((0, a, 1), (1, a, 2), (2, b, 1))
    ]


def test_metadata_columns_may_be_deselected_or_off(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 1)
    some = replace(JOB, schema=pa.schema([SOURCE.field("name"), METADATA.field("_sdc_source_lineno")]))
    assert folder.rows(info, job=some) == [{"name": "n0", "_sdc_source_lineno": 1}]
    assert folder.rows(info, job=replace(JOB, schema=SOURCE, metadata_columns=False)) == [{"id": 0, "name": "n0"}]


@pytest.mark.parametrize(
    ("settings", "encoding", "suffix"),
    [
        ({"format": "parquet", "compression": "zstd"}, {"format": "parquet", "compression": "zstd"}, ".parquet"),
        ({"format": "parquet", "compression": "none"}, {"format": "parquet"}, ".parquet"),
        ({"format": "jsonl", "compression": "gzip"}, {"format": "jsonl", "compression": "gzip"}, ".jsonl.gz"),
        ({"format": "jsonl", "compression": "none"}, {"format": "jsonl"}, ".jsonl"),
    ],
)
def test_a_batch_file_holds_the_rows_and_the_message_tells_of_it(
    folder: Folder, settings: dict[str, Any], encoding: dict[str, str], suffix: str
) -> None:
    (batch,) = folder.convert(folder.csv("a.csv", 0, 50), prefix="p-", **settings)
    path = file_of(batch)
    message = batch.to_message()
    assert message["encoding"] == encoding
    assert (message["row_count"], message["byte_count"]) == (50, path.stat().st_size)
    assert path.parent == folder.path / "out"
    assert path.name.startswith("p-orders--")
    assert path.name.endswith(suffix)
    if suffix == ".parquet":
        table = pq.read_table(path)
        assert table.schema.equals(JOB.schema)
        ids = table.column("id").to_pylist()
    else:
        text = path.read_bytes()
        ids = [
            json.loads(line)["id"] for line in (gzip.decompress(text) if suffix == ".jsonl.gz" else text).splitlines()
        ]
    assert ids == list(range(50))


def test_the_same_task_gives_the_same_messages(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 600_000)
    first = folder.convert(info, target_bytes=20_000)
    assert len(first) > 1
    assert len({b.batch_id for b in first}) == len(first)
    assert sum(b.row_count or 0 for b in first) == 600_000
    assert folder.convert(info, target_bytes=20_000) == first


def test_a_bundle_is_one_file_whose_id_holds_when_an_object_goes(folder: Folder) -> None:
    objects = [folder.csv(f"{name}.csv", 0, 30_000) for name in "abcd"]
    (before,) = folder.convert(*objects, target_bytes=20_000)
    assert before.row_count == 120_000
    Path(folder.path / "a.csv").unlink()
    (after,) = folder.convert(*objects, target_bytes=20_000)
    assert (after.row_count, after.batch_id) == (90_000, before.batch_id)
    assert after.manifest != before.manifest


def test_ids_tell_objects_versions_columns_and_types_apart(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 5)
    other = folder.csv("b.csv", 0, 5)
    changed = replace(JOB, schema=pa.schema([("id", pa.int32()), SOURCE.field("name"), *METADATA]))
    fewer = replace(JOB, schema=pa.schema([SOURCE.field("id")]))
    batches = [
        *folder.convert(info),
        *folder.convert(other),
        *folder.convert(info, other),
        *folder.convert(info, job=changed),
        *folder.convert(info, job=fewer),
        *folder.convert(info, job=replace(JOB, stream="others")),
        *folder.convert(info, job=replace(JOB, version=7)),
        *folder.convert(folder.csv("a.csv", 0, 6)),
    ]
    assert len({b.batch_id for b in batches}) == len(batches) == 8
    assert [b.version for b in batches] == [None] * 6 + [7, None]


def test_where_the_file_and_format_of_a_batch_do_not_matter_to_its_id(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 5)
    ids = {b.batch_id for f in ("parquet", "jsonl") for b in folder.convert(info, format=f, compression="none")}
    assert len(ids) == 1


def test_an_object_that_changed_is_left_out_and_the_rest_keeps_its_id(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    a, b, c = folder.csv("a.csv", 0, 5), folder.csv("b.csv", 5, 5), folder.csv("c.csv", 10, 5)
    (before,) = folder.convert(a, b, c)
    folder.csv("b.csv", 100, 9)
    Path(folder.path / "c.csv").unlink()
    (after,) = folder.convert(a, b, c)
    assert pq.read_table(file_of(after)).column("id").to_pylist() == [0, 1, 2, 3, 4]
    assert after.batch_id == before.batch_id
    assert [r.message for r in caplog.records] == [
        f"{o.url} was replaced or deleted since it was listed; {NEW_VERSION}" for o in (b, c)
    ]
    assert folder.worker.progress.counts.skipped_objects == 2
    assert folder.worker.progress.take_changed() == [b, c]


def test_an_object_that_changes_while_it_is_read_is_an_error(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 2_000_000)  # more than one request
    reads_little_ahead = replace(folder.worker, budget=Budget(1 << 20))
    batches = read(JOB, Task((info,)), reads_little_ahead)
    next(batches)
    folder.csv("a.csv", 0, 1_999_999)
    with pytest.raises(ObjectChangedError, match=r"a\.csv was replaced"):
        list(batches)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.avro", "_SUCCESS"])
def test_an_empty_object_is_left_out(folder: Folder, name: str, caplog: pytest.LogCaptureFixture) -> None:
    (batch,) = folder.convert(folder.write(name, b""), folder.csv("b.csv", 0, 3))
    assert batch.row_count == 3
    assert [r.message for r in caplog.records] == [f"{Url.parse(str(folder.path / name))} is empty and was skipped"]


def test_no_row_is_no_batch(folder: Folder) -> None:
    assert folder.convert(folder.write("a.csv", "id,name\n")) == []
    assert not (folder.path / "out").exists()


def test_a_bad_value_names_file_line_and_column(folder: Folder) -> None:
    with pytest.raises(DataError, match=r"bad\.csv, line 3, column 'id'.*'x'"):
        folder.convert(folder.csv("a.csv", 0, 3), folder.write("bad.csv", "id,name\n1,a\nx,b\n"))


def test_a_format_that_a_name_does_not_tell_is_asked_for(folder: Folder) -> None:
    info = folder.write("data", "id,name\n1,a\n")
    with pytest.raises(DataError, match="Set the stream's 'format'"):
        folder.rows(info)
    assert [r["id"] for r in folder.rows(info, job=replace(JOB, format="csv"))] == [1]
    assert format_of("auto", Url.parse("s3://b/x.jsonl.gz")) == "jsonl"


def test_a_task_stops_when_nobody_wants_it_any_more(folder: Folder) -> None:
    batches: Iterator[Any] = read(JOB, Task((folder.csv("a.csv", 0, 2),)), folder.worker)
    folder.worker.stop.set()
    with pytest.raises(Stopped):
        next(batches)


def test_everything_is_counted(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 50_000)
    batches = folder.convert(info, target_bytes=20_000)
    counts = folder.worker.progress.counts
    assert (counts.objects, counts.rows_read, counts.rows_written, counts.bytes) == (1, 50_000, 50_000, info.size)
    assert counts.batch_files == len(batches)


class Large:
    """A Parquet file of many row groups, whose conversion stops after some batch files and goes on in another run."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        text = random.Random(1).randbytes(60_000 * 100).hex()
        rows = pa.table({"id": range(60_000), "name": [text[n * 200 : (n + 1) * 200] for n in range(60_000)]})
        pq.write_table(rows, folder.path / "a.parquet", row_group_size=3_000, compression="none")
        self.info = folder.storage.head(Url.parse(str(folder.path / "a.parquet")))

    def run(self, stop_after: int | None = None, start: Position | None = None, **batch: Any) -> list[Step]:
        store = SegmentStore(self.folder.storage, Url.parse(str(self.folder.path)), "orders")
        record, task = store.parts(0, 0), Task((self.info,))
        made = replace(self.folder.batch, **batch)
        steps = convert(JOB, task, self.folder.worker, made, 400_000, start=start, record=record)
        return list(islice(steps, stop_after))

    def read(self) -> int:
        """Bytes that were read since this was asked last."""
        progress = self.folder.worker.progress
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


def test_a_run_goes_on_where_its_state_stands(large: Large) -> None:
    steps = large.run()
    whole, after = large.read(), steps[3].after
    assert after is not None
    there = Position(0, after.rows, None)  # as STATE tells it
    assert [s.batch for s in large.run(start=there)] == [s.batch for s in steps[4:]]
    assert large.read() < 0.7 * whole


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
    assert [s.batch for s in large.run()] == [s.batch for s in steps]
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


@pytest.mark.parametrize("until", [6_000, 6_001, 60_000])
def test_a_task_ends_where_another_schema_begins(large: Large, until: int) -> None:
    task, batch = Task((large.info,)), large.folder.batch
    steps = list(convert(JOB, task, large.folder.worker, batch, 400_000, until=until))
    assert sum(s.counts.rows_written for s in steps) == until == sum(s.counts.rows_read for s in steps)
    last = steps[-2]
    assert last.after is not None
    assert last.after.rows == until
    rest = list(convert(JOB, task, large.folder.worker, batch, 400_000, start=last.after))
    assert sum(s.counts.rows_written for s in rest) == 60_000 - until
    ids = [s.batch.batch_id for s in (*steps, *rest) if s.batch]
    assert len(set(ids)) == len(ids)


def test_a_file_that_was_not_the_last_one_stays_one_that_is_not(folder: Folder) -> None:
    """A run that failed at bad rows after it is followed by one that skips them, when the file has expired."""
    info = folder.write("a.csv", "id,name\n" + "1,a\n" * 5 + "x,b\n" * 400)
    store = SegmentStore(folder.storage, Url.parse(str(folder.path)), "orders")

    def run(on_bad_row: str) -> Iterator[Step]:
        job = replace(JOB, options=ReadOptions(on_bad_row=on_bad_row, block_bytes=20))
        return convert(job, Task((info,)), folder.worker, folder.batch, 1, record=store.parts(0, 0))

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
def test_where_files_end_depends_neither_on_timing_nor_on_where_a_reading_begins(
    folder: Folder, name: str, head: str, usual: str, odd: str
) -> None:
    info = folder.write(name, head + usual * 9_000 + odd + usual * 21_000)
    schema, options = pa.schema([("a", pa.int64()), ("b", pa.int64())]), ReadOptions(block_bytes=1 << 11)
    job = Job("orders", schema, False, "auto", options)
    for target_bytes in (20_600, 20_650):  # where bitmaps of ten batches would decide
        files = []
        for _ in range(4):
            found = convert(job, Task((info,)), folder.worker, folder.batch, target_bytes)
            files.append([(s.batch.batch_id, s.batch.row_count, s.after) for s in found if s.batch])
        assert len(files[0]) > 4
        assert all(other == files[0] for other in files)
        small = Worker(folder.storage, Budget(1 << 16, 1 << 16), Progress("orders"), threading.Event(), 1 << 14)
        rest = list(convert(job, Task((info,)), small, folder.batch, target_bytes, start=files[0][2][2]))
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


@pytest.mark.parametrize("name", ["a.avro", "a.arrow", "a.orc", "a.xlsx", "a.fixed_width"])
def test_a_reading_of_any_format_goes_on_with_the_same_files(folder: Folder, name: str) -> None:
    info = folder.write(name, _file(name, 6_000))
    schema, columns = (
        pa.schema([("a", pa.int64()), ("b", pa.int64())]),
        (FixedColumn("a", 1, 8), FixedColumn("b", 9, 8)),
    )
    form = "fixed_width" if name.endswith(".fixed_width") else "auto"
    options = ReadOptions(block_bytes=1 << 13, batch_rows=500, fixed_width=columns if form == "fixed_width" else ())
    job = Job("orders", schema, False, form, options)

    def run(start: Position | None = None) -> list[tuple[str, int | None, Position | None]]:
        found = convert(job, Task((info,)), folder.worker, folder.batch, 5_000, start=start)
        return [(s.batch.batch_id, s.batch.row_count, s.after) for s in found if s.batch]

    whole = run()
    assert len(whole) > 3
    assert sum(rows or 0 for _, rows, _ in whole) == 6_000
    for i in (0, 2):
        after = whole[i][2]
        assert after is not None
        for start in (after, Position(after.object, after.rows, None)):
            assert run(start) == whole[i + 1 :]
