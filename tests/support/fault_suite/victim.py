"""Fork runs of the targets from a process that has imported them, and kill them at given steps.

`python -m fault_suite.victim` reads one JSON object per line: program, arguments, env, stdin, stdout and stderr
(paths), kill, hasty. It writes the process id of the run, then how the run ended. A run executes the connector's
command line in a process of its own; only the imports are shared.
"""

from __future__ import annotations

import faulthandler
import functools
import gc
import importlib
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

PROGRAMS = {"target-bigquery": "target_bigquery", "target-redshift": "target_redshift"}
IMPORTED = (
    *(f"{package}.{name}" for package in PROGRAMS.values() for name in ("__main__", "target")),
    *("google.cloud.bigquery", "google.auth.credentials", "google.api_core.client_options", "requests", "urllib3"),
    *("redshift_connector", "obstore.store", "obstore.exceptions", "pyarrow.parquet", "pyarrow.json", "fastavro"),
    *("singer_arrow.formats.avro", "singer_arrow.formats.parquet_write", "pyarrow.compute", "jsonschema"),
)
_TIME_TO_RECEIVE = 0.1


def main() -> None:
    """Fork runs until standard input ends."""
    from singer_arrow.runtime.process import limit_arenas
    from singer_arrow.sdk.cli import import_sdk

    limit_arenas()
    import_sdk()
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    for line in iter(sys.stdin.readline, ""):
        job = json.loads(line)
        pid = os.fork()
        if not pid:
            run(job)
            return
        reply(pid)
        reply(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def reply(word: int) -> None:
    """Write an answer."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def run(job: dict[str, Any]) -> None:
    """Execute the run in this process."""
    for number, (name, flags) in enumerate(
        (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY | os.O_TRUNC), ("stderr", os.O_WRONLY | os.O_TRUNC))
    ):
        handle = os.open(job[name], flags | (os.O_CREAT if number else 0), 0o600)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
    faulthandler.register(signal.SIGUSR1, sys.stderr)  # prints the stack of a hung run
    os.environ.update(job["env"])
    load_one_by_one()
    write_each_state()
    sys.argv = [job["program"], *job["arguments"]]
    if job["hasty"]:
        hasten()
    if job["kill"]:
        arm(**job["kill"])
    package: Any = importlib.import_module(f"{PROGRAMS[job['program']]}.__main__")
    package.main()


def arm(*, at: str, when: str, match: str, nth: int, signal: int, after_s: float) -> None:
    """Send a signal when a step is reached for the nth time; see `catalogue.Step`."""
    if not at:
        timer = threading.Timer(after_s, strike, [signal])
        timer.daemon = True
        timer.start()
    elif at == "stdout":
        sys.stdout = Torn(sys.stdout, signal)
    else:
        wrap(at, functools.partial(strike, signal), when=when, match=match, nth=nth)


def strike(number: int) -> None:
    """Send this process a signal, and wait until it is handled."""
    os.kill(os.getpid(), number)
    time.sleep(_TIME_TO_RECEIVE)


def wrap(at: str, act: Callable[[], None], *, when: str, match: str, nth: int) -> None:
    """Act before or after the nth call of a function that has a matching text argument."""
    module, _, path = at.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, importlib.import_module(module))
    real, lock, seen = getattr(owner, name), threading.Lock(), 0

    @functools.wraps(real)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nonlocal seen
        is_it = False
        if not match or any(isinstance(a, str) and re.search(match, a) for a in (*args, *kwargs.values())):
            with lock:
                seen += 1
                is_it = seen == nth
        if is_it and when == "before":
            act()
        answer = real(*args, **kwargs)
        if is_it and when == "after":
            act()
        return answer

    setattr(owner, name, wrapped)


class Torn:
    """Standard output that ends the process in the middle of its first line, or before the flush."""

    def __init__(self, real: Any, number: int) -> None:
        self._real, self._signal = real, number

    def write(self, text: str) -> int:
        """Write."""
        if self._signal == signal.SIGKILL:
            self._real.write(text[: len(text) // 2])
            self._real.flush()
        else:
            self._real.write(text)
        number, self._signal = self._signal, 0
        if number:
            strike(number)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def load_one_by_one() -> None:
    """Load each batch alone, however small it is; no setting does this."""
    from singer_arrow.load.run import Limits

    names = [f.name for f in fields(Limits)]
    defaults = dict(zip(names, Limits.__init__.__defaults__ or (), strict=True))
    change(defaults, items=1)
    Limits.__init__.__defaults__ = tuple(defaults.values())


def write_each_state() -> None:
    """Release every STATE as soon as it is allowed, so that an early one is detected."""
    from singer_arrow.load.run import Checkpoints

    change(Checkpoints.__init__.__kwdefaults__, interval=0.0)


def hasten() -> None:
    """Shorten the timeouts of a run; only its behaviour after them is tested."""
    from google.cloud.bigquery import client

    from singer_arrow.load import staging as stage
    from singer_arrow.runtime import threads as retries
    from target_bigquery import client as jobs
    from target_bigquery import connection as bigquery
    from target_bigquery import ledger
    from target_redshift import connection as redshift
    from target_redshift import load

    change(retries.pauses.__kwdefaults__, first=0.01, most=0.2)
    change(bigquery.ONCE, timeout=0.6)
    change(vars(client), _MIN_GET_QUERY_RESULTS_TIMEOUT=0.6)  # the minimum timeout for results
    change(vars(bigquery), DEADLINE_SECONDS=3.0)
    change(vars(jobs), REQUEST_SECONDS=0.6, UPLOAD_SECONDS=0.6, KNOWN_AFTER_SECONDS=1.0, ESTIMATE_SECONDS=0.6)
    change(vars(ledger), PATIENCE_SECONDS=1.0)
    change(vars(redshift), DEADLINE_SECONDS=3.0)
    change(vars(load), DEADLINE_SECONDS=3.0)
    change(vars(stage), DEADLINE_SECONDS=3.0)
    hasten_storage()


def hasten_storage() -> None:
    """Shorten the storage timeouts of a run."""
    from singer_arrow.storage import errors as pace
    from singer_arrow.storage import store as stores

    change(vars(pace), DEADLINE=3.0, FIRST_PAUSE=0.01, MAX_PAUSE=0.1)
    change(stores.CLIENT_TIMEOUTS, read_timeout="600ms")
    options = stores.retry_options
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=100), "base": 2}

    def few(*, persistent: bool) -> dict[str, Any]:
        quick = {"retry_config": {"max_retries": 8, "backoff": backoff, "retry_timeout": timedelta(seconds=3)}}
        return options(persistent=persistent) or quick

    change(vars(stores), retry_options=few)


def change(where: dict[str, Any], **values: Any) -> None:
    """Replace attributes that exist."""
    assert not values.keys() - where.keys(), f"{sorted(values.keys() - where.keys())} are called otherwise now"
    where.update(values)


if __name__ == "__main__":
    main()
