"""Shards: several pipes load one plan into one table at once, are killed, or never run; the rows equal the source."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from warehouses import Warehouse

from local_cloud.programs import Programs, Ran

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse

OBJECTS, ROWS_EACH = 12, 40
LARGE_ROWS, LARGE_TEXT = 9_000, "x" * 1_000
"""One object of more than 8 MiB, which is divided into ranges."""
RANGE_MB = 2
FILE_MB = 0.001
"""Small, so that each object is a task."""
LONGEST_S = 120


@dataclass
class Pipe:
    """A running pipe of one shard, or of all.

    Attributes:
        shard: The setting; empty: none.
        tap: The tap.
        target: The target.
    """

    shard: str
    tap: subprocess.Popen[bytes]
    target: subprocess.Popen[bytes]
    out: Path
    logs: tuple[Path, Path]

    @property
    def log(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self.logs)


@dataclass
class Shards:
    """Pipes over one source; each shard keeps a STATE of its own.

    Attributes:
        run: Runs the programs.
        bucket: The bucket of the objects and of the batch files.
        warehouse: The warehouse.
        folder: A folder for the output of the processes.
        states: The last STATE of each shard.
        ids: The ids of all rows that were written.
    """

    run: Programs
    s3: Any
    bucket: str
    warehouse: Warehouse
    folder: Path
    states: dict[str, Any] = field(default_factory=dict)
    ids: list[int] = field(default_factory=list)
    catalog: dict[str, Any] = field(default_factory=dict)
    _pipes: list[Pipe] = field(default_factory=list)

    def put(self, name: str, rows: int = ROWS_EACH, columns: Sequence[str] = (), text: str = "text") -> None:
        """Write an object with new ids."""
        first = len(self.ids)
        ids = range(first, first + rows)
        lines = "".join(f"{i},{text} of row {i}{''.join(f',{c} {i}' for c in columns)}\n" for i in ids)
        self.s3.put_object(
            Bucket=self.bucket, Key=f"in/{name}.csv", Body=f"{','.join(('id', 'name', *columns))}\n{lines}"
        )
        self.ids += ids

    def config(self, shard: str = "") -> dict[str, Any]:
        """Return the settings of the tap, which make a task of each object."""
        batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        streams = [{"name": "rows", "path": f"s3://{self.bucket}/in/*.csv", "schema": {"id": "integer"}}]
        settings = {"streams": streams, "batch_config": {**batches, "target_file_mb": FILE_MB}, "max_workers": 2}
        settings["object_range_mb"] = RANGE_MB
        return settings | ({"shard": shard} if shard else {})

    def plan(self) -> Ran:
        """Discover the catalog if there is none, and write the plan."""
        if not self.catalog:
            self.catalog = json.loads(self.run("tap-s3-files", config=self.config(), discover=True).check().stdout)
        return self.run("tap-s3-files", "--write-plan", config=self.config(), catalog=self.catalog).check()

    def start(self, shard: str = "", *, state: bool = True, cold: bool = False, **target: Any) -> Pipe:
        """Start a pipe, from the last STATE of its shard or without; `cold`: by the executables themselves."""
        run = Programs(self.run.env, self.folder) if cold else self.run
        known = {"state": self.states[shard]} if state and shard in self.states else {}
        number = len(self._pipes)
        out, *logs = (self.folder / f"{name}-{number}" for name in ("stdout", "tap-log", "target-log"))
        settings = {"max_batch_age_seconds": 0.2, "max_batch_mb": 0.02, **target}
        command = run.command("tap-s3-files", config=self.config(shard), catalog=self.catalog, **known)
        with logs[0].open("wb") as tap_log, logs[1].open("wb") as target_log, out.open("wb") as states:
            tap = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=tap_log, env=self.run.env
            )
            target_process = subprocess.Popen(
                run.command(self.warehouse.program, config=["ENV", settings]),
                stdin=tap.stdout,
                stdout=states,
                stderr=target_log,
                env=self.run.env,
            )
        assert tap.stdout is not None
        tap.stdout.close()
        self._pipes.append(Pipe(shard, tap, target_process, out, (logs[0], logs[1])))
        return self._pipes[-1]

    def end(self, pipe: Pipe, codes: tuple[int, int] | None = (0, 0)) -> str:
        """Wait for a pipe, keep the last whole STATE, and return its log."""
        found = pipe.tap.wait(LONGEST_S), pipe.target.wait(LONGEST_S)
        for line in pipe.out.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self.states[pipe.shard] = json.loads(line)
        assert codes is None or found == codes, pipe.log[-8000:]
        assert "Traceback" not in pipe.log, pipe.log[-8000:]
        return pipe.log

    def together(self, *shards: str, **options: Any) -> list[str]:
        """Run pipes at once."""
        return [self.end(pipe) for pipe in [self.start(shard, **options) for shard in shards]]

    def check(self) -> None:
        """Compare the table with the objects, and the ledger with the table."""
        found = [row["id"] for row in self.warehouse.query("SELECT id FROM {rows} ORDER BY id")]
        assert found == sorted(self.ids)

    def close(self) -> None:
        for pipe in self._pipes:
            for process in (pipe.tap, pipe.target):
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()


@pytest.fixture
def shards(run: Programs, s3: Any, bucket: str, warehouse: Warehouse, tmp_path: Path) -> Iterator[Shards]:
    made = Shards(run, s3, bucket, warehouse, tmp_path)
    for number in range(OBJECTS):
        made.put(f"{number:02}")
    yield made
    made.close()


def test_two_at_once_into_a_new_table_then_what_is_new(shards: Shards) -> None:
    assert "1 segments are new" in shards.plan().stderr
    shards.together("0/2", "1/2")
    shards.check()
    before = json.loads(json.dumps(shards.states))
    assert all(state["bookmarks"]["rows"]["shard"] == shard for shard, state in before.items())
    shards.put("new", columns=["more"])
    shards.put("newer", columns=["more", "most"])
    shards.plan()
    shards.together("0/2", "1/2")
    shards.check()
    assert {"more", "most"} <= shards.warehouse.columns("rows").keys()
    log = shards.together("")[0]  # without shards and without STATE: everything is sent, and nothing is loaded
    assert "Loaded rows: 0 rows" in log
    shards.check()


def test_a_large_object_and_a_shard_that_is_run_twice_at_once(shards: Shards) -> None:
    shards.put("large", LARGE_ROWS, text=LARGE_TEXT)
    shards.plan()
    shards.together("0/2", "0/2", "1/2", "1/2")
    shards.check()


def test_a_shard_that_never_comes_back_is_finished_by_a_run_without_shards(shards: Shards) -> None:
    shards.plan()
    shards.together("0/3")
    begun = shards.start("1/3", cold=True)
    time.sleep(1.5)
    begun.tap.kill()
    shards.end(begun, None)
    shards.together("")
    shards.check()


def test_other_numbers_of_shards_follow_the_same_plan(shards: Shards) -> None:
    shards.plan()
    shards.together("0/2")
    shards.together("0/3", "1/3", "2/3")
    shards.check()
    shards.together(*(f"{n}/5" for n in range(5)))
    shards.check()


def test_the_state_of_another_number_is_refused(shards: Shards) -> None:
    shards.plan()
    shards.together("0/2", "1/2")
    shards.states["0/3"] = shards.states["0/2"]
    log = shards.end(shards.start("0/3"), (1, 0))
    assert "The STATE of stream 'rows' is of shard 0/2 and this run is of shard 0/3" in log
    assert log.count(" ERROR ") == 1
    shards.check()


@pytest.mark.parametrize("load_method", ["overwrite", "upsert"])
def test_a_shard_is_only_appended(load_method: str, shards: Shards) -> None:
    shards.plan()
    shards.together("0/2", "1/2")
    log = shards.end(shards.start("0/2", state=False, load_method=load_method), None)
    assert f"'rows' comes as shard 0/2, a part of its rows, and setting 'load_method' is {load_method}" in log
    shards.check()


def test_objects_that_change_after_the_plan(shards: Shards) -> None:
    shards.plan()
    replaced = set(range(3 * ROWS_EACH, 5 * ROWS_EACH))
    for name in ("03", "04"):
        shards.put(name)
    shards.ids = [i for i in shards.ids if i not in replaced]
    assert any("--write-plan must run again" in log for log in shards.together("0/2", "1/2"))
    shards.plan()
    shards.together("0/2", "1/2")
    shards.check()


KILLS = [
    pytest.param(victim, moment, marks=[pytest.mark.soak] if moment > 1 else [])
    for victim in ("tap", "target")
    for moment in range(8)
]


@pytest.mark.parametrize(("victim", "moment"), KILLS)
def test_a_shard_is_killed_while_another_loads(victim: str, moment: int, shards: Shards) -> None:
    shards.put("large", LARGE_ROWS, text=LARGE_TEXT)
    shards.plan()
    chance = random.Random(f"{victim} {moment}")
    killed, other = shards.start("1/2", cold=True), shards.start("0/2")
    time.sleep(chance.uniform(0.8, 4))
    getattr(killed, victim).kill()
    shards.end(killed, None)
    shards.end(other)
    shards.together("1/2", state=moment % 2 == 0)
    shards.check()
