"""A service: a child process that reports its address and ends with this process; and the host on which it runs."""

import json
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_cloud.errors import LocalCloudError

LOG_LINES = 15
STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Host:
    """Where a process runs."""

    address: str = "127.0.0.1"
    enter: tuple[str, ...] = ()  # the command that runs there the command after it, with the same process id


HERE = Host()


class Service:
    """A running child process, or `LocalCloudError` with the last lines of its output if it does not start in time.

    Guarantees: once constructed, or after `await_ready` if it is started with `is_awaited=False`, the service answers;
    it is in its own session, so Ctrl-C at a terminal reaches only its owner; it ends when `stop` is called or when this
    process ends in any way.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        is_awaited: bool = True,
    ) -> None:
        self.name = name
        self.log = log
        self.facts: dict[str, Any] = {}  # what the child reports: its address
        self._timeout = timeout
        environment = dict(os.environ if env is None else env)
        if threading.current_thread() is threading.main_thread():
            # The kernel sends the signal at the end of the starting thread; only the main thread lasts for sure.
            environment["LOCAL_CLOUD_PARENT_SIGNAL"] = "1"
        with log.open("wb") as sink:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environment,
                start_new_session=True,
            )
        if is_awaited:
            self.await_ready()

    def await_ready(self) -> None:
        """Wait until the child answers; `LocalCloudError` if it does not."""
        try:
            self.facts = self._facts(self._timeout)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """The process id of the child, which is also the id of its session."""
        return self._process.pid

    def _facts(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        output = b""
        with self._process.stdout as pipe, selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not output.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise LocalCloudError(self._failure(f"did not answer within {timeout:g} s"))
                chunk = os.read(pipe.fileno(), 65536)
                if not chunk:
                    code = self._process.wait(STOP_SECONDS)
                    raise LocalCloudError(self._failure(f"ended at once with exit code {code}"))
                output += chunk
        facts: dict[str, Any] = json.loads(output)
        return facts

    def _failure(self, what: str) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join([f"local {self.name} {what}; its last lines:", *(f"    {line}" for line in lines)])

    def alive(self) -> bool:
        """Whether the child is running."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the child and wait for it. Does nothing if it has ended."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
