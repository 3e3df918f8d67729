"""Peak memory of the tap for inputs that are small on disk, or shaped badly, and large in memory.

Each is read from local disk with the default `memory_limit_mb: 512`, by two workers, and `metadata_columns: true`.
Memory is the peak of the sum of the resident sets of all processes; imports and libraries take about 90 MB of it. What
is promised is the limit and 250 MB.
"""

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect, parquet_batches, tap
from benchmarks.generators import hostile
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench

LIMIT_MB, MORE_MB = 512, 250
ROUNDS = 2
OUTPUTS = {"parquet": "BATCH Parquet", "jsonl": "BATCH gzip JSON Lines", "record": "RECORD"}


@dataclass(frozen=True)
class Shape:
    """An input: its files and rows, what comes out, and settings of its stream."""

    name: str
    files: list[Path]
    rows: int
    output: str = "parquet"
    stream: Mapping[str, Any] = field(default_factory=dict)


def build(bench: Workbench) -> Case:
    """All shapes."""
    shapes = _shapes(bench)
    return Case(
        name="memory-inputs",
        about=__doc__ or "",
        contenders=[_contender(bench, shape) for shape in shapes],
        goals=[
            Goal(f"peak MB, {shape.name}", "peak_tree_mb", shape.name, at_most=LIMIT_MB + MORE_MB) for shape in shapes
        ],
        rounds=ROUNDS,
    )


def _shapes(bench: Workbench) -> list[Shape]:
    def made(name: str, suffix: str, make: Callable[..., None], *arguments: int) -> list[Path]:
        """A file, made by what is given its path and the arguments, which are in its name."""
        stem = "-".join(map(str, ("hostile", name, *arguments)))
        return [bench.made(f"{stem}.{suffix}", lambda path: make(path, *arguments))]

    size = bench.rows(150_000_000)
    trips = [path for n in range(3) for path in made("trips", "csv", hostile.repeated_csv, size, 70 + n)]
    (fewer,) = made("trips", "csv", hostile.repeated_csv, bench.rows(20_000_000), 73)
    counts = [_lines(path) - 1 for path in trips]
    wide, wider, group = bench.rows(6_000), bench.rows(30_000), bench.rows(3_000_000)
    named, plain, bad = bench.rows(200_000), bench.rows(2_000_000), bench.rows(500_000)
    return [
        Shape("three CSV files", trips, sum(counts)),
        Shape("CSV, out as JSON Lines", trips[:1], counts[0], "jsonl"),
        Shape("CSV, out as RECORD", [fewer], _lines(fewer) - 1, "record"),
        Shape("CSV, 1,000 columns", made("wide", "csv", hostile.wide_csv, wide), wide),
        Shape(
            "Parquet, 1,000 columns",
            made("wide", "parquet", hostile.wide_parquet, wider),
            wider // 15 * 15,
        ),
        Shape(
            "Parquet, one row group",
            made("group", "parquet", hostile.one_row_group, group),
            group,
        ),
        Shape(
            "Parquet, long texts named often",
            made("named", "parquet", hostile.named_texts, named),
            named,
        ),
        Shape("CSV, texts of 60 MB", made("long", "csv", hostile.long_texts(5, hostile.csv)), 5),
        Shape("JSON Lines, texts of 60 MB", made("long", "jsonl", hostile.long_texts(5, hostile.jsonl)), 5),
        Shape("Parquet, texts of 60 MB", made("long", "parquet", hostile.long_texts(5, hostile.parquet)), 5),
        Shape(
            "gzip JSON Lines, 100:1",
            made("plain", "jsonl.gz", hostile.repetitive_gzip, plain),
            plain,
        ),
        Shape(
            "CSV, bad rows rescued",
            made("bad", "csv", hostile.bad_rows, bad),
            bad,
            stream={"on_bad_row": "rescue", "schema": {"n": "integer"}},
        ),
    ]


def _contender(bench: Workbench, shape: Shape) -> Contender:
    def commands(folder: Path) -> list[Command]:
        stream = {"name": "rows", "path": [str(path) for path in shape.files], **shape.stream}
        config: dict[str, Any] = {"streams": [stream], "max_workers": 2, "memory_limit_mb": LIMIT_MB}
        if shape.output != "record":
            config["batch_config"] = {
                "encoding": {"format": shape.output, "compression": "gzip" if shape.output == "jsonl" else "zstd"},
                "storage": {"root": folder.absolute().as_uri()},
            }
        return [tap(bench, folder, config)]

    facts = {"parquet": parquet_batches(None, shape.rows), "jsonl": _json_batches(shape.rows)}
    size = sum(path.stat().st_size for path in shape.files) / 1e6
    settings = f"{size:,.0f} MB, {shape.rows:,} rows, to {OUTPUTS[shape.output]}"
    return Contender(shape.name, settings, commands, facts.get(shape.output, _records(shape.rows)), ROUNDS)


def _json_batches(rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(folder: Path, _: Measured) -> Facts:
        files = list(folder.rglob("*.jsonl.gz"))
        found = sum(_gzip_lines(path) for path in files)
        return {"rows": expect(rows, found), "bytes": sum(path.stat().st_size for path in files)}

    return facts


def _records(rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(_: Path, measured: Measured) -> Facts:
        with measured.stdout.open("rb") as lines:
            found = sum(line[:20].replace(b" ", b"").startswith(b'{"type":"RECORD"') for line in lines)
        return {"rows": expect(rows, found), "bytes": measured.stdout.stat().st_size}

    return facts


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b""))


def _gzip_lines(path: Path) -> int:
    with gzip.open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 22), b""))
