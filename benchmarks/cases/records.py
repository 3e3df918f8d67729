"""RECORD messages: the whole pipe from Parquet files, and the target alone; wide (150 columns) and narrow (19).

Ours is tap-s3-files into target-bigquery, to a finished load of the local BigQuery, whose CPU is not counted; once
installed without extras and once with the native parser of JSON. The stock pipe is the Singer SDK's tap and target
for the same rows (`programs/stock_pipe.py`), to a finished Parquet file: it loads nothing, which is to its advantage.
Default is the SDK as it is; tuned is msgspec for messages, no conforming in the tap, `validate_records: false` in the
target. The stock ones get fewer rows and are compared by rows per CPU second; start-up counts for all.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.wide import SEED
from benchmarks.connectors import expect, tap, target
from benchmarks.generators import infinity, taxi
from benchmarks.harness import Command, Measured
from benchmarks.warehouse import loaded
from benchmarks.workbench import Workbench, program

OURS, NATIVE, DEFAULT, TUNED = "ours", "ours[native]", "SDK, default", "SDK, tuned"
LOAD = {"load_method": "append-only"}


@dataclass(frozen=True)
class Shape:
    """A kind of rows.

    Attributes:
        stream: its name in messages.
        rows: how many go through our pipe, and `messages` into our target alone; `few` through the SDK's by default,
            and twice as many where it is tuned.
        schema: the SCHEMA message.
        write: writes so many of its rows to a folder of Parquet files.
        write_records: writes messages for so many of them to a file.
    """

    name: str
    stream: str
    rows: int
    messages: int
    few: int
    schema: Callable[[], dict[str, Any]]
    write: Callable[[Path, int], None]
    write_records: Callable[[Path, int], None]

    def files(self, bench: Workbench, rows: int) -> list[Path]:
        """Parquet files with so many rows."""
        folder = bench.made(f"{self.stream}-{rows}-parquet", lambda path: self.write(path, rows))
        return sorted(folder.iterdir())

    def records(self, bench: Workbench, rows: int) -> Path:
        """A file of RECORD messages of so many rows."""
        return bench.made(f"{self.stream}-{rows}.singer", lambda path: self.write_records(path, rows))


SHAPES = (
    Shape(
        "wide",
        infinity.STREAM,
        infinity.ROWS,
        infinity.ROWS,
        10_000,
        infinity.schema_message,
        lambda path, rows: infinity.write_parquet(path, rows, seed=SEED),
        lambda path, rows: infinity.write_records(path, rows, seed=SEED),
    ),
    Shape(
        "narrow",
        taxi.STREAM,
        taxi.ROWS,
        1_000_000,
        100_000,
        taxi.schema_message,
        lambda path, rows: taxi.write_folder(path, rows, seed=SEED),
        lambda path, rows: taxi.write_records(path, rows, seed=SEED),
    ),
)


def build_pipe(bench: Workbench) -> Case:
    """Tap and target."""
    return _build(bench, "record-pipe", _pipe, {"wide": (DEFAULT, 16), "narrow": (DEFAULT, 28)})


def build_target(bench: Workbench) -> Case:
    """The target alone; messages come from a file."""
    return _build(bench, "record-target", _target, {"wide": (TUNED, 4), "narrow": (TUNED, 5)})


Commands = Callable[[Path], list[Command]]


def _build(
    bench: Workbench,
    name: str,
    commands: Callable[[Workbench, Shape, str, int], Commands],
    least_factors: dict[str, tuple[str, float]],
) -> Case:
    cloud = bench.cloud("bigquery")
    settings = {
        OURS: "all defaults, `metadata_columns: false`, `load_method: append-only`; installed without extras",
        NATIVE: "the same; JSON by the native parser",
        DEFAULT: "the SDK's defaults",
        TUNED: "msgspec messages, no conforming of types, `validate_records: false`",
    }
    contenders, goals = [], []
    for shape in SHAPES:
        most = shape.rows if name == "record-pipe" else shape.messages
        for who, full in ((OURS, most), (NATIVE, most), (DEFAULT, shape.few), (TUNED, 2 * shape.few)):
            if who == NATIVE and bench.native_env is None:
                continue
            rows, is_ours = bench.rows(full), who in (OURS, NATIVE)
            check = loaded(cloud, shape.stream, rows) if is_ours else _written(rows)
            text = f"{settings[who]}; {rows:,} rows of {len(shape.schema()['schema']['properties'])} columns"
            run, rounds = commands(bench, shape, who, rows), None if is_ours else 2
            contenders.append(Contender(f"{shape.name}: {who}", text, run, check, rounds=rounds))
        peer, least = least_factors[shape.name]
        ours, theirs = f"{shape.name}: {OURS}", f"{shape.name}: {peer}"
        text = f"{shape.name}: rows per CPU second over {peer}"
        goals.append(Goal(text, "rows_per_cpu_s", ours, theirs, at_least=least))
    return Case(name=name, about=__doc__ or "", contenders=contenders, goals=goals, rounds=3)


def _pipe(bench: Workbench, shape: Shape, who: str, rows: int) -> Commands:
    files = shape.files(bench, rows)
    if who in (OURS, NATIVE):
        stream = {"name": shape.stream, "path": f"{files[0].parent}/*.parquet"}
        config = {"streams": [stream], "metadata_columns": False}
        return lambda folder: _installed(bench, who, [tap(bench, folder, config), target(bench, folder, LOAD)])
    given = {"files": [str(path) for path in files], "stream": shape.stream, "schema": shape.schema()["schema"]}
    return lambda folder: [_stock("tap", who, folder, given), _stock("target", who, folder, _to(folder, who))]


def _target(bench: Workbench, shape: Shape, who: str, rows: int) -> Commands:
    messages = shape.records(bench, rows)
    if who in (OURS, NATIVE):
        return lambda folder: _installed(bench, who, [target(bench, folder, LOAD, messages)])
    return lambda folder: [_stock("target", who, folder, _to(folder, who), messages)]


def _installed(bench: Workbench, who: str, commands: list[Command]) -> list[Command]:
    env = (bench.native_env or {}) if who == NATIVE else {}
    return [replace(command, env={**command.env, **env}) for command in commands]


def _to(folder: Path, who: str) -> dict[str, Any]:
    return {"out": str(folder), **({"validate_records": False} if who == TUNED else {})}


def _stock(role: str, who: str, folder: Path, config: dict[str, Any], stdin: Path | None = None) -> Command:
    path = folder / f"{role}.json"
    path.write_text(json.dumps(config))
    mode = "tuned" if who == TUNED else "default"
    return Command([*program("stock_pipe"), role, mode, "--config", path], stdin=stdin)


def _written(rows: int) -> Callable[[Path, Measured], Facts]:
    def facts(folder: Path, _: Measured) -> Facts:
        files = list(folder.glob("*.parquet"))
        found = sum(pq.read_metadata(path).num_rows for path in files)
        return {"rows": expect(rows, found), "bytes": sum(path.stat().st_size for path in files)}

    return facts
