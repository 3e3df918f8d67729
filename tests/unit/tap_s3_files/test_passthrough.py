"""Objects that already are batch files go into the manifest; others are converted, and the reason is logged."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from convert_folder import Folder as Converter

from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_model as plan
from tap_s3_files.convert import Step, passthrough_rows
from tap_s3_files.discover import METADATA
from tap_s3_files.paths import Partitions
from tap_s3_files.plan_model import Cuts, Task
from tap_s3_files.progress import Counts
from tap_s3_files.run import StreamJob

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
JOB = StreamJob(
    "orders", SCHEMA, False, "auto", ReadOptions(on_drift="raise", known_columns=frozenset()), passthrough="parquet"
)


class Folder(Converter):
    def parquet(self, name: str, rows: int = 3, schema: pa.Schema = SCHEMA) -> ObjectInfo:
        values = [
            {f.name: None if f.name == "at" else n if f.name == "id" else f"{n}" for f in schema} for n in range(rows)
        ]
        pq.write_table(pa.Table.from_pylist(values, schema), self.path / name)
        return self.storage.head(Url.parse(str(self.path / name)))

    def steps_of(self, *objects: ObjectInfo, job: StreamJob = JOB, **batch: Any) -> list[Step]:
        return list(self.steps(Task(objects), job=job, **batch))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_parquet_with_the_columns_of_schema_goes_as_it_is(folder: Folder) -> None:
    a, b = folder.parquet("a.parquet", 3), folder.parquet("b.parquet", 4, pa.schema(list(SCHEMA)[::-1]))
    (step,) = folder.steps_of(a, b)
    assert step.batch is not None
    assert step.batch.manifest == (str(a.url), str(b.url))
    assert (step.batch.row_count, step.batch.byte_count) == (7, a.size + b.size)
    assert step.counts == Counts(objects=2, rows_read=7, rows_written=7, batch_files=2)
    assert not (folder.path / "out").exists()
    assert [step] == folder.steps_of(a, b)


def test_all_objects_of_a_task_go_as_they_are_or_none_does(folder: Folder) -> None:
    """They are one batch: its id must not depend on the settings that select them."""
    a, b = folder.parquet("a.parquet"), folder.parquet("b.parquet", schema=pa.schema([("id", pa.int32())]))
    step, _ = folder.steps_of(a, b)
    assert step.batch is not None
    (url,) = step.batch.manifest
    table = pq.read_table(Url.parse(url).local_path())
    assert table.schema.equals(SCHEMA)
    assert table.column("id").to_pylist() == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("small", [0, 1 << 20], ids=["large", "small"])
def test_an_object_has_one_id_whether_it_goes_as_it_is_or_not(
    folder: Folder, small: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SMALL_OBJECT", small)
    info = folder.parquet("a.parquet")
    passed, converted = folder.steps_of(info)[0].batch, folder.steps_of(info, job=replace(JOB, passthrough=""))[0].batch
    assert passed is not None
    assert converted is not None
    assert passed.manifest != converted.manifest
    assert passed.batch_id == converted.batch_id


def test_an_object_that_was_cut_is_cut_again(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "SMALL_OBJECT", 0)
    values = {"id": range(4000), "name": [f"{n * 7919:0100}" for n in range(4000)], "at": [None] * 4000}
    pq.write_table(pa.table(values, SCHEMA), folder.path / "a.parquet", row_group_size=500)
    info = folder.storage.head(Url.parse(str(folder.path / "a.parquet")))

    def run(job: StreamJob) -> list[str]:
        cuts = Cuts(folder.storage, Url.parse(str(folder.path / "cuts")), "x")
        steps = folder.steps(Task((info,)), job=job, target_bytes=20_000, cuts=cuts)
        return [s.batch.batch_id for s in steps if s.batch]

    ids = run(replace(JOB, passthrough=""))
    assert len(ids) > 2
    assert run(JOB) == ids


def test_an_object_that_is_gone_leaves_the_id_as_it_was(folder: Folder) -> None:
    a, b = folder.parquet("a.parquet"), folder.parquet("b.parquet")
    before = folder.steps_of(a, b)[0].batch
    (folder.path / "a.parquet").unlink()
    after = Folder(folder.path).steps_of(a, b)[0].batch  # nothing is stored for removed files
    assert before is not None
    assert after is not None
    assert (after.batch_id, after.row_count) == (before.batch_id, 3)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (pa.schema(list(SCHEMA)[:2]), "its columns are not those of SCHEMA (at)"),
        (
            pa.schema([*list(SCHEMA)[:2], ("at", pa.timestamp("ms", "UTC"))]),
            "its column 'at' is timestamp[ms, tz=UTC], in SCHEMA timestamp[us, tz=UTC]",
        ),
        (pa.schema([("id", pa.int32()), *list(SCHEMA)[1:]]), "its column 'id' is int32, in SCHEMA int64"),
    ],
)
def test_parquet_of_other_columns_is_converted(
    folder: Folder, schema: pa.Schema, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = folder.parquet("a.parquet", schema=schema)
    with caplog.at_level("INFO"):
        step = folder.steps_of(info)[0]
    assert step.batch is not None
    assert step.batch.manifest != (str(info.url),)
    assert [r.message for r in caplog.records] == [f"{info.url} is converted although passthrough is on: {reason}"]


@pytest.mark.parametrize(
    ("job", "batch", "reason"),
    [
        ({"metadata_columns": True, "schema": pa.schema([*SCHEMA, *METADATA])}, {}, "metadata_columns adds columns"),
        ({"partitions": Partitions(hive=True)}, {}, "keys give columns"),
        ({"options": ReadOptions(excluded_members=frozenset({"x"}))}, {}, "the catalog does not select all of it"),
        ({"options": ReadOptions(on_bad_row="skip")}, {}, "on_bad_row and on_drift want each row looked at"),
        ({"schema": pa.schema([*SCHEMA, json_field(RESCUED)])}, {}, "on_bad_row and on_drift want each row looked at"),
        (
            {"passthrough": "jsonl"},
            {"format": "jsonl", "compression": "gzip"},
            "it is parquet, and batch files are jsonl",
        ),
    ],
)
def test_settings_that_want_rows_read_or_changed_win(
    folder: Folder, job: dict[str, Any], batch: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = folder.parquet("a.parquet")
    with caplog.at_level("INFO"):
        step = folder.steps_of(info, job=replace(JOB, **job), **batch)[0]
    assert step.batch is not None
    assert step.batch.manifest != (str(info.url),)
    assert caplog.records[0].message.endswith(f"passthrough is on: {reason}")


LINES = b'{"id": 1, "name": "a", "at": "2024-05-01T00:00:00Z"}\n{"id": 2}\n'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gzip.compress(LINES, mtime=0), ""),
        (LINES, "it is not compressed by gzip"),
        (gzip.compress(b"[" + LINES.replace(b"}\n{", b"},{").strip() + b"]", mtime=0), "it is a list"),
        (gzip.compress(b'{"id": "x"}\n', mtime=0), "its first lines do not fit SCHEMA (id)"),
        (gzip.compress(b'{"id": 1, "more": 2}\n', mtime=0), "its first lines do not fit SCHEMA (more)"),
    ],
    ids=["fits", "plain", "list", "type", "column"],
)
def test_json_lines_with_gzip_go_as_they_are(
    folder: Folder, data: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    info = folder.write("a.jsonl.gz", data)
    with caplog.at_level("INFO"):
        passed = passthrough_rows(replace(folder.context, job=replace(JOB, passthrough="jsonl")), Task((info,)))
    if reason:
        assert passed is None
        assert caplog.records[0].message.endswith(f"passthrough is on: {reason}")
    else:
        assert passed == [None]


def test_an_empty_object_is_left_out(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    info = folder.write("a.parquet", b"")
    assert [s.batch for s in folder.steps_of(info)] == [None]
    assert [r.message for r in caplog.records] == [f"{info.url} is empty and was skipped"]
