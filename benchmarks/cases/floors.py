"""Plain pyarrow, polars and DuckDB: scripts that do the same conversion, with no checks, ids or STATE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import programs
from benchmarks.case import Goal
from benchmarks.workbench import Workbench, program

POLARS, DUCKDB = "polars", "duckdb"
_PARQUET = "Parquet by zstd 1, dictionaries by default"
_SETTINGS = {
    "pyarrow": {
        "parquet": "`pq.read_table`, `pq.write_table`, file by file, its own threads",
        "csv": "`csv.read_csv` from a stream, blocks of 16 MB; `pq.write_table`, its own threads",
        "jsonl": "`json.read_json` from a stream, blocks of 16 MB; `pq.write_table`, its own threads",
    },
    POLARS: {
        "parquet": "`scan_parquet`, `sink_parquet`, its own threads",
        "csv": "`scan_csv(try_parse_dates=True)`, `sink_parquet`, its own threads",
        "jsonl": "`scan_ndjson`, `sink_parquet`, its own threads",
    },
    DUCKDB: {
        "parquet": "`COPY (FROM read_parquet(...)) TO`, its own threads",
        "csv": "`COPY (FROM read_csv(...)) TO`, its own threads",
        "jsonl": "`COPY (FROM read_ndjson(...)) TO`, its own threads",
    },
}


def present(bench: Workbench) -> list[str]:
    """Polars, and DuckDB if it can be installed."""
    return [POLARS, *([DUCKDB] if bench.peer(DUCKDB) else [])]


def argv(bench: Workbench, who: str, kind: str, target: str, sources: Sequence[str]) -> list[str | Path]:
    """The command that converts files of a kind to Parquet files below a prefix."""
    if who == DUCKDB:
        return [*duckdb_program(bench), "copy", kind, target, *sources]
    return [*program("copy_floor"), who, kind, target, *sources]


def duckdb_program(bench: Workbench) -> list[str | Path]:
    """The start of a command of `programs/duckdb_files.py`; DuckDB is there."""
    peer = bench.peer(DUCKDB)
    assert peer is not None
    return [peer.bin / "python", Path(programs.__file__).with_name("duckdb_files.py")]


def settings(bench: Workbench, who: str, kind: str, *, from_s3: bool) -> str:
    """What runs, for below the table."""
    found = f"{_SETTINGS[who][kind.partition('.')[0]]}; {_PARQUET}"
    peer = bench.peer(DUCKDB) if who == DUCKDB else None
    if peer is None:
        return found
    return f"{peer.title}: {found}{'; S3 by its extension httpfs' if from_s3 else ''}"


def goals(work: str, ours: str, bounds: Sequence[tuple[str, str | Sequence[str], float]]) -> list[Goal]:
    """Goals of seconds and CPU seconds over those of scripts, for each metric, script or scripts, and bound."""
    names = {"wall_s": "seconds", "cpu_s": "CPU seconds"}
    return [
        Goal(f"{work}: {names[metric]} over {_title(against)}", metric, ours, against, at_most=bound)
        for metric, against, bound in bounds
    ]


def _title(against: str | Sequence[str]) -> str:
    titles = {POLARS: "polars'", DUCKDB: "DuckDB's"}
    if isinstance(against, str):
        return titles[against]
    return f"the least of {' and '.join(titles[each] for each in against)}"
