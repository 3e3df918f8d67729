"""Run tap walks: an S3 server, a process that forks runs of the tap, and a model of a target."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from fault_suite import model_target
from fault_suite.lake import COLUMNS, LARGE_CSV, TYPES, Lake
from fault_suite.model_target import Table
from fault_suite.site import Outcome
from fault_suite.small_s3 import BUCKET, NO_FAULTS, QUEUE, Contents, Faults, SmallS3
from fault_suite.source import Comparison
from fault_suite.tap_catalogue import SETTINGS, SETUPS, SMALL_FILE_MB, Scenario, Setup, Walk
from fault_suite.tap_forks import CLEAR, LONGEST_S, Job, Running, TapForks
from fault_suite.tap_steps import Break, Empty, Limit, Objects, Run, Step, Wake
from singer_arrow.schema.arrow_schema import parse_type
from singer_arrow.schema.json_schema import to_json_schema
from tap_s3_files.discover import METADATA

LARGE_ROWS, ROWS_EACH = 60, 4
_TYPES = pa.schema([parse_type(name, text) for name, text in TYPES.items()])
_SCHEMA = to_json_schema(pa.schema([*_TYPES, *METADATA]))
CATALOG = {"streams": [{"tap_stream_id": "rows", "stream": "rows", "schema": _SCHEMA, "metadata": []}]}
_MOST_KNOWN = 64
KILLED = {-signal.SIGKILL, 128 + signal.SIGTERM}


@dataclass
class World:
    """The state that lasts from step to step of a walk."""

    contents: Contents = field(default_factory=Contents)
    lake: Lake = field(default_factory=Lake)
    table: Table = field(default_factory=Table)
    states: dict[str, Any] = field(default_factory=dict)
    """By shard, which is empty for runs of all tasks."""

    def copy(self) -> World:
        """Return a copy."""
        return World(self.contents.copy(), self.lake.copy(), self.table.copy(), dict(self.states))


@dataclass
class Result:
    """The result of the steps so far."""

    code: int | None = 0
    came: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    log: str = ""
    reruns: int = 0


@dataclass
class Asleep:
    """A stopped run: its settings, and how much of its output is loaded."""

    running: Running
    run: Run
    loaded: int


class TapSite:
    """Runs walks. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._s3 = SmallS3()
        self._folder = folder
        (folder / "tmp").mkdir(exist_ok=True)
        self._forks = TapForks(folder)
        self._known: dict[tuple[str, tuple[Step, ...]], tuple[World, Result]] = {}
        self._world, self._setup = World(), Setup({})
        self._asleep: Asleep | None = None
        self._warm_up()

    def close(self) -> None:
        """Stop the started processes."""
        self._forks.close()
        self._s3.stop()

    def may_mount(self) -> bool:
        """Whether runs may mount a small disk."""
        return self._forks.may_mount()

    def points(self, scenario: Scenario) -> tuple[list[str], int]:
        """Return the points and the number of requests of the run that a scenario interrupts."""
        self._begin(scenario.setup, scenario.before)
        self._show_messages()
        running = self._started(scenario.run)
        names: list[str] = running.report["points"]
        requests = self._s3.requests
        running.forget()
        return names, requests

    def try_out(self, walk: Walk) -> Outcome:
        """Execute the steps of a walk, and compare the table with the expected rows."""
        before = tuple(_until_fault(walk.steps))
        result = self._begin(walk.setup, before)
        for step in walk.steps[len(before) :]:
            self._take(step, result)
        if self._asleep is not None:  # the walk ended before the run continued
            self._asleep.running.kill()
            self._asleep = None
        world = self._world
        comparison = world.lake.compare(world.table.rows)
        result.wrong += comparison.faults()
        if left := len(world.contents.messages):
            result.wrong.append(f"{left} messages were left in the queue")
        return self._outcome(walk, result, comparison)

    def _outcome(self, walk: Walk, result: Result, comparison: Comparison) -> Outcome:
        return Outcome(
            case=walk,
            code=result.code,
            injected=+result.came,
            rerun=result.reruns > 0,
            comparison=comparison,
            ahead=0,
            wrong=tuple(result.wrong),
            log=result.log,
        )

    def _begin(self, setup: str, steps: tuple[Step, ...]) -> Result:
        """Restore the state after the steps without faults; these are executed once."""
        self._setup = SETUPS[setup]
        if (setup, steps) not in self._known:
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            self._world, result = World(), Result()
            self._s3.contents = self._world.contents
            for step in steps:
                self._take(step, result)
            self._known[setup, steps] = self._world, result
        world, result = self._known[setup, steps]
        self._world = world.copy()
        self._s3.contents = self._world.contents
        return replace(result, came=Counter(), wrong=list(result.wrong))

    def _take(self, step: Step, result: Result) -> None:
        match step:
            case Objects():
                self._write(step)
            case Empty():
                self._world.table = Table()
                self._world.lake.emptied()
            case Wake():
                self._wake(step, result)
            case Run():
                self._run(step, result)

    def _write(self, step: Objects) -> None:
        lake = self._world.lake
        newest = lake.newest
        for key in step.keys:
            rows = LARGE_ROWS if key.endswith((".parquet", LARGE_CSV)) else ROWS_EACH
            at = step.at - int((lake.newest - newest).total_seconds())
            version, changed = lake.write(key, rows=rows, at=at, is_bad=step.is_bad)
            self._s3.put(key, version.data(), changed)
            if self._setup.queue:
                location = {"bucket": {"name": BUCKET}, "object": {"key": key}}
                body = json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": location}]})
                for _ in range(2):
                    self._s3.send(body)

    def _show_messages(self) -> None:
        """Make messages of earlier runs visible again."""
        if self._setup.queue:
            self._s3.show_all()

    def _run(self, step: Run, result: Result) -> None:
        if self._asleep is None:
            self._s3.drain()
        self._show_messages()
        running = self._started(step)
        result.reruns += step.fault is None and bool(result.came)
        came = self._came(step, running)
        result.came.update(came)
        if step.fault is not None and self._asleep is None:
            result.code = running.code
        if running.is_stopped:
            lines = model_target.whole_lines(running.written)
            self._asleep = Asleep(running, step, len(lines))
            self._load(lines, step, result)
            return
        self._load(model_target.whole_lines(running.written), step, result)
        result.wrong += self._faults(step, running, is_broken=bool(came))
        result.log += f"--- {step}\n{running.log}" if result.wrong else ""
        if step.is_whole and running.code == 0 and not came:
            self._world.lake.completed()
        running.forget()

    def _wake(self, step: Wake, result: Result) -> None:
        if self._asleep is None:
            return  # the run ended before the point at which it should stop
        asleep, self._asleep = self._asleep, None
        shard, states = asleep.run.shard, dict(self._world.states)
        asleep.running.wake()
        lines = model_target.whole_lines(asleep.running.written)
        # The lines before it are loaded already; the SCHEMA is the first of them and stays in effect.
        schemas = [line for line in lines[: asleep.loaded] if '"SCHEMA"' in line]
        self._load([*schemas, *lines[asleep.loaded :]], asleep.run, result)
        if not step.keeps:
            self._world.states[shard] = states.get(shard)
        result.code = asleep.running.code
        result.wrong += self._faults(asleep.run, asleep.running, is_broken=True)
        result.log += f"--- woken\n{asleep.running.log}" if result.wrong else ""
        asleep.running.forget()

    def _load(self, lines: list[str], step: Run, result: Result) -> None:
        columns = SETTINGS[step.settings].get("stream", {}).get("columns", COLUMNS)
        loaded = model_target.load(self._world.table, lines, self._read, columns=columns, most=step.most)
        result.wrong += loaded.wrong
        if loaded.states:
            self._world.states[step.shard] = loaded.states[-1]

    def _read(self, url: str) -> bytes | None:
        stored = self._world.contents.objects.get(url.removeprefix(f"s3://{BUCKET}/"))
        return stored.data if stored else None

    def _came(self, step: Run, running: Running) -> Counter[str]:
        """Return the faults that were injected, without those of count 0."""
        return +self._counts(step, running)

    def _counts(self, step: Run, running: Running) -> Counter[str]:
        match step.fault:
            case Break(signal=signal.SIGSTOP):
                return Counter({"tap asleep": int(running.is_stopped)})
            case Break():
                return Counter({f"tap killed, {step.fault.signal.name}": int(running.code in KILLED)})
            case Limit():
                return Counter({f"tap limited, {step.fault.name}": int(running.code != 0)})
            case Faults(lasting=True):
                return Counter({"S3: gone": min(1, self._s3.came.total())})
            case Faults():
                return Counter(
                    {f"{'SQS' if 'visib' in kind else 'S3'}: {kind}": n for kind, n in self._s3.came.items()}
                )
        return Counter({"model target killed": int(step.most is not None)})

    def _faults(self, step: Run, running: Running, *, is_broken: bool) -> list[str]:
        """Return what is wrong with the end of a run."""
        log, code = running.log, running.code
        if isinstance(step.fault, Limit) and step.fault.name == "AS" and code is not None:
            return []  # C and Rust libraries abort when allocation fails: only the rows of such a run are checked
        errors = [line for line in log.splitlines() if " ERROR " in line or line.startswith("tap-s3-files: ")]
        found = []
        if code is None:
            found.append(f"hung for {LONGEST_S:.0f} s")
        if "Traceback" in log:
            found.append("showed a traceback")
        if code == CLEAR and len(errors) != 1:
            found.append(f"failed with {len(errors)} lines of error instead of one")
        allowed = {0, *([CLEAR] if is_broken or step.settings == "fail" else []), *(KILLED if is_broken else ())}
        if code is not None and code not in allowed:
            found.append(f"ended with exit code {code}: {''.join(errors)[-500:]}")
        return [f"{words} ({step})" for words in found]

    def _started(self, step: Run) -> Running:
        """Start a run, and wait until it has ended or stopped."""
        answers = step.fault if isinstance(step.fault, Faults) else NO_FAULTS
        self._s3.expect(answers)
        point = step.fault if isinstance(step.fault, Break) else None
        limit = {step.fault.name: step.fault.most} if isinstance(step.fault, Limit) else {}
        job = Job(
            config=self._config(step.settings) | ({"shard": step.shard} if step.shard else {}),
            state=self._world.states.get(step.shard) if step.state and not step.plans else None,
            catalog=CATALOG if self._setup.catalog else None,
            flags=("--write-plan",) if step.plans else (),
            env=self._env,
            plan=self._setup.plan,
            fault=point.words if point else None,
            limits=limit,
            hasty=isinstance(step.fault, Faults),
        )
        running = self._forks.start(job)
        running.wait()
        return running

    def _config(self, settings: str) -> dict[str, Any]:
        changes = SETTINGS[settings]
        stream = {"name": "rows", "path": f"s3://{BUCKET}/in/*", "schema": TYPES, "on_bad_row": "skip"}
        batch = {
            "encoding": {"format": "parquet"},
            "storage": {"root": f"s3://{BUCKET}/stage"},
            "target_file_mb": SMALL_FILE_MB if self._setup.large else 1,
        }
        config = {
            "streams": [stream | changes.get("stream", {})],
            "batch_config": batch | changes.get("batch", {}),
            "max_workers": 2,
            "schema_sample_files": 2,
        }
        if self._setup.range_mb:
            config["object_range_mb"] = self._setup.range_mb
        if self._setup.queue:
            replication = {"method": "sqs", "queue_url": f"{self._s3.url}/1/{QUEUE}", "max_wait_seconds": 0}
            config["replication"] = replication
        return config | {name: value for name, value in changes.items() if name not in ("stream", "batch")}

    @property
    def _env(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self._s3.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "TMPDIR": str(self._folder / "tmp"),
        }

    def _warm_up(self) -> None:
        """Collect the imports and clients of runs of all kinds, so that later runs share them."""
        for setup in ("a queue", "a large object"):
            for settings, fault in (("", None), ("jsonl", Faults(1000, 1, ("503",)))):
                self._setup, self._world = SETUPS[setup], World()
                self._s3.contents = self._world.contents
                self._write(Objects(("in/a.csv", "in/b.parquet")))
                running = self._started(Run(settings=settings, fault=fault))
                assert running.code == 0, running.log
                report = running.report
                running.forget()
                self._forks.learn(report["modules"], report["clients"], self._env)


def _until_fault(steps: tuple[Step, ...]) -> list[Step]:
    """Return the steps before the first fault."""
    found = []
    for step in steps:
        if isinstance(step, Run) and (step.fault is not None or step.most is not None):
            return found
        found.append(step)
    return found
