"""CSV divided between processes: by Dask, and by shards. 12 files of trips under gzip, 4 GB of text; one file of 4 GB.

Each worker and each shard has a core; a run on threads has two workers on both cores, or one on one. CPU seconds are
those of the tap; `total CPU s` has those of Dask's workers and scheduler too, without their start. `1,000 tasks` is
1,000 small files, each a task of its own: what a task costs the tap that sends it. The one file is not compressed, so
that it is divided into 16 ranges of 256 MB, by default, which are scanned for quotes first; a run on threads reads it
whole. All from local disk.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.scaling import rows_in
from benchmarks.connectors import parquet_batches, tap
from benchmarks.generators import hostile, taxi
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.processes import cpu_seconds
from benchmarks.workbench import Workbench
from local_cloud.dask.cluster import DaskCluster

FILES, ROWS = 12, taxi.ROWS
LARGE_BYTES = 16 * 256 << 20
TASKS, TASK_ROWS = 1000, 200
_TINY_MB = 0.001
_CORES = sorted(os.sched_getaffinity(0))[:2]
_OVER_THREADS, _FASTER, _DRIVER_MS, _OVER_ONE = 1.1, 1.8, 10, 1.05


def build_dask(bench: Workbench) -> Case:
    """Dask workers."""
    folder, rows = _trips(bench)
    threads, one, two, many = "threads, 2 cores", "Dask, 1 worker", "Dask, 2 workers", f"Dask, {TASKS:,} tasks"
    small = bench.made(f"tasks-{TASKS}", lambda path: _links(path, TASKS, TASK_ROWS))
    large, large_rows = _large(bench)
    whole, large_one, large_two = (f"one file, {name}" for name in (threads, one, two))
    return Case(
        name="dask",
        about=__doc__ or "",
        contenders=[
            _threads(bench, threads, folder, rows, _CORES),
            _dask(bench, one, folder, rows, FILES, workers=1),
            _dask(bench, two, folder, rows, FILES, workers=2),
            _threads(bench, whole, large, large_rows, _CORES),
            _dask(bench, large_one, large, large_rows, FILES, workers=1),
            _dask(bench, large_two, large, large_rows, FILES, workers=2),
            _dask(bench, many, small, TASKS * TASK_ROWS, TASKS, workers=2, file_mb=_TINY_MB),
        ],
        goals=[
            Goal("total CPU of two workers over threads", "total_cpu_s", two, threads, at_most=_OVER_THREADS),
            Goal("two workers, times as fast as one", "wall_s", two, one, at_least=_FASTER, turned=True),
            Goal(
                "one file: two workers, times as fast as one",
                "wall_s",
                large_two,
                large_one,
                at_least=_FASTER,
                turned=True,
            ),
            Goal("CPU of the tap, ms a task", "tap_ms_per_task", many, at_most=_DRIVER_MS),
        ],
        columns=(("total_cpu_s", "total CPU s"), ("tap_ms_per_task", "tap ms / task")),
        rounds=2,
    )


def build_shards(bench: Workbench) -> Case:
    """Shards."""
    folder, rows = _trips(bench)
    one, both, shards = "one run, 1 core", "one run, 2 cores", "2 shards, a core each"
    large, large_rows = _large(bench)
    large_one, large_both, large_shards = (f"one file, {name}" for name in (one, both, shards))
    return Case(
        name="shards",
        about=__doc__ or "",
        contenders=[
            _threads(bench, one, folder, rows, _CORES[:1]),
            _threads(bench, both, folder, rows, _CORES),
            _shards(bench, shards, folder, rows),
            _threads(bench, large_one, large, large_rows, _CORES[:1]),
            _threads(bench, large_both, large, large_rows, _CORES),
            _shards(bench, large_shards, large, large_rows),
        ],
        goals=[
            Goal("CPU of two shards over one run on two cores", "cpu_s", shards, both, at_most=_OVER_ONE),
            Goal(
                "two shards, times as fast as one run on one core", "wall_s", shards, one, at_least=_FASTER, turned=True
            ),
        ],
        rounds=2,
    )


def _trips(bench: Workbench) -> tuple[Path, int]:
    rows = bench.rows(ROWS)
    return bench.made(f"divided-{rows}", lambda path: _links(path, FILES, rows)), rows * FILES


def _large(bench: Workbench) -> tuple[Path, int]:
    size = bench.rows(LARGE_BYTES)
    folder = bench.made(f"divided-one-{size}", lambda path: _one_file(path, size))
    return folder, rows_in(folder / "0.csv")


def _one_file(folder: Path, size: int) -> None:
    folder.mkdir()
    hostile.repeated_csv(folder / "0.csv", size, seed=5)


def _links(folder: Path, count: int, rows: int) -> None:
    """One file under several names."""
    folder.mkdir()
    taxi.write_text(folder / "0.csv.gz", rows, seed=5)
    for number in range(1, count):
        (folder / f"{number}.csv.gz").hardlink_to(folder / "0.csv.gz")


def _settings(source: Path, folder: Path, *, file_mb: float = 128, **more: Any) -> dict[str, Any]:
    storage = {"root": (folder / "out").absolute().as_uri()}
    return {
        "streams": [{"name": "trips", "path": f"{source.absolute().as_uri()}/*.csv*"}],
        "batch_config": {"encoding": {"format": "parquet"}, "storage": storage, "target_file_mb": file_mb},
        "metadata_columns": False,
        **more,
    }


def _threads(bench: Workbench, name: str, source: Path, rows: int, cores: Sequence[int]) -> Contender:
    def commands(folder: Path) -> Sequence[Command]:
        run = tap(bench, folder, _settings(source, folder, max_workers=len(cores)))
        return [Command([*_on(cores), *run.argv], run.env)]

    def facts(folder: Path, measured: Measured) -> Facts:
        return parquet_batches(None, rows)(folder, measured) | {"total_cpu_s": measured.cpu}

    return Contender(name, f"`tap-s3-files`, `max_workers: {len(cores)}`, as many cores", commands, facts)


def _dask(
    bench: Workbench, name: str, source: Path, rows: int, tasks: int, *, workers: int, file_mb: float = 128
) -> Contender:
    running: list[tuple[DaskCluster, float]] = []

    def commands(folder: Path) -> Sequence[Command]:
        (folder / "cloud").mkdir()  # the cluster removes it
        cluster = DaskCluster(folder / "cloud" / "dask", env=dict(os.environ))
        cluster.start(0)
        for core in _CORES[:workers]:
            with _affinity(core):
                cluster.add_worker()
        running.append((cluster, _cpu_of(cluster)))
        on = {"executor": "dask", "dask_scheduler": cluster.address, "dask_tls": cluster.tls, "dask_shared_files": True}
        return [tap(bench, folder, _settings(source, folder, file_mb=file_mb, **on))]

    def facts(folder: Path, measured: Measured) -> Facts:
        cluster, before = running.pop()
        total = measured.cpu + _cpu_of(cluster) - before
        cluster.stop()
        found = parquet_batches(None, rows)(folder, measured)
        return found | {"total_cpu_s": total, "tap_ms_per_task": measured.cpu * 1e3 / tasks}

    plural = "s" if workers > 1 else ""
    return Contender(name, f"`executor: dask`, {workers} worker{plural} of one thread on a core", commands, facts)


def _shards(bench: Workbench, name: str, source: Path, rows: int) -> Contender:
    def commands(folder: Path) -> Sequence[Command]:
        run = tap(bench, folder, _settings(source, folder, max_workers=1))
        catalog = folder / "catalog.json"
        catalog.write_bytes(_output([*run.argv, "--discover"], run.env))
        base = shlex.join([*map(str, run.argv), "--config=ENV", "--catalog", str(catalog)])
        lines = ["set -e", f"{base} --write-plan >&2"]
        for number, core in enumerate(_CORES):
            shard = f"TAP_S3_FILES_SHARD={number}/{len(_CORES)} {shlex.join(_on([core]))}"
            lines += [f"{shard} {base} > {shlex.quote(str(folder / str(number)))} &", f"p{number}=$!"]
        lines += [f"wait $p{number}" for number in range(len(_CORES))]
        lines += [f"cat {shlex.quote(str(folder / str(number)))}" for number in range(len(_CORES))]
        return [Command(["bash", "-c", "\n".join(lines)], run.env)]

    settings = "`--write-plan`, then two runs at once with `shard`, `max_workers: 1`"
    return Contender(name, settings, commands, parquet_batches(None, rows))


def _output(command: Sequence[str | Path], env: Mapping[str, str]) -> bytes:
    ran = subprocess.run([str(part) for part in command], env=os.environ | env, capture_output=True, check=False)
    if ran.returncode:
        raise BenchmarkError(ran.stderr.decode(errors="replace"))
    return ran.stdout


def _cpu_of(cluster: DaskCluster) -> float:
    return sum(cpu_seconds(service.pid) for service in (cluster.scheduler, *cluster.workers))


def _on(cores: Sequence[int]) -> list[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, cores))]


@contextmanager
def _affinity(core: int) -> Iterator[None]:
    """Processes that are started inside run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
