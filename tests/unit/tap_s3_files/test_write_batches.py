"""A task gives the same batch files, messages and ids on every run, also after failures of others."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from convert_folder import JOB, SOURCE, Folder, file_of

from singer_arrow.errors import ConfigError, DataError, ObjectChangedError
from singer_arrow.reading.parallel import Budget
from singer_arrow.runtime.threads import Stopped
from singer_arrow.storage.urls import Url
from tap_s3_files.discover import METADATA
from tap_s3_files.plan_model import Task
from tap_s3_files.read import NEW_VERSION, read
from tap_s3_files.run import format_of


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


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


def test_metadata_columns_are_not_read_from_files(folder: Folder) -> None:
    info = folder.write("a.csv", "id,name,_sdc_source_file\n1,a,x\n")
    own = replace(JOB, schema=pa.schema([*SOURCE, METADATA.field("_sdc_source_file")]))
    assert [row["_sdc_source_file"] for row in folder.rows(info, job=own)] == [info.url.key]
    assert folder.rows(info, job=replace(own, metadata_columns=False))[0]["_sdc_source_file"] == "x"
    with pytest.raises(ConfigError, match="Only metadata columns"):
        folder.rows(info, job=replace(JOB, schema=METADATA))


@pytest.mark.parametrize(
    ("settings", "encoding", "suffix"),
    [
        ({"format": "parquet", "compression": "zstd"}, {"format": "parquet", "compression": "zstd"}, ".parquet"),
        ({"format": "parquet", "compression": "none"}, {"format": "parquet"}, ".parquet"),
        ({"format": "jsonl", "compression": "gzip"}, {"format": "jsonl", "compression": "gzip"}, ".jsonl.gz"),
        ({"format": "jsonl", "compression": "none"}, {"format": "jsonl"}, ".jsonl"),
    ],
)
def test_a_batch_file_holds_the_rows_that_its_message_counts(
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


@pytest.mark.full
def test_the_same_task_gives_the_same_messages(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tap_s3_files.plan_model.SMALL_OBJECT", 0)
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


def test_ids_depend_on_objects_and_versions_only(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 5)
    other = folder.csv("b.csv", 0, 5)
    changed = replace(JOB, schema=pa.schema([("id", pa.int32()), SOURCE.field("name"), *METADATA]))
    fewer = replace(JOB, schema=pa.schema([SOURCE.field("id")]), settings="others")
    same = [*folder.convert(info), *folder.convert(info, job=changed), *folder.convert(info, job=fewer)]
    assert len({b.batch_id for b in same}) == 1
    assert len({b.manifest for b in same}) == 3
    batches = [
        same[0],
        *folder.convert(other),
        *folder.convert(info, other),
        *folder.convert(info, job=replace(JOB, stream="others")),
        *folder.convert(info, job=replace(JOB, version=7)),
        *folder.convert(folder.csv("a.csv", 0, 6)),
    ]
    assert len({b.batch_id for b in batches}) == len(batches) == 6
    assert [b.version for b in batches] == [None] * 4 + [7, None]


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
    assert folder.context.progress.counts.skipped_objects == 2
    assert folder.context.progress.take_changed() == [b, c]


@pytest.mark.full
def test_an_object_that_changes_while_it_is_read_is_an_error(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 2_000_000)  # more than one request
    reads_little_ahead = replace(folder.context, budget=Budget(1 << 20))
    batches = read(reads_little_ahead, Task((info,)))
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


def test_an_unknown_suffix_is_an_error(folder: Folder) -> None:
    info = folder.write("data", "id,name\n1,a\n")
    with pytest.raises(DataError, match="Set the stream's 'format'"):
        folder.rows(info)
    assert [r["id"] for r in folder.rows(info, job=replace(JOB, format="csv"))] == [1]
    assert format_of("auto", Url.parse("s3://b/x.jsonl.gz")) == "jsonl"


def test_a_cancelled_task_stops(folder: Folder) -> None:
    batches: Iterator[Any] = read(folder.context, Task((folder.csv("a.csv", 0, 2),)))
    folder.context.stop.set()
    with pytest.raises(Stopped):
        next(batches)


def test_everything_is_counted(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 50_000)
    batches = folder.convert(info, target_bytes=20_000)
    counts = folder.context.progress.counts
    assert (counts.objects, counts.rows_read, counts.rows_written, counts.bytes) == (1, 50_000, 50_000, info.size)
    assert counts.batch_files == len(batches)
