"""Parquet to BATCH Parquet: tap-s3-files beside plain pyarrow, which reads the same files and writes them again.

The files have the shape of New York's yellow-taxi records of a month (3,174,394 rows, 19 columns, 62 MB of snappy
Parquet in four row groups). Both sides write zstd. Once from local disk to local disk, once from the local S3 to the
local S3 (moto, whose own work is not counted but makes waiting times longer than those of a real S3). The tap is the
real executable: its start, its schema discovery and its messages are included.
"""

from pathlib import Path
from typing import Any

from pyarrow import fs

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect, parquet_batches, tap
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

SEED = 2022


def build(bench: Workbench) -> Case:
    """One file of 3,174,394 rows."""
    return _build(bench, "parquet", files=1)


def build_five(bench: Workbench) -> Case:
    """Five such files, 15,871,970 rows: what a run costs when its start weighs little."""
    return _build(bench, "parquet-5-files", files=5)


def source_files(bench: Workbench, count: int) -> list[Path]:
    """The files, made if need be."""
    rows = bench.rows(taxi.ROWS)

    def file(number: int) -> Path:
        name = f"taxi-{rows}-{number}.parquet"
        return bench.made(name, lambda path: taxi.write_parquet(path, rows, seed=SEED + number))

    return [file(number) for number in range(count)]


def _build(bench: Workbench, name: str, *, files: int) -> Case:
    sources = source_files(bench, files)
    rows = bench.rows(taxi.ROWS) * files
    cloud = bench.cloud("s3")
    s3 = fs.S3FileSystem(
        endpoint_override=cloud.s3_url.partition("//")[2], scheme="http", access_key="test", secret_key="testtesttest"
    )
    place = Place(bench, rows, s3, _upload(cloud, name, sources), [str(path) for path in sources])
    return Case(
        name=name,
        about=f"{__doc__}\nHere {files} file{'s' if files > 1 else ''}, {rows:,} rows.",
        contenders=[
            place.pyarrow("pyarrow, disk", s3_side=False),
            place.tap("tap, disk", s3_side=False, metadata=False),
            place.tap("tap with metadata, disk", s3_side=False, metadata=True),
            place.pyarrow("pyarrow, S3", s3_side=True),
            place.tap("tap, S3", s3_side=True, metadata=False),
        ],
        goals=[
            Goal("CPU against plain pyarrow, disk", "cpu_s", "tap, disk", "pyarrow, disk", at_most=1.1),
            Goal("CPU against plain pyarrow, S3", "cpu_s", "tap, S3", "pyarrow, S3", at_most=1.1),
        ],
        columns=(("files", "files"),),
        rounds=5 if files == 1 else 3,
    )


def _upload(cloud: Any, name: str, sources: list[Path]) -> str:
    from local_cloud.s3 import setup

    client = setup.client("s3", cloud.s3_url)
    bucket = cloud.env["LOCAL_CLOUD_SOURCE_BUCKET"]
    for source in sources:
        client.upload_file(str(source), bucket, f"{name}/{source.name}")
    return f"s3://{bucket}/{name}"


class Place:
    """The contenders on disk and on S3."""

    def __init__(self, bench: Workbench, rows: int, s3: fs.FileSystem, prefix: str, paths: list[str]) -> None:
        self._bench = bench
        self._rows = rows
        self._s3 = s3
        self._prefix = prefix
        self._paths = paths
        self._stage = f"s3://{bench.env['LOCAL_CLOUD_STAGE_BUCKET']}"

    def pyarrow(self, name: str, *, s3_side: bool) -> Contender:
        """read_table and write_table, file by file."""

        def commands(folder: Path) -> list[Command]:
            if not s3_side:
                return [Command([*program("copy_parquet"), folder, *self._paths], self._bench.env)]
            sources = [f"{self._prefix}/{Path(path).name}" for path in self._paths]
            out = f"{self._stage}/{folder.name}"
            return [Command([*program("copy_parquet"), out, *sources], self._bench.env)]

        def facts(folder: Path, _: Measured) -> Facts:
            place, root = (self._s3, f"{self._stage[5:]}/{folder.name}") if s3_side else (fs.LocalFileSystem(), folder)
            found = place.get_file_info(fs.FileSelector(str(root)))
            written = [each for each in found if each.path.endswith(".parquet")]
            rows = sum(_rows_of(place, each.path) for each in written)
            self._clear(folder)
            return {"rows": expect(self._rows, rows), "bytes": sum(e.size for e in written), "files": len(written)}

        settings = "`pq.read_table`, `pq.write_table(compression='zstd', compression_level=1)`, file by file"
        return Contender(name, settings, commands, facts)

    def tap(self, name: str, *, s3_side: bool, metadata: bool) -> Contender:
        """The executable, BATCH Parquet."""

        def commands(folder: Path) -> list[Command]:
            root = f"{self._stage}/{folder.name}" if s3_side else folder.absolute().as_uri()
            path: Any = f"{self._prefix}/*.parquet" if s3_side else self._paths
            config = {
                "streams": [{"name": "trips", "path": path}],
                "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": root}},
                "metadata_columns": metadata,
            }
            return [tap(self._bench, folder, config)]

        count = parquet_batches(self._s3, self._rows)

        def facts(folder: Path, measured: Measured) -> Facts:
            counted = count(folder, measured)
            self._clear(folder)
            return counted

        columns = "true (five more columns)" if metadata else "false"
        settings = f"`tap-s3-files`, BATCH Parquet (zstd), `metadata_columns: {columns}`, all else by default"
        return Contender(name, settings, commands, facts)

    def _clear(self, folder: Path) -> None:
        """Remove what a run left on S3, which the local S3 holds in memory."""
        self._s3.delete_dir_contents(f"{self._stage[5:]}/{folder.name}", missing_dir_ok=True)


def _rows_of(place: fs.FileSystem, path: str) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path, filesystem=place).num_rows)
