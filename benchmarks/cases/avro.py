"""Arrow to Avro, and gzip JSONL to Avro as a whole: singer_arrow's writer beside fastavro.

The rows are those of tap-infinity, 150 flat columns. `avro`: rows in memory as Arrow to an uncompressed Avro file; the
CPU seconds are those of the conversion alone, and making dicts of the Arrow rows is not counted against fastavro.
`avro-from-jsonl`: whole processes from gzip JSONL batch files to uncompressed Avro files, beside gzip, json and
fastavro with times parsed by datetime.fromisoformat.
"""

import json
from collections.abc import Callable
from pathlib import Path

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.wide import SEED, jsonl_files, messages
from benchmarks.connectors import expect
from benchmarks.generators import infinity
from benchmarks.harness import Command, Measured
from benchmarks.workbench import Workbench, program

NAMES = {"fastavro": "fastavro", "ours": "singer_arrow"}


def build(bench: Workbench) -> Case:
    """Arrow to Avro, without the Parquet file that the rows come from."""
    rows = bench.rows(infinity.ROWS)
    folder = bench.made(f"infinity-{rows}-parquet", lambda path: infinity.write_parquet(path, rows, seed=SEED))
    sources = sorted(folder.iterdir())

    def commands(who: str, codec: str) -> Callable[[Path], list[Command]]:
        script = program("arrow_to_avro")
        return lambda folder: [Command([*script, who, codec, folder / "out.avro", *sources], bench.env)]

    def facts(folder: Path, measured: Measured) -> Facts:
        printed: Facts = json.loads(measured.stdout.read_text())
        per_second = expect(rows, int(printed["rows"])) / printed["convert_cpu_s"]
        return printed | {"bytes": (folder / "out.avro").stat().st_size, "rows_per_cpu_s": per_second}

    return Case(
        name="avro",
        about=__doc__,
        contenders=[
            Contender(name, f"{name}'s writer, codec {codec}", commands(who, codec), facts, rounds=rounds)
            for who, name, codec, rounds in (
                ("fastavro", "fastavro", "none", 2),
                ("ours", "singer_arrow", "none", None),
            )
        ],
        goals=[
            Goal("rows per CPU second over fastavro's", "rows_per_cpu_s", "singer_arrow", "fastavro", at_least=15),
        ],
        columns=(("convert_cpu_s", "conversion CPU s"), ("to_rows_cpu_s", "making dicts, CPU s")),
    )


def build_from_jsonl(bench: Workbench) -> Case:
    """gzip JSONL to Avro, whole processes."""
    rows = bench.rows(infinity.ROWS)
    folder = jsonl_files(bench)
    sources, schema = sorted(folder.iterdir()), messages(bench, folder, "jsonl", "gzip")

    def commands(who: str) -> Callable[[Path], list[Command]]:
        script = program("jsonl_to_avro")
        return lambda folder: [Command([*script, who, "none", folder, schema, *sources], bench.env)]

    def facts(folder: Path, _: Measured) -> Facts:
        written = list(folder.glob("*.avro"))
        return {"rows": expect(rows, sum(map(_rows_of, written))), "bytes": sum(p.stat().st_size for p in written)}

    settings = {
        "fastavro": "gzip, json.loads, datetime.fromisoformat, fastavro.writer",
        "ours": "`singer_arrow.batch.files.read_file` and the Avro format's `write`",
    }
    return Case(
        name="avro-from-jsonl",
        about=__doc__,
        contenders=[
            Contender(NAMES[who], settings[who], commands(who), facts, rounds=2 if who == "fastavro" else None)
            for who in ("fastavro", "ours")
        ],
        goals=[Goal("CPU of json and fastavro over ours", "cpu_s", "fastavro", "singer_arrow", at_least=5)],
    )


def _rows_of(path: Path) -> int:
    import fastavro

    with path.open("rb") as file:
        return sum(block.num_records for block in fastavro.block_reader(file))
