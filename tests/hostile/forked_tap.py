"""Run the tap over broken files, each run forked from a process that has imported it.

`python forked_tap.py` is that process: it reads one job per line, with `config`, `out` and `err`, and answers each with
exit code, time and memory.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST_S = 30


@dataclass(frozen=True)
class Ended:
    """The result of a run: exit code (negative: the number of a signal), seconds, megabytes, and output."""

    code: int
    seconds: float
    megabytes: float
    messages: list[dict[str, Any]]
    log: str


class ForkedTap:
    """Runs of the tap, one at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, config: dict[str, Any]) -> Ended:
        """Run the tap with a configuration, and return how it ended; a run of more than 30 s is killed."""
        files = {name: str(self._folder / name) for name in ("config", "out", "err")}
        Path(files["config"]).write_text(json.dumps(config))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(files) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        lines = Path(files["out"]).read_text().split("\n")[:-1]
        log = Path(files["err"]).read_text(errors="replace")
        return Ended(**answer, messages=[json.loads(line) for line in lines], log=log)


@contextmanager
def forked_tap(folder: Path) -> Iterator[ForkedTap]:
    """Start the process that forks the runs; it ends with the block."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield ForkedTap(process, folder)
        finally:
            process.kill()


def _serve() -> None:
    import polars  # noqa: F401 - it is imported where it is used
    import pyarrow.orc
    import pyarrow.parquet  # noqa: F401

    from tap_s3_files.tap import TapS3Files  # noqa: F401

    for line in sys.stdin:
        job = json.loads(line)
        began = time.monotonic()
        if (pid := os.fork()) == 0:
            _child(job)
        while (ended := os.wait4(pid, os.WNOHANG))[0] == 0:
            if time.monotonic() - began > LONGEST_S:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
        seconds, megabytes = time.monotonic() - began, ended[2].ru_maxrss / 1024
        answer = {"code": os.waitstatus_to_exitcode(ended[1]), "seconds": seconds, "megabytes": megabytes}
        print(json.dumps(answer), flush=True)


def _child(job: dict[str, str]) -> None:
    code = 70
    try:
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        sys.argv = ["tap-s3-files", "--config", job["config"]]
        from tap_s3_files.__main__ import main

        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - the test shows it
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
