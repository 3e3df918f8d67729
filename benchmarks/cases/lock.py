"""How long Python's lock is held: the tap on CSV, JSON Lines, gzip JSON Lines and Parquet, one file and four.

py-spy samples the tap 100 times a second; a sample counts where a thread in Python code holds the lock and imports
nothing. Over the CPU seconds of the same run without py-spy it is the share that more cores do not make faster: 5 %
keeps 20 of them busy. Trips on local disk, to BATCH Parquet. A thread that waits for a core while it holds the lock
counts as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.cores import write_copies
from benchmarks.connectors import parquet_batches, tap
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.workbench import Workbench

ROWS = {"csv": 4_800_000, "jsonl": 1_200_000, "jsonl.gz": 1_200_000, "parquet": 10_000_000}
NAMES = {"csv": "CSV", "jsonl": "JSON Lines", "jsonl.gz": "gzip JSON Lines", "parquet": "Parquet"}
FILES = (1, 4)
SAMPLES_PER_SECOND = 100
MOST = 0.05


def build(bench: Workbench) -> Case:
    """Each format and number of files, plainly and sampled."""
    peer = bench.peer("py-spy")
    if peer is None:
        raise BenchmarkError("py-spy is not there")
    inputs = [(_name(kind, count), kind, count) for kind in ROWS for count in FILES]
    return Case(
        name="lock",
        about=__doc__ or "",
        contenders=[
            _contender(bench, name, kind, count, sampler)
            for name, kind, count in inputs
            for sampler in (None, peer.bin / "py-spy")
        ],
        goals=[
            Goal(f"{name}: seconds of the lock over CPU seconds", "busy_s", _sampled(name), name, at_most=MOST)
            for name, *_ in inputs
        ],
        columns=(("busy_s", "CPU s, or s of the lock"),),
        rounds=3,
        picture="busy_s",
    )


def _contender(bench: Workbench, name: str, kind: str, count: int, sampler: Path | None) -> Contender:
    rows = bench.rows(ROWS[kind]) // count
    source = bench.made(f"lock-{kind}-{rows}-{count}", partial(write_copies, kind=kind, rows=rows, count=count))
    size = sum(path.stat().st_size for path in source.iterdir())
    insists = parquet_batches(None, rows * count)

    def commands(folder: Path) -> Sequence[Command]:
        root = (folder / "out").absolute().as_uri()
        config = {
            "streams": [{"name": "trips", "path": f"{source.absolute().as_uri()}/*"}],
            "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": root}},
            "metadata_columns": False,
            "max_workers": 2,
        }
        run = tap(bench, folder, config)
        if sampler is None:
            return [run]
        rate = str(SAMPLES_PER_SECOND)
        record: list[str | Path] = [sampler, "record", "--gil", "--rate", rate, "--format", "raw"]
        return [Command([*record, "--output", folder / "samples", "--", *run.argv], run.env)]

    def facts(folder: Path, measured: Measured) -> Facts:
        if sampler is None:
            return insists(folder, measured) | {"busy_s": measured.cpu}
        return {"rows": rows * count, "busy_s": _samples(folder / "samples") / SAMPLES_PER_SECOND}

    settings = f"{size / 1e9:.2f} GB, {rows * count:,} rows"
    return Contender(name if sampler is None else _sampled(name), settings, commands, facts)


def _samples(path: Path) -> int:
    """The samples of a file of py-spy with a frame of Python that are not in an import."""
    stacks = (line.rpartition(" ") for line in path.read_text().splitlines())
    return sum(int(count) for stack, _, count in stacks if stack and "_find_and_load" not in stack)


def _name(kind: str, count: int) -> str:
    return f"{NAMES[kind]}, {count} file{'s' if count > 1 else ''}"


def _sampled(name: str) -> str:
    return f"{name}: the lock"
