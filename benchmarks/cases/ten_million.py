"""Planning over very many objects: `--plan` lists them, samples their schema, puts them in order and makes tasks.

A service that holds no objects answers with pages of a thousand keys, so that no disk and no warehouse takes part; its
own processor time is not in the figures. `nothing new` and `1,000 new` begin with the STATE of a run that has read
all others.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.connectors import expect
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.services.many_objects import SPAN, START
from benchmarks.workbench import Workbench
from local_cloud import environment
from local_cloud.process import Service

SMALL, LARGE = 1_000_000, 10_000_000
NEW = 1_000
_COUNT = re.compile(r"^many\s+([\d,]+)", re.MULTILINE)


def build(bench: Workbench) -> Case:
    """Plans of one and of ten million objects, and of runs that follow."""
    small, large = bench.rows(SMALL), bench.rows(LARGE)
    tap = bench.executable("tap-s3-files")

    def contender(name: str, count: int, new: int, *, expected: int, state: dict[str, Any] | None = None) -> Contender:
        service: list[Service] = []

        def commands(folder: Path) -> Sequence[Command]:
            command = [sys.executable, "-m", "benchmarks.services.many_objects", str(count), str(new)]
            service.append(Service("many objects", command, log=folder / "service.log"))
            url = str(service[0].facts["url"])
            config = {
                "streams": [{"name": "many", "path": "s3://bench/events/**/*.csv"}],
                "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": folder.as_uri()}},
            }
            (folder / "tap.json").write_text(json.dumps(config))
            options: list[str | Path] = ["--config", folder / "tap.json", "--plan"]
            if state is not None:
                (folder / "state.json").write_text(json.dumps({"bookmarks": {"many": state}}))
                options += ["--state", folder / "state.json"]
            return [Command([tap, *options], bench.env | environment.aws(url, ""))]

        def facts(_: Path, measured: Measured) -> Facts:
            service.pop().stop()
            found = _COUNT.search(measured.stdout.read_text())
            if found is None:
                raise BenchmarkError("no row of the plan was printed")
            expect(expected, int(found[1].replace(",", "")))
            return {"rows": count + new}

        return Contender(name, "`tap-s3-files --plan`, all defaults", commands, facts)

    after = {"watermark": {"last_modified": (START + timedelta(seconds=SPAN)).isoformat(), "key": ""}, "segment": 0}
    state = {**after, "done": 0, "ahead": []}
    first, second = f"{small:,} objects, all new", f"{large:,} objects, all new"
    nothing, some = f"{large:,} objects, nothing new", f"{large:,} objects, {NEW:,} new"
    return Case(
        name="ten-million",
        about=__doc__ or "",
        contenders=[
            contender(first, small, 0, expected=small),
            contender(second, large, 0, expected=large),
            contender(nothing, large, 0, expected=0, state=state),
            contender(some, large, NEW, expected=NEW, state=state),
        ],
        goals=[
            Goal(f"{large:,} objects, CPU seconds", "cpu_s", second, at_most=150),
            Goal(f"{large:,} objects, peak MB", "peak_tree_mb", second, at_most=700),
            Goal("the same, nothing new, CPU seconds", "cpu_s", nothing, at_most=100),
            Goal(f"the same, {NEW:,} new, CPU seconds", "cpu_s", some, at_most=105),
        ],
        rounds=1,
        picture="cpu_s",
    )
