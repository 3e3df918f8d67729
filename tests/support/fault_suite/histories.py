"""Histories by chance: files or tables of a lake change, runs of pipelines are cut off, tables are emptied or restored.

A model says what the tables must hold (`history_model`); a history is made by its seed alone. A run ends well and its
tables are right, or a warning says that they are not; or it ends in one line where a step of the history allows that,
and is right once the user has done what the line says.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forked_programs import ForkedPrograms
from tap_source import TapBucket
from warehouses import LEDGER, WAREHOUSES, Warehouse

from fault_suite.history_model import Version
from fault_suite.history_pipeline import OVERWRITE, REMOVED, UPSERT, Pipeline, Tables
from fault_suite.history_sources import LATE, STREAMS, Files, LakeTables, Source
from fault_suite.site import Outcome
from fault_suite.source import Comparison
from local_cloud import Cloud

FILES, LAKE = SOURCES = ("files", "lake")
METHODS = ("append-only", "append-only", "append-only", "upsert", "overwrite")
ALONE, ONE_TABLE, ONE_SOURCE, ONE_LOG = "alone", "one table", "one source", "one log"
"""One pipeline; or two: into the same tables; of one source and plan root into two datasets; of two sources, with one
plan root, into two datasets."""
MOST_STEPS = 12


@dataclass(frozen=True)
class History:
    """A history of a seed, of one kind of sources, in one warehouse."""

    source: str
    service: str
    seed: int
    victim = "a user's history"

    @property
    def name(self) -> str:
        """The display name."""
        return f"{self.way}: seed {self.seed}"

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"history of {self.source}, {self.service}"


class Teller:
    """Runs a history; `schema` returns a new schema of the warehouse, which is not there yet."""

    def __init__(self, history: History, site: HistorySite, schema: Callable[[], Warehouse], folder: Path) -> None:
        self._chance = chance = random.Random(history.seed)
        self._history, self._site, self._schema = history, site, schema
        self._prefix, self._folder = f"histories/{uuid.uuid4().hex[:10]}", folder
        self._numbers = itertools.count(1)
        self.method = chance.choice(METHODS)
        pairs = [ONE_SOURCE] if self.method == OVERWRITE else [ONE_TABLE, ONE_SOURCE, ONE_LOG]
        self.kind = chance.choice([ALONE] * len(pairs) + pairs)
        source, tables = self._new_source(), Tables.new(schema(), self.method)
        self._pipelines = [self._new_pipeline(source, tables)]
        if self.kind != ALONE:
            source = source if self.kind == ONE_SOURCE else self._new_source()
            tables = tables if self.kind == ONE_TABLE else Tables.new(schema(), self.method)
            self._pipelines.append(self._new_pipeline(source, tables))
        if self.kind == ONE_TABLE:
            self._pipelines[1].root = "stage-2"
        self._own = self._pipelines[0]
        """The pipeline that a step is about."""
        self.steps = list[str]()

    def _new_source(self) -> Source:
        if self._history.source == LAKE:
            name = f"source-{next(self._numbers)}"
            parts = self._site.cloud, self._site.bucket.bucket, f"{self._prefix}/{name}", self._folder / name
            return LakeTables(self._numbers, *parts)
        return Files(self._numbers, self._site.bucket, f"{self._prefix}/source-{next(self._numbers)}")

    def _new_pipeline(self, source: Source, tables: Tables) -> Pipeline:
        url = f"s3://{self._site.bucket.bucket}/{self._prefix}"
        return Pipeline(source, tables, self.method, url, "stage", self._site.execute, self._chance)

    @property
    def problems(self) -> list[str]:
        """What was not as promised."""
        return [problem for pipeline in self._pipelines for problem in pipeline.problems]

    @property
    def log(self) -> str:
        return "".join(pipeline.log for pipeline in self._pipelines)

    # What users do to sources

    def _new_name(self) -> str:
        return str(next(self._numbers))

    def _existing(self) -> tuple[str, Version] | None:
        stream = self._chance.choice(STREAMS)
        names = sorted(self._own.source.objects[stream])
        return (stream, self._own.source.objects[stream][self._chance.choice(names)]) if names else None

    def comes(self) -> None:
        """One object to three come, some of them late."""
        stream = self._chance.choice(STREAMS)
        for _ in range(self._chance.randint(1, 3)):
            late = self._chance.choice((0, 0, 0, LATE))
            self._own.source.put(stream, name := self._new_name(), name, late=late)

    def a_large_one_comes(self) -> None:
        """An object comes that becomes several batch files."""
        self._own.source.put("tall", name := self._new_name(), name, is_large=True)

    def changes(self) -> None:
        """An object gets another content."""
        if found := self._existing():
            self._own.source.put(found[0], found[1].name, self._new_name())

    def changes_back(self) -> None:
        """An object gets another content, a run comes by chance, and it gets its former content back."""
        if found := self._existing():
            stream, version = found
            self._own.source.put(stream, version.name, self._new_name())
            if self._chance.random() < 0.7:
                self.run()
            self._own.source.put(stream, version.name, version.content, is_large=version.is_large)

    def is_written_again(self) -> None:
        """An object is written again without a change."""
        if found := self._existing():
            stream, version = found
            self._own.source.put(stream, version.name, version.content, is_large=version.is_large)

    def goes(self) -> None:
        """An object is deleted."""
        if (found := self._existing()) and isinstance(self._own.source, Files):
            self._own.source.delete(found[0], found[1].name)

    def is_rolled_back(self) -> None:
        """The newest version of an object is removed after a run, by chance, so that the one before it is back."""
        source, found = self._own.source, self._existing()
        if not found or not isinstance(source, Files):
            return
        stream, version = found
        source.put(stream, version.name, self._new_name())
        if self._chance.random() < 0.8:
            self.run()
        source.roll_back(stream, version.name)
        now, seen = source.objects[stream][version.name], source.seen[stream].get(version.name, version)
        self.run()
        if (
            now.number < seen.number
            and self.method != OVERWRITE
            and not self.problems
            and REMOVED not in self._own.text
        ):
            self._own.problems.append("an object was rolled back, and the tap said nothing")

    def is_compacted(self) -> None:
        """The files of a table of a lake are written anew."""
        if (
            isinstance(self._own.source, LakeTables) and self.method != UPSERT
        ):  # it may change the order of a key's rows
            self._own.source.compact(self._chance.choice(STREAMS))

    # What users do to pipelines

    def run(self) -> None:
        """A run comes with STATE."""
        self._run()

    def run_is_cut_off(self) -> None:
        """The target of a run gets some lines alone, and its last STATE is lost by chance."""
        self._run(is_cut_off=True)

    def full_refresh(self) -> None:
        """A run comes without STATE, and its STATE is merged into the former one."""
        if not self._own.is_anew:
            self._run(is_whole=True)

    def full_refresh_is_cut_off(self) -> None:
        """The same, and its target gets some lines alone."""
        if not self._own.is_anew:
            self._run(is_whole=True, is_cut_off=True)

    def settings_change(self) -> None:
        """Settings change that decide nothing about which rows there are."""
        self._own.settings = self._chance.choice(({}, {"max_workers": 1}, {"metadata_columns": False}))

    def log_is_begun_anew(self) -> None:
        """A run ends well, and a new plan log begins at its STATE, in another place by chance."""
        self.run()
        if self.method == OVERWRITE or self.kind in (ONE_SOURCE, ONE_LOG):
            return
        if self._own.must_refresh or self._own.state is None or self.problems:
            return
        if self._chance.random() < 0.5:
            self._own.root = f"stage-{self._new_name()}"
        if self._own.tap(self._own.state, "--new-plan-log").code:
            self._own.problems.append("no new plan log was begun")
        self._own.is_anew = True

    def tables_are_emptied(self) -> None:
        """All tables are emptied, and a run without STATE follows, which is cut off by chance."""
        if any(p.is_anew or p.state is None for p in self._beside()):
            return
        self._own.tables.empty()
        for pipeline in self._beside():
            pipeline.must_refresh = self.method != OVERWRITE
        self._run(is_whole=True, is_cut_off=self._chance.random() < 0.5)

    def tables_are_restored(self) -> None:
        """Tables are copied, a run comes, and the copies take their place; the ledger is as old, as new, or gone."""
        warehouse = self._own.tables.warehouse
        names = [name for name in self._own.tables.names() if name in (*STREAMS, LEDGER)]
        for name in names:
            _copy(warehouse, name, warehouse, f"{name}_old")
        if not names:
            return
        self._new_objects()
        self.run()
        ledger = self._chance.choice(("old", "new", "gone"))
        for name in names:
            if name != LEDGER or ledger == "old":
                warehouse.query(f"DROP TABLE {{{name}}}")
                _copy(warehouse, f"{name}_old", warehouse, name)
            elif ledger == "gone":
                warehouse.query(f"DROP TABLE {{{name}}}")
            warehouse.query(f"DROP TABLE {{{name}_old}}")
        self._go_on_with_other_tables(may_be_whole=ledger != "gone")

    def tables_are_cloned(self) -> None:
        """Tables are copied into another schema, with the ledger or without; a run comes; then the clone is loaded."""
        clone, tables = self._schema(), self._own.tables
        has_ledger = self._chance.random() < 0.5
        names = [name for name in tables.names() if name in STREAMS or (name == LEDGER and has_ledger)]
        if not names:
            return
        clone.create()
        for name in names:
            _copy(tables.warehouse, name, clone, name)
        self._new_objects()
        self.run()
        tables.warehouse = clone
        self._go_on_with_other_tables(may_be_whole=has_ledger)

    def _go_on_with_other_tables(self, *, may_be_whole: bool) -> None:
        """Run the pipelines of tables that lack rows, or have them by copies: each is right, or refused, or warned of.

        If one is not right, the tables are emptied, and runs without STATE fill them.
        """
        if self.problems:
            return
        warned = self._own.tables.warned
        warned |= set(map(id, self._beside()))  # the rows of each may be missing until it has run
        for pipeline in self._beside():
            self._new_objects(pipeline)
            warned.discard(id(pipeline))
            is_whole = may_be_whole and not pipeline.is_anew and self._chance.random() < 0.3
            if not pipeline.run(is_whole=is_whole, may_double=is_whole) or id(pipeline) in warned:
                self._start_over(pipeline)
                return

    def _start_over(self, refused: Pipeline) -> None:
        """Do what the error of a refused run says: empty the tables, and run without STATE."""
        for tables in [p.tables for p in self._pipelines] if self.kind == ONE_LOG else [refused.tables]:
            tables.empty()
        for pipeline in self._pipelines:
            if self.kind == ONE_LOG:  # each gets a plan log of its own
                pipeline.root, pipeline.state = f"stage-{self._new_name()}", None
            elif pipeline.tables is not refused.tables:
                continue
            if pipeline.is_anew and pipeline.tap(None, "--new-plan-log").code:
                pipeline.problems.append("no new plan log was begun")
            pipeline.is_anew = pipeline.must_refresh = False
            if not pipeline.run(is_whole=True):
                pipeline.problems.append("a run was refused though its tables were empty")
        self.kind = ALONE if self.kind == ONE_LOG else self.kind

    def _beside(self) -> list[Pipeline]:
        """Return the pipelines that fill the tables of this step."""
        return [pipeline for pipeline in self._pipelines if pipeline.tables is self._own.tables]

    def _new_objects(self, pipeline: Pipeline | None = None) -> None:
        for stream in STREAMS:
            (pipeline or self._own).source.put(stream, name := self._new_name(), name)

    def _run(self, *, is_whole: bool = False, is_cut_off: bool = False) -> None:
        pipeline = self._own
        if pipeline.run(is_whole=is_whole, is_cut_off=is_cut_off):
            return
        if self.kind == ONE_LOG:  # as documented: each needs a plan log of its own
            self._start_over(pipeline)
        elif not pipeline.must_refresh or is_whole or not pipeline.run(is_whole=True):
            pipeline.problems.append("a run was refused")

    def tell(self) -> Comparison:
        """Run the history; return how the tables differ at its end."""
        steps: list[Callable[[], None]] = [
            *[self.comes] * 4,
            *[self.run, self.run_is_cut_off] * 4,
            *[self.full_refresh, self.full_refresh_is_cut_off, self.tables_are_emptied, self.log_is_begun_anew],
            *[self.settings_change, self.tables_are_restored, self.tables_are_cloned],
        ]
        if self._history.source == FILES:
            steps += [self.changes, self.changes_back, self.is_written_again] * 2
            steps += [self.goes, self.is_rolled_back, self.a_large_one_comes]
        else:
            steps += [self.is_compacted] * 2
        between = self._chance.choices(steps, k=self._chance.randint(4, MOST_STEPS))
        chosen = [(step, pipeline) for pipeline in self._pipelines for step in (self.comes, self.run)]
        chosen += [(step, self._chance.choice(self._pipelines)) for step in between]
        chosen += [(self.run, pipeline) for pipeline in self._pipelines]
        for step, pipeline in chosen:
            if self.problems:
                break
            self._own = pipeline
            self.steps.append(step.__name__)
            step()
        for pipeline in self._pipelines:
            if pipeline.must_refresh and not self.problems:  # a target has warned that only this brings all rows
                pipeline.run(is_whole=True)
        tables = {id(p.tables): p.tables for p in self._pipelines}.values()
        differences = [pair for each in tables for pair in each.differences(settles=False).values()]
        return Comparison(*(sum(rows.total() for rows in some) for some in zip(*differences, strict=True)))


def _copy(source: Warehouse, name: str, target: Warehouse, new: str) -> None:
    source.run(f"CREATE TABLE {target.quoted(new)} AS SELECT * FROM {source.quoted(name)}")


def everything(files: int, lakes: int) -> list[History]:
    """Return so many histories of files and of tables of a lake, half of them in each warehouse."""
    services = itertools.cycle(WAREHOUSES)
    return [
        History(source, service, seed)
        for source, count in ((FILES, files), (LAKE, lakes))
        for seed, service in zip(range(count), services, strict=False)
    ]


def chosen(chance: random.Random) -> History:
    """Return a history by chance."""
    return History(chance.choice(SOURCES), chance.choice(list(WAREHOUSES)), chance.randrange(1 << 30))


class HistorySite:
    """Runs histories in a local cloud."""

    def __init__(self, cloud: Cloud, folder: Path, clients: dict[str, Any], bucket: TapBucket) -> None:
        self.cloud, self.bucket, self._clients, self._folder = cloud, bucket, clients, folder
        self.execute = ForkedPrograms(cloud.environ(), folder)

    def try_out(self, history: History) -> Outcome:
        """Run a history; return what was wrong."""
        made = list[Warehouse]()

        def schema() -> Warehouse:
            name = f"h{uuid.uuid4().hex[:10]}"
            made.append(WAREHOUSES[history.service](self.cloud, self._clients[history.service], name))
            return made[-1]

        teller = Teller(history, self, schema, self._folder / uuid.uuid4().hex)
        try:
            end = teller.tell()
        finally:
            for warehouse in made:
                warehouse.drop()
        steps = Counter(f"step: {step}" for step in teller.steps)
        words = f"{teller.method}, {teller.kind}: {', '.join(teller.steps)}"
        is_cut_off = any("cut_off" in step for step in teller.steps)
        return Outcome(history, 0, steps, is_cut_off, end, 0, tuple(teller.problems), f"{words}\n{teller.log}")
