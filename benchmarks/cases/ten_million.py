"""Planning over very many objects: `--plan` lists them, samples their schema, puts them in order and makes tasks.

A service that holds no objects answers with pages of a thousand keys, so that no disk and no warehouse takes part; its
own processor time is not in the figures. `nothing new`, `1,000 new` and inventories begin with the STATE of a run that
has read all others; `keys ascend` has 1,000 new ones and a catalog, and so lists only what follows the last key.
Inventories are read from disk. `--write-plan` also writes the plan log, of objects with random ETags; `read` is a run
that reads the new objects, and whose longest STATE is measured. Date places are those of a path with an hour in it,
resolved and compared as before a listing, without its requests. Streams have a folder each, or some objects of one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect
from benchmarks.generators.inventory import write_inventory
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.services.many_objects import BUCKET, FOLDER, SPAN, START, Keys
from benchmarks.workbench import Workbench
from local_cloud import environment
from local_cloud.process import Service

SMALL, LARGE = 1_000_000, 10_000_000
NEW, STREAMS, FEW, PLACES = 1_000, 1_000, 10, 100_000
LINEAR = 1.2
"""Greatest cost of an object among the most, relative to its cost among the fewest."""
_COUNT = re.compile(r"^(?:many|all)\s+([\d,]+)", re.MULTILINE)
_COLUMNS = {"id": {"type": ["integer", "null"]}, "name": {"type": ["string", "null"]}}
_CATALOG = {
    "streams": [{"tap_stream_id": "many", "schema": {"type": "object", "properties": _COLUMNS}, "metadata": []}]
}


def build(bench: Workbench) -> Case:
    """Plans of one and of ten million objects, and of runs that follow."""
    small, large = bench.rows(SMALL), bench.rows(LARGE)
    streams = max(1, min(STREAMS, large // FOLDER))
    tap = bench.executable("tap-s3-files")

    def contender(
        name: str,
        count: int,
        new: int = 0,
        *,
        expected: int,
        seen: int | None = None,
        state: dict[str, Any] | None = None,
        catalog: bool = False,
        does: str = "--plan",
        **settings: Any,
    ) -> Contender:
        service: list[Service] = []

        def commands(folder: Path) -> Sequence[Command]:
            command = [sys.executable, "-m", "benchmarks.services.many_objects", str(count), str(new)]
            service.append(Service("many objects", command, log=folder / "service.log"))
            url = str(service[0].facts["url"])
            config = {
                "streams": [{"name": "many", "path": f"s3://{BUCKET}/events/**/*.csv"}],
                "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.as_uri()}},
                **settings,
            }
            options: list[str | Path] = [*does.split(), "--config", _json(folder / "tap.json", config)]
            if state is not None:
                options += ["--state", _json(folder / "state.json", {"bookmarks": {"many": state}})]
            if catalog:
                options += ["--catalog", _json(folder / "catalog.json", _CATALOG)]
            return [Command([tap, *options], bench.env | environment.aws(url, ""))]

        def facts(folder: Path, measured: Measured) -> Facts:
            service.pop().stop()
            objects = seen or count + new
            found: dict[str, float] = {"rows": objects}
            if not seen:  # else the start of each stream is most of it
                found["us_per_object"] = measured.cpu * 1e6 / objects
            if does == "--write-plan":
                found["plan_bytes_per_object"] = _size(folder / "_plans") / objects
            elif not does:
                found["state_bytes"] = _state_bytes(measured.stdout.read_text(), expected)
            else:
                _expect_planned(measured.stdout.read_text(), expected)
            return found

        changes = "".join(f", `{key}`" for key in settings)
        text = f"`{f'tap-s3-files {does}'.strip()}`, all defaults{changes and ' but' + changes[1:]}"
        return Contender(name, text, commands, facts, rounds=1)

    def places(count: int) -> Contender:
        def commands(_: Path) -> Sequence[Command]:
            return [Command([sys.executable, "-m", "benchmarks.programs.date_places", str(count)], bench.env)]

        def facts(_: Path, measured: Measured) -> Facts:
            expect(count, int(measured.stdout.read_text()))
            return {"rows": count}

        return Contender(f"{count:,} date places", "`benchmarks/programs/date_places.py`", commands, facts, rounds=1)

    def inventory(count: int, kind: str) -> dict[str, Any]:
        name = f"inventory-{kind.lower()}-{count}"
        folder = bench.made(name, partial(write_inventory, count=count, kind=kind, final=bench.data / name))
        return {"replication": {"method": "inventory", "manifest_url": str(folder / "manifest.json")}}

    mark = {"last_modified": (START + timedelta(seconds=SPAN)).isoformat(), "key": ""}
    state = {**mark, "segment": 0, "done": 0, "ahead": [], "rows": 0, "log": "", "batch": "", "left_out": []}
    last = {**state, "key": f"s3://{BUCKET}/{Keys(large, 0)[large - 1]}"}
    ascend = {"method": "polling", "keys_ascend": True, "overlap_minutes": 0}
    many = [{"name": f"s{n}", "path": f"s3://{BUCKET}/events/day={n:05d}/**/*.csv"} for n in range(streams)]
    first, second = f"{small:,} objects, all new", f"{large:,} objects, all new"
    nothing, some = f"{large:,} objects, nothing new", f"{large:,} objects, {NEW:,} new"
    ascending = f"{large:,} objects, keys ascend"
    listed = {
        (kind, count): contender(
            f"{count:,} by {kind} inventory",
            count,
            expected=0,
            state=state,
            **inventory(count, kind),
        )
        for kind in ("CSV", "Parquet")
        for count in (small, large)
    }
    apart = contender(f"{streams:,} streams of {FOLDER:,} objects", large, expected=streams * FOLDER, streams=many)
    few_each = [
        {
            "name": f"s{n}",
            "path": f"s3://{BUCKET}/events/day={n:05d}/region=eu-west-1/part-{n * FOLDER // FEW:08d}?-*.csv",
        }
        for n in range(streams)
    ]
    narrow = f"{streams:,} streams of {FEW} objects"
    written, read = f"{small:,} objects, --write-plan", f"{large:,} objects, {NEW:,} of them new and read"
    dated = places(bench.rows(PLACES))
    return Case(
        name="ten-million",
        about=__doc__ or "",
        contenders=[
            contender(first, small, expected=small),
            contender(second, large, expected=large),
            contender(nothing, large, expected=0, state=state),
            contender(some, large, NEW, expected=NEW, state=state),
            contender(ascending, large, NEW, expected=NEW, state=last, catalog=True, replication=ascend),
            *listed.values(),
            apart,
            contender(narrow, large, expected=streams * FEW, seen=streams * FEW, streams=few_each),
            contender(written, small, expected=small, does="--write-plan", catalog=True),
            contender(read, large, NEW, expected=NEW, state=last, catalog=True, replication=ascend, does=""),
            dated,
        ],
        goals=[
            Goal(f"{large:,} objects, CPU seconds", "cpu_s", second, at_most=150),
            Goal(f"{large:,} objects, peak MB", "peak_tree_mb", second, at_most=700),
            Goal("an object of these, CPU, relative to one of the fewest", "us_per_object", second, first, LINEAR),
            Goal("the same, nothing new, CPU seconds", "cpu_s", nothing, at_most=100),
            Goal(f"the same, {NEW:,} new, CPU seconds", "cpu_s", some, at_most=105),
            Goal(f"the same, keys ascend, {NEW:,} new, CPU seconds", "cpu_s", ascending, at_most=2),
            Goal(f"{narrow}, CPU seconds", "cpu_s", narrow, at_most=20),
            Goal("plan log, bytes an object", "plan_bytes_per_object", written, at_most=60),
            Goal("longest STATE, bytes", "state_bytes", read, at_most=2000),
            Goal(f"{dated.name}, CPU seconds", "cpu_s", dated.name, at_most=5),
            *(
                goal
                for kind in ("CSV", "Parquet")
                for goal in (
                    Goal(f"inventory as {kind}, CPU seconds", "cpu_s", listed[kind, large].name, at_most=60),
                    Goal(
                        f"inventory as {kind}, an object, relative to one of the fewest",
                        "us_per_object",
                        listed[kind, large].name,
                        listed[kind, small].name,
                        LINEAR,
                    ),
                )
            ),
        ],
        columns=(
            ("us_per_object", "CPU us / object"),
            ("plan_bytes_per_object", "plan log, bytes / object"),
            ("state_bytes", "STATE, bytes"),
        ),
        rounds=1,
        picture="us_per_object",
    )


def _expect_planned(text: str, expected: int) -> None:
    found = _COUNT.findall(text)
    if not found:
        raise BenchmarkError("no row of the plan was printed")
    expect(expected, int(found[-1].replace(",", "")))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _state_bytes(text: str, objects: int) -> int:
    """Return the bytes of the longest STATE message of a run that has read this many objects of two rows."""
    lines = text.splitlines()
    batches = [json.loads(line) for line in lines if '"BATCH"' in line]
    expect(2 * objects, sum(batch["row_count"] for batch in batches))
    return max(len(line) for line in lines if '"STATE"' in line)


def _json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path
