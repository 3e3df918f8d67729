"""How time and memory grow with the input, and with the cores: one CSV of trips to BATCH Parquet, on local disk.

Sizes of 0.25, 0.5 and 1 GB, `scaling-10gb` (by name only) of 1, 2, 5 and 10 GB: a block of 30 MB repeated. Each on one
core and on two (`taskset`), with `max_workers` 2 and `memory_limit_mb` 512. Work per byte and peak memory are to stay
the same however large the file is. The file is read from the page cache as far as that holds it. polars and DuckDB
convert the largest file likewise.
"""

import os
from pathlib import Path

from pyarrow import fs

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases import floors
from benchmarks.cases.taxi_files import parquet_files
from benchmarks.connectors import parquet_batches, tap
from benchmarks.generators import hostile
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench

GB = 1_000_000_000
SIZES = (GB // 4, GB // 2, GB)
LARGE = (GB, 2 * GB, 5 * GB, 10 * GB)
KEPT = 2 * GB
CORES = (1, 2)
PEAK_MB = 762
GROWTH = 1.15


def build(bench: Workbench) -> Case:
    """0.25 to 1 GB."""
    return _build(bench, "scaling", SIZES, rounds=2)


def build_large(bench: Workbench) -> Case:
    """1 to 10 GB."""
    return _build(bench, "scaling-10gb", LARGE, rounds=1)


def _build(bench: Workbench, name: str, sizes: tuple[int, ...], *, rounds: int) -> Case:
    files = [_file(bench, bench.rows(size)) for size in sizes]
    scripts = [(who, cores) for who in floors.present(bench) for cores in CORES]
    one = _name(sizes[-1], 1)
    least, most = (_name(sizes[at], CORES[-1]) for at in (0, -1))
    return Case(
        name=name,
        about=__doc__ or "",
        contenders=[
            _contender(bench, size, path, cores, rounds)
            for size, path in zip(sizes, files, strict=True)
            for cores in CORES
        ]
        + [_script(bench, who, sizes[-1], files[-1], cores, rounds) for who, cores in scripts],
        goals=[
            Goal("peak MB, largest file", "peak_tree_mb", most, at_most=PEAK_MB),
            Goal("memory, largest against smallest file", "peak_tree_mb", most, least, at_most=1.25),
            Goal("MB per CPU second, largest against smallest", "mb_per_cpu_s", most, least, at_least=1 / GROWTH),
            Goal("MB a second, two cores against one", "mb_per_s", most, one, at_least=1.8),
            *_over_duckdb(most, {_script_name(who, sizes[-1], cores) for who, cores in scripts}, sizes[-1]),
        ],
        columns=(("mb_per_cpu_s", "MB per CPU s"), ("mb_per_s", "MB/s"), ("files", "files")),
        rounds=rounds,
        discard=[path for path in files if path.stat().st_size > KEPT],
    )


def _file(bench: Workbench, size: int) -> Path:
    return bench.made(f"scaling-{size}.csv", lambda path: hostile.repeated_csv(path, size, seed=11))


def _contender(bench: Workbench, size: int, path: Path, cores: int, rounds: int) -> Contender:
    length, rows = path.stat().st_size, rows_in(path)

    def commands(folder: Path) -> list[Command]:
        config = {
            "streams": [{"name": "trips", "path": str(path)}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.absolute().as_uri()}},
            "metadata_columns": False,
            "max_workers": 2,
            "memory_limit_mb": 512,
        }
        run = tap(bench, folder, config)
        return [Command([*on_cores(cores), *run.argv], run.env)]

    count = parquet_batches(None, rows)

    def facts(folder: Path, measured: Measured) -> Facts:
        return count(folder, measured) | _rates(length, measured)

    settings = f"{length / 1e9:.2f} GB, {rows:,} rows, {cores_text(cores)}"
    return Contender(_name(size, cores), settings, commands, facts, rounds)


def _script(bench: Workbench, who: str, size: int, path: Path, cores: int, rounds: int) -> Contender:
    length, count = path.stat().st_size, rows_in(path)

    def commands(folder: Path) -> list[Command]:
        (folder / "out").mkdir()
        run = floors.argv(bench, who, "csv", str(folder.absolute() / "out"), [str(path.absolute())])
        return [Command([*on_cores(cores), *run], bench.env)]

    def facts(folder: Path, measured: Measured) -> Facts:
        return parquet_files(fs.LocalFileSystem(), str(folder / "out"), count) | _rates(length, measured)

    settings = f"{floors.settings(bench, who, 'csv', from_s3=False)}; {cores_text(cores)}"
    return Contender(_script_name(who, size, cores), settings, commands, facts, rounds)


def _over_duckdb(ours: str, there: set[str], size: int) -> list[Goal]:
    duckdb = _script_name(floors.DUCKDB, size, CORES[-1])
    texts = {"wall_s": "seconds", "cpu_s": "CPU seconds"}
    return [
        Goal(f"CSV, largest file: {text} over DuckDB's", metric, ours, duckdb, at_most=0.8)
        for metric, text in texts.items()
        if duckdb in there
    ]


def _rates(length: int, measured: Measured) -> Facts:
    return {"mb_per_cpu_s": length / 1e6 / measured.cpu, "mb_per_s": length / 1e6 / measured.wall}


def on_cores(cores: int) -> list[str]:
    """Return the beginning of a command that runs on some cores."""
    return ["taskset", "--cpu-list", ",".join(str(core) for core in _cores()[:cores])]


def _name(size: int, cores: int) -> str:
    return f"{size / GB:g} GB, {cores_text(cores)}"


def _script_name(who: str, size: int, cores: int) -> str:
    return f"{who}, {_name(size, cores)}"


def cores_text(cores: int) -> str:
    """Return a number of cores in words."""
    return f"{cores} core{'s' if cores > 1 else ''}"


def _cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def rows_in(path: Path) -> int:
    """Return the number of rows of a CSV file with a header."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b"")) - 1
