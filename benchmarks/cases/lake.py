"""Tables of a lake to BATCH Parquet: a table of Delta Lake and one of Iceberg, beside their files by a glob.

The third beside them is what each table's own library does: deltalake's `to_pyarrow_table`, pyiceberg's `to_arrow`, and
pyarrow's `write_table`, which have the whole table in memory. Yellow-taxi records of three months (9,523,182 rows of 19
columns), a commit and a file each; from local disk to local disk, all write zstd.
"""

from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect, parquet_batches, tap
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

COMMITS = 3
SEED = 2022


def build(bench: Workbench) -> Case:
    """Each table, its files, and its library."""
    rows = bench.rows(taxi.ROWS)
    delta = bench.made(f"lake-delta-{rows}", lambda to: _write_delta(to, rows))
    iceberg = _iceberg(bench, rows)
    contenders, goals = list[Contender](), list[Goal]()
    for kind, table, files in (("delta", delta, delta), ("iceberg", iceberg, iceberg / "data")):
        library = "deltalake" if kind == "delta" else "pyiceberg"
        contenders += [
            _tap(bench, f"tap, {kind}", {"path": str(table), "format": kind}, COMMITS * rows),
            _tap(bench, f"tap, the files of {kind}", {"path": f"{files}/*.parquet"}, COMMITS * rows),
            _library(bench, library, kind, table, COMMITS * rows),
        ]
        goals += [
            Goal(f"CPU of {kind} against its files", "cpu_s", f"tap, {kind}", f"tap, the files of {kind}", at_most=1.1),
            Goal(f"CPU of {kind} against {library}", "cpu_s", f"tap, {kind}", library, at_most=1),
            Goal(f"memory of {kind} against {library}", "peak_tree_mb", f"tap, {kind}", library, at_most=0.5),
        ]
    return Case("lake", __doc__ or "", contenders, goals, (("files", "files"),), rounds=3)


def _write_delta(to: Path, rows: int) -> None:
    import deltalake
    import pyarrow as pa

    for number in range(COMMITS):
        month = pa.concat_tables(taxi.chunks(rows, SEED + number))
        deltalake.write_deltalake(to, month, mode="append", target_file_size=1 << 40)  # type: ignore[call-overload]


def _iceberg(bench: Workbench, rows: int) -> Path:
    """The folder of a table, whose metadata has the path at which it was written."""
    import pyarrow as pa
    from pyiceberg.catalog import load_catalog

    folder = bench.data / f"lake-iceberg-{rows}"
    if not (folder / "whole").exists():
        folder.mkdir(exist_ok=True)
        (folder / "catalog.db").unlink(missing_ok=True)
        settings = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": folder.absolute().as_uri()}
        catalog = load_catalog("bench", **settings)
        catalog.create_namespace("bench")
        table = None
        for number in range(COMMITS):
            month = pa.concat_tables(taxi.chunks(rows, SEED + number))
            if table is None:
                properties = {"write.target-file-size-bytes": str(1 << 40)}
                table = catalog.create_table("bench.trips", month.schema, properties=properties)
            table.append(month)
        (folder / "whole").touch()
    return folder / "bench" / "trips"


def _tap(bench: Workbench, name: str, stream: dict[str, Any], rows: int) -> Contender:
    def commands(folder: Path) -> list[Command]:
        config = {
            "streams": [{"name": "trips", **stream}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.absolute().as_uri()}},
            "metadata_columns": False,
        }
        return [tap(bench, folder, config)]

    settings = "`tap-s3-files`, BATCH Parquet (zstd), `metadata_columns: false`, all else by default"
    return Contender(name, settings, commands, parquet_batches(None, rows))


def _library(bench: Workbench, name: str, kind: str, table: Path, rows: int) -> Contender:
    def commands(folder: Path) -> list[Command]:
        source = table if kind == "delta" else max((table / "metadata").glob("*.metadata.json"))
        return [Command([*program("copy_table"), kind, folder, source], bench.env)]

    def facts(folder: Path, _: Measured) -> Facts:
        import pyarrow.parquet as pq

        written = folder / "table.parquet"
        found = pq.read_metadata(written).num_rows
        return {"rows": expect(rows, found), "bytes": written.stat().st_size, "files": 1}

    reads = (
        "DeltaTable(...).to_pyarrow_table()" if kind == "delta" else "StaticTable.from_metadata(...).scan().to_arrow()"
    )
    return Contender(name, f"`{reads}`, `pq.write_table(compression='zstd', compression_level=1)`", commands, facts)
