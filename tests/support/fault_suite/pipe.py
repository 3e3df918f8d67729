"""Pipes of tap and target in which the tap fails, is killed, or writes half a line; then a second run."""

from __future__ import annotations

import json
import signal
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fault_suite import source as sources
from fault_suite.catalogue import APPEND, LOADS, OVERWRITE, RECORD, Load
from fault_suite.site import CLEAR, Outcome, Place, Ran, Site
from fault_suite.source import BATCHES, COLUMNS, EDITIONS, LAST, Row, Source
from fault_suite.tap_forks import Job, Running, TapForks
from fault_suite.tap_steps import Break

FAILS, CUT = "tap fails", "last line cut"
WRITES = 2 * BATCHES + 2
"""Messages of a run: SCHEMA, a batch and a STATE for each object, and a STATE at the end."""
_PLAN = {"BUNDLE_OBJECTS": 1}


@dataclass(frozen=True)
class PipeCase:
    """A pipe whose tap does not finish, followed by a second run.

    Attributes:
        load: The load variant of the target.
        name: The display name.
        end: How the tap ends: `FAILS`, `CUT`, or a signal at one of its messages.
        from_state: Whether the second run starts from the last STATE that the target wrote, or without STATE.
        victim: The interrupted program, for the totals.
    """

    load: Load
    name: str
    end: str | Break
    from_state: bool
    victim: str = "tap-s3-files"

    @property
    def way(self) -> str:
        """The line of the totals that counts the case."""
        return f"pipe, {self.load.name}"

    @property
    def kind(self) -> str:
        """The kind of fault, for the totals."""
        return f"pipe: tap killed, {self.end.signal.name}" if isinstance(self.end, Break) else f"pipe: {self.end}"


def cases() -> Iterator[PipeCase]:
    """Return all ends of the tap for each load variant.

    The tap ends at every message where the table is replaced, else at every third message.
    """
    for load in LOADS:
        may_lose_state = (load.method, load.form) != (APPEND, RECORD)  # delivered at least once after the STATE
        for end in (FAILS, CUT):
            for from_state in (True, False) if may_lose_state else (True,):
                yield _case(load, end, end, from_state=from_state)
        number = count(LOADS.index(load))
        for nth in range(1, WRITES + 1):
            for when in ("before", "middle", "after"):
                turn = next(number)
                if load.method == OVERWRITE or turn % 3 == 0:
                    sent = signal.SIGTERM if turn % 7 == 0 else signal.SIGKILL
                    keeps_state = turn % 2 == 0 or not may_lose_state
                    name = f"{sent.name} {when} message {nth}"
                    yield _case(load, name, Break(nth, when, sent, "write"), from_state=keeps_state)


def _case(load: Load, name: str, end: str | Break, *, from_state: bool) -> PipeCase:
    where = "from STATE" if from_state else "without STATE"
    return PipeCase(load, f"pipe, {load.name}: {name}; {where}", end, from_state)


class PipeSite:
    """Runs pipe cases: a site for targets, and the tap over the same S3. Not thread-safe."""

    def __init__(self, site: Site, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._site, self._forks = site, TapForks(folder)
        self._env = site.cloud.environ(TMPDIR=str(folder))
        self._learned = False

    def close(self) -> None:
        """Stop the started processes."""
        self._forks.close()

    def try_out(self, case: PipeCase) -> Outcome:
        """Run a pipe with the fault, then again if rows are missing; compare the table after each run."""
        site, load = self._site, case.load
        place = site.place(load)
        edition = EDITIONS[1] if place.held and place.held.edition == EDITIONS[0] else EDITIONS[0]
        source, old = Source(load.method, edition), place.held.rows() if place.held else Counter[Row]()
        folder = uuid.uuid4().hex
        for number in range(BATCHES):
            self._write(folder, source, number, is_bad=case.end == FAILS and number == LAST)
        text, code, log = self._tap(case, folder, None, case.end)
        first = site.run_pipe(load, place, text)
        rows = site.rows(place)
        sent = _sent(text, first.last_message)
        wrong = [*_wrong_end(code, log, is_broken=True), *first.faults(load)]
        if first.code not in (0, CLEAR):
            wrong.append(f"the target ended with exit code {first.code}")
        ahead = sources.ahead(load, source, rows, last_state=sent)
        if ahead:
            wrong.append(f"the last STATE, of batch {sent}, was {ahead} rows ahead of the table")
        torn = sources.is_torn(load, source, rows, old=old)
        if torn:
            wrong.append(f"the table was neither the old one nor the new one: {len(rows)} rows")
        is_over = first.code == 0 and sent == LAST and code == 0
        if not is_over:
            if case.end == FAILS:
                self._write(folder, source, LAST)  # the user corrects the bad object
            wrong += self._again(case, place, folder, first)
            rows = site.rows(place)
        comparison = sources.compare(load, source, rows, last_state=sent)
        wrong += [f"{fault} at the end" for fault in comparison.faults()]
        site.leave(load, place, source, is_sound=not wrong)
        came = Counter({case.kind: int(code != 0 or case.end == CUT)})
        return Outcome(
            case, first.code, +came, not is_over, comparison, ahead, tuple(wrong), log + first.log, torn=int(torn)
        )

    def _again(self, case: PipeCase, place: Place, folder: str, first: Ran) -> list[str]:
        """Run the pipe again from the kept STATE; return what is wrong with it."""
        text, code, log = self._tap(case, folder, first.last_message if case.from_state else None, "")
        wrong = _wrong_end(code, log, is_broken=False)
        second = self._site.run_pipe(case.load, place, text)
        if second.code != 0:
            wrong.append(f"the target's run after it ended with {second.code}: {second.log[-2000:]}")
        return wrong

    def _tap(self, case: PipeCase, folder: str, state: Any, end: str | Break) -> tuple[str, int | None, str]:
        """Run the tap; return the lines that reach the target, the exit code and the log."""
        job = Job(
            config=self._config(case.load, folder),
            state=state,
            env=self._env,
            plan=_PLAN,
            fault=end.words if isinstance(end, Break) else None,
        )
        running: Running = self._forks.start(job)
        running.wait()
        text, code, log = running.written, running.code, running.log
        if not self._learned and code == 0:
            self._learned = True
            report = running.report
            self._forks.learn(report["modules"], report["clients"], self._env)
        running.forget()
        if end == CUT and code == 0:
            lines = text.splitlines(keepends=True)
            text = "".join([*lines[:-1], lines[-1][: len(lines[-1]) // 2]])
        return text, code, log

    def _config(self, load: Load, folder: str) -> Mapping[str, Any]:
        types = {"id": "integer", "batch": "integer", "name": "string"}
        root = f"s3://{self._site.bucket}/{folder}"
        stream = {"name": "rows", "path": f"{root}/in/*.csv", "schema": types, "key_properties": ["id"]}
        config: dict[str, Any] = {"streams": [stream], "metadata_columns": False, "max_workers": 2}
        if load.form == RECORD:
            return config | {"plan_root": f"{root}/stage"}
        return config | {"batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"{root}/stage"}}}

    def _write(self, folder: str, source: Source, number: int, *, is_bad: bool = False) -> None:
        """Write an object for each batch; the bad one has an invalid row at its end."""
        lines = [",".join(COLUMNS.names), *(",".join(map(str, row)) for row in source.batch(number))]
        lines += ["none,none,none"] if is_bad else []
        self._site.write(f"{folder}/in/{number}.csv", "\n".join([*lines, ""]).encode())


def _sent(text: str, state: Any) -> int:
    """Return the number of the last batch that a STATE covers; -1 if there is none."""
    sent, batches = -1, -1
    for line in text.splitlines(keepends=True):
        message = json.loads(line) if line.endswith("\n") else {"type": ""}
        if message["type"] == "BATCH":
            batches += 1
        elif message["type"] == "RECORD":
            batches = max(batches, message["record"]["batch"])
        elif message["type"] == "STATE" and message["value"] == state:
            sent = max(sent, batches)
    return sent


def _wrong_end(code: int | None, log: str, *, is_broken: bool) -> list[str]:
    """Return what is wrong with the way the tap ended."""
    found = ["the tap showed a traceback"] if "Traceback" in log else []
    allowed = {0, CLEAR, -signal.SIGKILL, 128 + signal.SIGTERM} if is_broken else {0}
    if code not in allowed:
        found.append(f"the tap ended with {code}: {log[-2000:]}")
    return found
