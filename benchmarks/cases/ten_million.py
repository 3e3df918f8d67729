"""Planning over very many objects: `--plan` lists them, samples their schema, puts them in order and makes tasks.

A service that holds no objects answers with pages of a thousand keys, so that no disk and no warehouse takes part; its
own processor time is not in the figures. `nothing new`, `1,000 new` and inventories begin with the STATE of a run that
has read all others; `keys ascend` has 1,000 new ones and a catalog, and so lists only what follows the last key.
Inventories are read from disk. Streams each have a folder of their own, or some objects of one.
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
NEW, STREAMS, FEW = 1_000, 1_000, 10
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
            options: list[str | Path] = ["--plan", "--config", _json(folder / "tap.json", config)]
            if state is not None:
                options += ["--state", _json(folder / "state.json", {"bookmarks": {"many": state}})]
            if catalog:
                options += ["--catalog", _json(folder / "catalog.json", _CATALOG)]
            return [Command([tap, *options], bench.env | environment.aws(url, ""))]

        def facts(_: Path, measured: Measured) -> Facts:
            service.pop().stop()
            found = _COUNT.findall(measured.stdout.read_text())
            if not found:
                raise BenchmarkError("no row of the plan was printed")
            expect(expected, int(found[-1].replace(",", "")))
            objects = seen or count + new
            return {"rows": objects, "us_per_object": measured.cpu * 1e6 / objects}

        changes = "".join(f", `{key}`" for key in settings)
        return Contender(
            name, f"`tap-s3-files --plan`, all defaults{changes and ' but' + changes[1:]}", commands, facts, rounds=1
        )

    def inventory(count: int, kind: str) -> dict[str, Any]:
        name = f"inventory-{kind.lower()}-{count}"
        folder = bench.made(name, partial(write_inventory, count=count, kind=kind, final=bench.data / name))
        return {"replication": {"method": "inventory", "manifest_url": str(folder / "manifest.json")}}

    mark = {"last_modified": (START + timedelta(seconds=SPAN)).isoformat(), "key": ""}
    state = {"watermark": mark, "segment": 0, "done": 0, "ahead": []}
    last = {**state, "watermark": {**mark, "key": f"s3://{BUCKET}/{Keys(large, 0)[large - 1]}"}}
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
        ],
        goals=[
            Goal(f"{large:,} objects, CPU seconds", "cpu_s", second, at_most=150),
            Goal(f"{large:,} objects, peak MB", "peak_tree_mb", second, at_most=700),
            Goal("an object of these, CPU, relative to one of the fewest", "us_per_object", second, first, LINEAR),
            Goal("the same, nothing new, CPU seconds", "cpu_s", nothing, at_most=100),
            Goal(f"the same, {NEW:,} new, CPU seconds", "cpu_s", some, at_most=105),
            Goal(f"the same, keys ascend, {NEW:,} new, CPU seconds", "cpu_s", ascending, at_most=2),
            Goal(f"{narrow}, CPU seconds", "cpu_s", narrow, at_most=20),
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
        columns=(("us_per_object", "CPU us / object"),),
        rounds=1,
        picture="us_per_object",
    )


def _json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path
