"""Peak memory of the tap for one large CSV, far larger than the memory it may use.

One uncompressed CSV of taxi trips on local disk (the local S3 would hold it in memory itself) to BATCH Parquet on local
disk, with default settings (`memory_limit_mb: 512`), types inferred. Beside it plain pyarrow that reads and writes
block by block. Memory is the peak of the sum of the resident sets of all processes.
"""

from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect, parquet_batches, tap
from benchmarks.generators import taxi
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

SEED = 5
LARGE = 2_000_000_000


def build(bench: Workbench) -> Case:
    """1 GB."""
    return _build(bench, "memory", 1_000_000_000, rounds=2)


def build_large(bench: Workbench) -> Case:
    """5 GB."""
    return _build(bench, "memory-5gb", 5_000_000_000, rounds=1)


def _build(bench: Workbench, name: str, size: int, *, rounds: int) -> Case:
    size = bench.rows(size)
    source = bench.made(f"trips-{size}.csv", lambda path: taxi.write_csv(path, size, seed=SEED))
    rows = _lines(source) - 1

    def ours(folder: Path) -> list[Command]:
        config = {
            "streams": [{"name": "trips", "path": str(source)}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.absolute().as_uri()}},
            "metadata_columns": False,
        }
        return [tap(bench, folder, config)]

    def plain(folder: Path) -> list[Command]:
        return [Command([*program("csv_to_parquet"), folder / "out.parquet", source], bench.env)]

    def plain_facts(folder: Path, _: Measured) -> Facts:
        import pyarrow.parquet as pq

        path = folder / "out.parquet"
        return {"rows": expect(rows, pq.read_metadata(path).num_rows), "bytes": path.stat().st_size}

    return Case(
        name=name,
        about=f"{__doc__}\nHere {source.stat().st_size / 1e9:.2g} GB, {rows:,} rows.",
        contenders=[
            Contender(
                "pyarrow", "`csv.open_csv` (blocks of 16 MB), `ParquetWriter` (zstd 1)", plain, plain_facts, rounds
            ),
            Contender(
                "tap",
                "`tap-s3-files`, BATCH Parquet (zstd), `metadata_columns: false`, all else by default",
                ours,
                parquet_batches(None, rows),
                rounds,
            ),
        ],
        goals=[Goal("peak MB of the tap", "peak_tree_mb", "tap", at_most=700)],
        columns=(("files", "files"),),
        rounds=rounds,
        picture="peak_tree_mb",
        discard=[source] if size > LARGE else (),
    )


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b""))
