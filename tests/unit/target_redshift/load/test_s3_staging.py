"""Files and manifests in `s3_stage`; here it is a folder."""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError
from singer_arrow.formats import WRITABLE
from singer_arrow.load import convert as spool
from singer_arrow.runtime.threads import DaemonPool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_redshift.uploads import LEAST_BYTES, CopyFile, S3StagingFolder, manifest

SCHEMA = pa.schema([("id", pa.int64()), ("noise", pa.binary())])


class AsParquet:
    """An encoding that, after the file for the estimate, blocks until that many files are written at once."""

    suffix = ".parquet"

    def __init__(self, at_once: int = 1, fails_at: int | None = None) -> None:
        self.fails_at, self.together, self.is_estimated = fails_at, threading.Barrier(at_once), False

    def write(self, batches: Iterable[pa.RecordBatch], path: Path) -> int:
        if self.is_estimated:
            self.together.wait(60)
        self.is_estimated = True
        content = list(batches)
        if self.fails_at is not None and self.fails_at in {i for b in content for i in b.column("id").to_pylist()}:
            raise DataError("a bad row")
        return WRITABLE["parquet"].write(content, SCHEMA, path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@pytest.fixture
def stage(tmp_path: Path, folder: Path) -> S3StagingFolder:
    names = itertools.count()
    root = Url.parse(folder.as_uri())
    return S3StagingFolder(
        Storage(),
        root,
        temporary=lambda suffix: tmp_path / f"{next(names)}{suffix}",
        workers=DaemonPool(4, "stage"),
        parallel=4,
        slices=lambda: 4,
    )


def noise(tmp_path: Path, rows: int, width: int, *, name: str = "s") -> spool.Spool:
    """Return incompressible rows."""
    chance = random.Random(rows)
    content = pa.RecordBatch.from_arrays(
        [pa.array(range(rows), pa.int64()), pa.array([chance.randbytes(width) for _ in range(rows)], pa.binary())],
        schema=SCHEMA,
    )
    return spool.write_spool([content], SCHEMA, tmp_path / f"{name}.arrow")


def objects(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


def test_small_groups_are_one_file(stage: S3StagingFolder, tmp_path: Path) -> None:
    spools = [noise(tmp_path, 10, 100, name="a"), noise(tmp_path, 20, 100, name="b")]
    (file,) = stage.upload(spools, AsParquet())
    path = Url.parse(file.url).local_path()
    assert (file.rows, file.bytes) == (30, path.stat().st_size)
    assert pq.read_table(path).column("id").to_pylist() == [*range(10), *range(20)]


def test_large_groups_are_a_multiple_of_the_slices_written_at_once(
    stage: S3StagingFolder, tmp_path: Path, folder: Path
) -> None:
    files = stage.upload([noise(tmp_path, 3000, 4000)], AsParquet(at_once=2))
    assert len(files) == 4
    assert all(LEAST_BYTES <= f.bytes <= 1 << 30 for f in files)
    assert [i for f in files for i in pq.read_table(Url.parse(f.url).local_path()).column("id").to_pylist()] == list(
        range(3000)
    )
    assert sum(f.rows for f in files) == 3000
    assert len(objects(folder)) == 4
    assert {p.suffix for p in tmp_path.iterdir() if p.is_file()} == {".arrow"}  # nothing else stays on local disk


def test_the_count_follows_what_compression_leaves(stage: S3StagingFolder, tmp_path: Path) -> None:
    rows = 1_000_000
    same = pa.RecordBatch.from_arrays(
        [pa.array([7] * rows, pa.int64()), pa.array([b"the same"] * rows, pa.binary())], schema=SCHEMA
    )
    files = stage.upload([spool.write_spool([same], SCHEMA, tmp_path / "same.arrow")], AsParquet())
    assert len(files) == 1  # 30 MB in memory, some KB as a file


def test_if_one_fails_nothing_stays(stage: S3StagingFolder, tmp_path: Path, folder: Path) -> None:
    with pytest.raises(DataError, match="a bad row"):
        stage.upload([noise(tmp_path, 3000, 4000)], AsParquet(fails_at=2999))
    assert objects(folder) == []
    assert {p.suffix for p in tmp_path.iterdir() if p.is_file()} == {".arrow"}


def test_manifests_have_sizes_and_are_mandatory(stage: S3StagingFolder) -> None:
    files = [CopyFile("s3://b/ä 'quote' \"x\".parquet", 10, 1), CopyFile("s3://b/c", 20, 2)]
    url = stage.put_manifest(files, "rows", "b1")
    assert url.name == "rows-b1-00000.manifest"
    content = json.loads(url.local_path().read_bytes())
    assert content == json.loads(manifest(files))
    assert content["entries"][0] == {"url": files[0].url, "mandatory": True, "meta": {"content_length": 10}}
    assert len(content["entries"]) == 2
    stage.remove([url])
    assert not url.local_path().exists()
    stage.remove([url])
