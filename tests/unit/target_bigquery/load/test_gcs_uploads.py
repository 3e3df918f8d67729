"""Uploads to Google Cloud Storage, here a folder: written atomically, and many for one job."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import LoadError
from singer_arrow.load.staging import FOLDER, StagingFolder
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_bigquery import gcs_uploads as staged
from target_bigquery.columns import columns_of
from target_bigquery.connection import logger
from target_bigquery.conversion import Conversion
from target_bigquery.gcs_uploads import StagedFiles
from target_bigquery.target import TargetBigQuery
from target_bigquery.uploads import Item, PreparedItem, Processes

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


@pytest.fixture
def files(tmp_path: Path) -> Iterator[StagedFiles]:
    numbers = iter(range(1000))
    (tmp_path / "temporary").mkdir()
    processes, storage = Processes(1), Storage()
    stage = StagingFolder(storage, Url.parse((tmp_path / "stage").as_uri()), logger)
    yield StagedFiles(storage, lambda s: tmp_path / "temporary" / f"{next(numbers)}{s}", processes, stage, 2)
    assert list((tmp_path / "temporary").iterdir()) == []
    processes.close()


def item(*paths: Path, **more: Any) -> Item:
    conversion = Conversion(columns_of(SCHEMA), SCHEMA)
    file_format = "parquet" if paths[0].suffix == ".parquet" else "jsonl"
    return Item(tuple(p.as_uri() for p in paths), file_format, conversion, stream="rows", **more)


def parquet(path: Path, first: int, rows: int, **more: Any) -> Path:
    numbers = list(range(first, first + rows))
    pq.write_table(pa.table({"id": numbers, "name": [f"n{n}" for n in numbers], **more}), path)
    return path


def ids(part: PreparedItem) -> list[int]:
    return [i for uri in part.uris for i in pq.read_table(Url.parse(uri).local_path()).column("id").to_pylist()]


def test_files_that_fit_are_put_as_they_are(files: StagedFiles, tmp_path: Path) -> None:
    paths = [parquet(tmp_path / f"{n}.parquet", n * 4, 4) for n in range(2)]
    part = files.prepare(item(*paths, batch_id="b1"), "parquet")
    assert (part.rows, part.bytes, part.files, ids(part)) == (8, sum(p.stat().st_size for p in paths), (), [*range(8)])
    assert [Url.parse(u).local_path().read_bytes() for u in part.uris] == [p.read_bytes() for p in paths]
    assert [str(u) for u in part.staged] == list(part.uris)
    assert [u.name for u in part.staged] == ["rows-b1-00000.parquet", "rows-b1-00001.parquet"]
    assert all(f"/stage/{FOLDER}/20" in u for u in part.uris)
    assert all(p.exists() for p in paths)


@pytest.mark.parametrize("upload_format", ["parquet", "avro", "jsonl"])
def test_others_are_converted_first(upload_format: str, files: StagedFiles, tmp_path: Path) -> None:
    odd = parquet(tmp_path / "odd.parquet", 0, 3, more=[1, 2, 3])
    lines = tmp_path / "lines.jsonl.gz"
    lines.write_bytes(gzip.compress("".join(json.dumps({"id": n, "name": "x"}) + "\n" for n in range(4)).encode()))
    parts = [files.prepare(item(path), upload_format) for path in (odd, lines)]
    assert [part.rows for part in parts] == [3, 4]
    assert all(len(part.uris) == len(part.staged) == 1 for part in parts)
    suffix = {"parquet": ".parquet", "avro": ".avro", "jsonl": ".jsonl.gz"}[upload_format]
    assert all(part.uris[0].endswith(f"rows-records-0000{n}{suffix}") for n, part in enumerate(parts))
    if upload_format == "parquet":
        assert ids(parts[0]) == [0, 1, 2]
        assert pq.read_schema(parts[0].staged[0].local_path()).names == ["id", "name"]
    upload = files.join(parts, upload_format)
    assert (upload.path, upload.rows, upload.jobs) == (None, 7, ())
    assert upload.uris == tuple(uri for part in parts for uri in part.uris)
    assert upload.bytes == sum(u.local_path().stat().st_size for part in parts for u in part.staged)


def test_what_has_no_row_is_not_put(files: StagedFiles, tmp_path: Path) -> None:
    part = files.prepare(item(parquet(tmp_path / "a.parquet", 0, 0)), "parquet")
    assert (part.rows, part.uris) == (0, ())
    assert not (tmp_path / "stage").exists()


def part(uris: int, size: int = 1) -> PreparedItem:
    made = Item(("s3://b/x",), "parquet", Conversion((), pa.schema([])))
    return PreparedItem(made, rows=uris, bytes=size, uris=tuple(f"gs://b/{n}" for n in range(uris)))


@pytest.mark.parametrize(
    ("parts", "jobs"),
    [
        ([], []),
        ([part(10_000)], [10_000]),
        ([part(9_999), part(1), part(1)], [10_000, 1]),
        ([part(6_000), part(6_000), part(3_000)], [6_000, 9_000]),
        ([part(1)] * 20_001, [10_000, 10_000, 1]),
        ([part(1, 8 * 10**12), part(2, 7 * 10**12), part(3, 1)], [3, 3]),
    ],
)
def test_no_job_gets_more_than_it_takes(files: StagedFiles, parts: list[PreparedItem], jobs: list[int]) -> None:
    assert [sum(len(p.uris) for p in group) for group in files.per_job(parts)] == jobs
    upload = files.join(parts, "parquet")
    assert len(upload.uris) == sum(jobs)
    assert [(len(job.uris), job.rows) for job in upload.jobs] == ([(n, n) for n in jobs] if len(jobs) > 1 else [])


def test_one_message_of_more_files_than_a_job_takes_becomes_one_file(
    files: StagedFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "MOST_URIS", 2)
    made = files.prepare(item(*(parquet(tmp_path / f"{n}.parquet", n, 1) for n in range(3))), "parquet")
    assert (len(made.uris), ids(made), made.rows) == (1, [0, 1, 2], 3)


def test_a_file_that_changes_while_it_is_loaded_is_an_error(files: StagedFiles, tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", 0, 3)
    info = Storage().head(Url.parse(path.as_uri()))
    in_place = replace(part(1), in_place=(info,))
    upload = files.join([in_place, part(1)], "parquet")
    assert upload.check
    upload.check()
    parquet(path, 0, 4)
    with pytest.raises(LoadError, match=r"a\.parquet was replaced or deleted while BigQuery loaded it"):
        upload.check()
    path.unlink()
    with pytest.raises(LoadError, match=r"a\.parquet was replaced or deleted"):
        upload.check()


def test_more_is_done_at_once_where_that_is_putting_files_into_the_stage() -> None:
    def workers(**more: Any) -> tuple[int, int]:
        target = TargetBigQuery(config={"project": "p", "dataset": "d", **more})
        return target.run.limits.workers, target.run.cores

    put, cores = workers(gcs_stage="gs://b/x")
    assert put == max(8, cores)
    assert (
        workers()[0] == workers(gcs_stage="gs://b/x", load_via="storage_write")[0] == cores
    )  # rows are converted here
