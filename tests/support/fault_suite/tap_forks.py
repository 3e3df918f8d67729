"""Runs of the tap, each forked from a process that has already imported it; see `tap_victim`."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_S = 90.0
"""Seconds after which a run counts as hung."""
CLEAR = 1


@dataclass(frozen=True)
class Job:
    """The input of a run.

    Attributes:
        config: Settings of the tap.
        state: The STATE, if any.
        env: Environment variables.
        plan: Limits of bundles and segments.
        fault: Keyword arguments of `tap_victim.Points`.
        limits: Limits of the process.
        hasty: Whether storage timeouts are shortened.
        catalog: The catalog, if any.
        flags: Options without a value.
    """

    config: Mapping[str, Any]
    state: Any
    env: Mapping[str, str]
    plan: Mapping[str, int]
    fault: Mapping[str, Any] | None = None
    limits: Mapping[str, int] | None = None
    hasty: bool = False
    catalog: Any = None
    flags: tuple[str, ...] = ()


class Running:
    """A run: its output so far, and how it ended.

    Attributes:
        code: The exit code; None if it has not ended, or hung.
        is_stopped: Whether it is stopped.
    """

    def __init__(self, forks: TapForks, pid: int, folder: Path) -> None:
        self._forks, self._pid, self._folder = forks, pid, folder
        self.code: int | None = None
        self.is_stopped = False

    def wait(self) -> None:
        """Wait until the run has ended or stopped; kill it if it hangs, and leave the code None."""
        found = self._forks.ask(op="wait", pid=self._pid)
        if found is None:
            os.kill(self._pid, signal.SIGUSR1)  # prints the stack of a hung run
            time.sleep(1)
            os.kill(self._pid, signal.SIGKILL)
            self._forks.answer()
        self.is_stopped = found == "stopped"
        self.code = found if isinstance(found, int) else None

    def wake(self) -> None:
        """Continue the run, and wait."""
        self._forks.ask(op="wake", pid=self._pid)
        self.wait()

    def kill(self) -> None:
        """Kill the run."""
        os.kill(self._pid, signal.SIGKILL)
        self.wait()

    @property
    def written(self) -> str:
        """The standard output of the run."""
        return (self._folder / "stdout").read_text(encoding="utf-8")

    @property
    def log(self) -> str:
        """The standard error of the run."""
        return (self._folder / "stderr").read_text(encoding="utf-8", errors="replace")

    @property
    def report(self) -> dict[str, Any]:
        """Return the points and imported modules of a run that has finished."""
        found: dict[str, Any] = json.loads((self._folder / "report").read_text())
        return found

    def forget(self) -> None:
        """Remove the files of the run."""
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()


class TapForks:
    """The process that forks runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        programs = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            # Python warns of forks in processes with threads; the only thread is jemalloc's, which supports fork.
            [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-m", "fault_suite.tap_victim"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # reading ahead would block
            start_new_session=True,  # Ctrl-C must reach only the suite
            cwd=programs,
        )

    def start(self, job: Job) -> Running:
        """Start a run."""
        folder = self._folder / uuid.uuid4().hex
        folder.mkdir()
        arguments = [*self._files(folder, config=job.config, state=job.state, catalog=job.catalog), *job.flags]
        paths = {name: str(folder / name) for name in ("stdout", "stderr", "report")}
        rest = {"env": job.env, "plan": job.plan, "fault": job.fault, "limits": job.limits or {}, "hasty": job.hasty}
        pid = self.ask(op="run", arguments=arguments, **paths, **rest)
        assert isinstance(pid, int)
        return Running(self, pid, folder)

    def may_mount(self) -> bool:
        """Whether runs may mount a small disk for TMPDIR."""
        return self.ask(op="may mount") == 1

    def learn(self, modules: Sequence[str], clients: Sequence[str], env: Mapping[str, str]) -> None:
        """Import modules and create botocore clients once for all runs that follow."""
        self.ask(op="learn", modules=list(modules), clients=list(clients), env=dict(env))

    def ask(self, **words: Any) -> int | str | None:
        """Send a request to the process; return None if it does not answer."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(words).encode() + b"\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> int | str | None:
        """Return the next answer of the process."""
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], LONGEST_S)
        if not ready:
            return None
        line = self._process.stdout.readline()
        assert line, "the process that forks runs has ended"
        found: int | str = json.loads(line)
        return found

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(LONGEST_S)
        self._process.stdout.close()

    def _files(self, folder: Path, **options: Any) -> list[str]:
        arguments = []
        for name, value in options.items():
            if value is not None:
                (folder / name).write_text(json.dumps(value), encoding="utf-8")
                arguments += [f"--{name}", str(folder / name)]
        return arguments
