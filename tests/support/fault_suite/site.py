"""Run target cases: a local cloud behind proxies, and a process that forks runs of the targets."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from singer_lines import Message, lines
from warehouses import WAREHOUSES, Warehouse

from fault_suite import source as sources
from fault_suite.catalogue import APPEND, BATCH, OVERWRITE, SERVICES, Case, Kill, Load, Named
from fault_suite.source import BATCHES, EDITIONS, LAST, ROWS_EACH, Comparison, Row, Source
from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.s3 import setup

LONGEST_S = 90.0
"""Seconds after which a run counts as hung."""
CLEAR, KILLED = 1, {-signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT}
ENDPOINTS = {"s3": "AWS_ENDPOINT_URL", "bigquery": "TARGET_BIGQUERY_API_ENDPOINT", "gcs": "STORAGE_EMULATOR_HOST"}


@dataclass(frozen=True)
class Ran:
    """The result of a run: exit code, numbers of the written STATEs, log, and last STATE."""

    code: int | None
    states: tuple[int, ...]
    log: str
    last_message: Any = None

    @property
    def last_state(self) -> int:
        """The number of the last STATE; -1 if there is none."""
        return self.states[-1] if self.states else -1

    def faults(self, load: Load) -> list[str]:
        """Return what is wrong with the end of the run, whatever its cause."""
        errors = [
            line for line in self.log.splitlines() if " ERROR " in line or line.startswith(f"target-{load.target}: ")
        ]
        found = []
        if self.code is None:
            found.append(f"hung for {LONGEST_S:.0f} s")
        if "Traceback" in self.log:
            found.append("showed a traceback")
        if self.code == CLEAR and len(errors) != 1:
            found.append(f"failed with {len(errors)} lines of error instead of one")
        if list(self.states) != sorted(set(self.states)):
            found.append(f"its STATEs went back: {self.states}")
        return found


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        case: The case.
        code: Exit code of the run with faults.
        injected: Number of injected faults by name; an outage counts as one.
        rerun: Whether a second run was needed.
        comparison: The table compared with the expected rows, at the end.
        ahead: Number of rows that the last STATE covers and the table does not contain.
        torn: Number of tables that were neither the old nor the new one: swaps of unfinished streams.
        wrong: Violations of the guarantees, as text.
        log: The log of the run with faults.
    """

    case: Named
    code: int | None
    injected: Mapping[str, int]
    rerun: bool
    comparison: Comparison
    ahead: int
    wrong: tuple[str, ...]
    log: str = ""
    torn: int = 0


class Forks:
    """The process that forks runs; see `victim`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            # Python warns of forks in processes with threads; the only thread is jemalloc's, which supports fork.
            [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-m", "fault_suite.victim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # reading ahead would block
            start_new_session=True,  # Ctrl-C must reach only the suite
            cwd=programs,
        )

    def run(
        self,
        program: str,
        messages: Sequence[Message] | str,
        config: Mapping[str, Any],
        env: Mapping[str, str],
        **more: Any,
    ) -> Ran:
        """Run a target on generated messages or on the output of a tap; a tap's STATEs have no numbers."""
        paths = {name: str(self._folder / name) for name in ("stdin", "stdout", "stderr", "config")}
        text = messages if isinstance(messages, str) else lines(messages)
        Path(paths["stdin"]).write_text(text, encoding="utf-8")
        Path(paths["config"]).write_text(json.dumps(config), encoding="utf-8")
        arguments = ["--config", paths.pop("config")]
        job = {
            "kill": None,
            "hasty": False,
            **more,
            **paths,
            "program": program,
            "arguments": arguments,
            "env": dict(env),
        }
        assert self._process.stdin
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        pid = self._answer(LONGEST_S)
        code = self._answer(LONGEST_S)
        if code is None and pid is not None:
            os.kill(pid, signal.SIGUSR1)
            time.sleep(1)
            os.kill(pid, signal.SIGKILL)
            self._answer(LONGEST_S)
        # A line without an end is not stored as STATE.
        whole = [
            x for x in Path(paths["stdout"]).read_text(encoding="utf-8").splitlines(keepends=True) if x.endswith("\n")
        ]
        log = Path(paths["stderr"]).read_text(encoding="utf-8", errors="replace")
        states = [json.loads(line) for line in whole]
        numbers = tuple(state["n"] for state in states if "n" in state)
        return Ran(code, numbers, log, states[-1] if states else None)

    def _answer(self, seconds: float) -> int | None:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            return None
        line = self._process.stdout.readline()
        assert line, "the process that forks runs has ended"
        return int(line)

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(LONGEST_S)
        self._process.stdout.close()


@dataclass
class Place:
    """The tables of a load variant; kept with `overwrite`, so that there is an old table."""

    warehouse: Warehouse
    held: Source | None = None


@dataclass
class Site:
    """Runs target cases. Not thread-safe.

    Args:
        cloud: A started local cloud.
        folder: A folder for files.
        clients: Clients of the warehouses, by name.
        proxies: Proxies before services, by name; missing ones are started.
    """

    cloud: Cloud
    folder: Path
    clients: Mapping[str, Any]
    proxies: dict[str, FaultProxy] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._forks = Forks(self.folder)
        self._beside: Forks | None = None
        self._places: dict[Load, Place] = {}
        self._sources: dict[tuple[Load, str], Source] = {}
        self.bucket = f"faults-{uuid.uuid4().hex[:12]}"
        self._s3 = setup.client("s3", self.cloud.s3_url)
        self._s3.create_bucket(Bucket=self.bucket)
        (self.folder / "tmp").mkdir(exist_ok=True)

    def close(self) -> None:
        """Remove the remaining tables and stop the proxies."""
        self._forks.close()
        if self._beside is not None:
            self._beside.close()
        for place in self._places.values():
            place.warehouse.drop()
        for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            if keys := [{"Key": found["Key"]} for found in page.get("Contents", ())]:
                self._s3.delete_objects(Bucket=self.bucket, Delete={"Objects": keys})
        self._s3.delete_bucket(Bucket=self.bucket)

    def try_out(self, case: Case) -> Outcome:
        """Run a target with faults, then again if it did not finish; return the outcome."""
        load, wrong = case.load, []
        place = self.place(load)
        edition = EDITIONS[1] if place.held and place.held.edition == EDITIONS[0] else EDITIONS[0]
        source, old = self._source(load, edition), place.held.rows() if place.held else Counter[Row]()
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(self._run_beside, load, place, source.messages(of=case.beside)) if case.beside else None
            first, injected = self._with_faults(case, place, source)
        if other is not None and (ended := other.result()).code != 0:
            wrong.append(f"the other run ended with {ended.code}: {ended.log[-2000:]}")
        rows = self.rows(place)
        wrong += first.faults(load)
        wrong += _wrong_end(case, first)
        ahead = sources.ahead(load, source, rows, last_state=first.last_state)
        if ahead:
            wrong.append(f"the STATE {first.last_state} was {ahead} rows ahead of the table")
        torn = sources.is_torn(load, source, rows, old=old)
        if torn:
            wrong.append("the table was neither the old one nor the new one")
        is_over = first.code == 0 or (case.from_state and first.last_state == LAST)
        if not is_over:
            messages = source.messages(first.last_state if case.from_state else -1, sources.rest(case.beside))
            second = self._run(load, place, messages, env={})
            if second.code != 0 or second.last_state != LAST:
                wrong.append(
                    f"the run after it ended with {second.code}, STATE {second.last_state}: {second.log[-2000:]}"
                )
            rows = self.rows(place)
        comparison = sources.compare(load, source, rows, last_state=LAST if first.code == 0 else first.last_state)
        wrong += comparison.faults()
        if load.form == BATCH and load.method != APPEND and not wrong:  # the ledger has every batch
            appended = self._run(replace(load, method=APPEND), place, source.messages(), env={})
            if appended.code != 0 or Counter(self.rows(place)) != Counter(rows):
                wrong.append(f"append-only after it loaded batches a second time: {appended.log[-2000:]}")
        self.leave(load, place, source, is_sound=not wrong)
        return Outcome(case, first.code, injected, not is_over, comparison, ahead, tuple(wrong), first.log, int(torn))

    def _with_faults(self, case: Case, place: Place, source: Source) -> tuple[Ran, Mapping[str, int]]:
        messages = source.messages(of=sources.rest(case.beside))
        if case.kill:
            ran = self._run(case.load, place, messages, env={}, kill=_kill_arguments(case.kill))
            return ran, {f"target killed, {case.kill.signal.name}": 1} if ran.code in KILLED else {}
        env = {}
        for service, rules in case.rules.items():
            listed = [rule for _, rule in rules]
            if service == "redshift":
                self.cloud.redshift_faults(*listed)
            else:
                self._proxy(service).set(*listed)
                env[ENDPOINTS[service]] = self._proxy(service).url
        came = Counter[str]()
        try:
            ran = self._run(case.load, place, messages, env=env, hasty=True)
        finally:
            for service, rules in case.rules.items():
                for (kind, _), count in zip(rules, self._end_faults(service), strict=True):
                    came[f"{SERVICES[service]}: {kind}"] += min(count, 1) if case.lasting else count
        return ran, +came

    def _end_faults(self, service: str) -> list[int]:
        """Remove all fault rules; return how often each one applied."""
        if service == "redshift":
            return self.cloud.redshift_faults()
        fired = [rule["fired"] for rule in self._proxy(service).report()["rules"]]
        self._proxy(service).clear()
        return fired

    def _run(
        self, load: Load, place: Place, messages: Sequence[Message] | str, *, env: Mapping[str, str], **more: Any
    ) -> Ran:
        warehouse = place.warehouse
        config = {**warehouse.config, "load_method": load.method, "max_batch_mb": 0.000001, **load.settings}
        if load.form != sources.BATCH:
            config["batch_size_rows"] = ROWS_EACH
        if endpoint := env.get(ENDPOINTS["bigquery"]):
            config["api_endpoint"] = endpoint
        around = self.cloud.environ(TMPDIR=str(self.folder / "tmp"), **env)
        forks = more.pop("forks", self._forks)
        return forks.run(warehouse.program, messages, config, around, **more)

    def _run_beside(self, load: Load, place: Place, messages: Sequence[Message]) -> Ran:
        """Run a target without faults, in another process that forks."""
        if self._beside is None:
            (self.folder / "beside").mkdir()
            self._beside = Forks(self.folder / "beside")
        return self._run(load, place, messages, env={}, forks=self._beside)

    def _proxy(self, service: str) -> FaultProxy:
        if service not in self.proxies:
            urls = {"s3": self.cloud.s3_url, "bigquery": self.cloud.bigquery_url, "gcs": self.cloud.gcs_url}
            upstream = urls[service]
            self.proxies[service] = self.cloud.fault_proxy(upstream)
        return self.proxies[service]

    def run_pipe(self, load: Load, place: Place, text: str) -> Ran:
        """Run a target without faults on the output of a tap."""
        return self._run(load, place, text, env={})

    def write(self, key: str, data: bytes) -> None:
        """Write an object to the bucket."""
        self._s3.put_object(Bucket=self.bucket, Key=key, Body=data)

    def place(self, load: Load) -> Place:
        """Return the place of a load variant, created on first use; with an old table if tables are replaced."""
        if load not in self._places:
            name = f"faults_{uuid.uuid4().hex[:12]}"
            place = Place(WAREHOUSES[load.target](self.cloud, self.clients[load.target], name))
            self._places[load] = place
            if load.method == OVERWRITE:
                place.held = self._source(load, EDITIONS[0])
                ran = self._run(load, place, place.held.messages(), env={})
                assert ran.code == 0, ran.log
        return self._places[load]

    def leave(self, load: Load, place: Place, source: Source, *, is_sound: bool) -> None:
        """Keep a table that will be replaced; remove any other."""
        place.held = source
        if load.method != OVERWRITE or not is_sound:
            place.warehouse.drop()
            del self._places[load]

    def rows(self, place: Place) -> list[Row]:
        """Return the rows of the table; empty if it does not exist."""
        warehouse = place.warehouse
        try:
            found = warehouse.query("SELECT id, batch, name FROM {rows}")
        except Exception:
            if _is_there(warehouse):
                raise
            return []  # the table does not exist yet
        return [(row["id"], row["batch"], row["name"]) for row in found]

    def _source(self, load: Load, edition: str) -> Source:
        key = (load, edition)
        if key not in self._sources:
            folder = self.folder / uuid.uuid4().hex
            made = sources.write(load, edition, folder)
            self._sources[key] = Source(made.method, edition, tuple(self._uploaded(m) for m in made.files))
        return self._sources[key]

    def _uploaded(self, message: Message) -> Message:
        path = Path(message["manifest"][0].removeprefix("file://"))
        key = f"{path.parent.name}/{path.name}"
        self._s3.upload_file(str(path), self.bucket, key)
        return message | {"manifest": [f"s3://{self.bucket}/{key}"]}


def _is_there(warehouse: Warehouse) -> bool:
    from google.api_core.exceptions import NotFound

    try:
        return "rows" in warehouse.tables()
    except NotFound:
        return False


def _kill_arguments(kill: Kill) -> dict[str, Any]:
    step = kill.step
    at, when, match = (step.at, step.when, step.match) if step else ("", "", "")
    return {
        "at": at,
        "when": when,
        "match": match,
        "nth": kill.nth,
        "signal": int(kill.signal),
        "after_s": kill.after_s,
    }


def _wrong_end(case: Case, ran: Ran) -> list[str]:
    """Return what is wrong with an exit code."""
    if ran.code is None:
        return []
    if case.kill is None:
        return [] if ran.code in (0, CLEAR) else [f"ended with exit code {ran.code}"]
    sent = case.kill.signal
    if ran.code == (-sent if sent == signal.SIGKILL else 128 + sent):
        return []
    if case.kill.step is None and ran.code == 0:
        return []  # the run had finished before the signal
    return [f"ended with exit code {ran.code} where {sent.name} was sent" if ran.code else "the step never came"]


assert BATCHES > 2, "steps are asked for at their third coming"
