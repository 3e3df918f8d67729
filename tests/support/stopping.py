"""Run a target in this process that stops at one of its warehouse calls: finally, or until resumed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from singer_lines import Message
from warehouses import Warehouse

from target_bigquery.connection import Connection as BigQuery
from target_bigquery.storage_write import client as write_api
from target_redshift.connection import Connection as Redshift
from target_redshift.connection import Session

WAIT_SECONDS = 120.0


class StoppedError(BaseException):
    """Raised in all threads of a run that is killed."""


class Run:
    """A target in a thread; its warehouse calls are recognized by the clients that this thread creates.

    Args:
        at: Number of the call at which all threads of the run stop, from 1.
        dies: Whether the run fails at that call.

    Attributes:
        stopped: Set when the call is reached.
        wake: Resumes the run when set.
        states: The numbers of the STATEs that were written.
        error: The exception that ended the run.
    """

    def __init__(self, at: int, *, dies: bool = False) -> None:
        self._at, self._dies, self._count = at, dies, 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._own: list[Any] = []
        self.stopped, self.wake = threading.Event(), threading.Event()
        self.states: list[int] = []
        self.error: BaseException | None = None

    def begin(self, warehouse: Warehouse, messages: Sequence[Message], **settings: Any) -> None:
        """Start the run, and wait until it reaches the call or ends."""

        def work() -> None:
            try:
                warehouse.load(messages, on_state=lambda state: self.states.append(state["n"]), **settings)
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.error = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        while self._thread.is_alive() and (self._dies or not self.stopped.wait(0.02)):
            self._thread.join(0.02)

    def end(self) -> None:
        """Resume the run, and wait until it ends."""
        assert self._thread
        self.wake.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def made(self, thing: object) -> None:
        """Register a client, if this run created it."""
        if threading.current_thread() is self._thread:
            self._own.append(thing)

    def opened(self, connection: object, session: object) -> None:
        """Register a session of one of this run's clients, opened by any thread."""
        if any(connection is own for own in self._own):
            self._own.append(session)

    def call(self, thing: object) -> None:
        """Count a warehouse call of this run, and stop at the chosen one."""
        if not any(thing is own for own in self._own):
            return
        with self._lock:
            self._count += 1
            if self._count < self._at:
                return
        self.stopped.set()
        if self._dies:
            raise StoppedError
        self.wake.wait(WAIT_SECONDS)


def watch(run: Run, patch: pytest.MonkeyPatch) -> None:
    """Route all warehouse calls through a run."""

    def before(owner: type, name: str, callback: Callable[[Any], None]) -> None:
        real = getattr(owner, name)

        def called(self: Any, *args: Any, **options: Any) -> Any:
            callback(self)
            return real(self, *args, **options)

        patch.setattr(owner, name, called)

    for client in (BigQuery, Redshift):
        before(client, "__init__", run.made)
    before(BigQuery, "call_once", run.call)
    before(write_api.WriteApi, "call", lambda api: run.call(api.bigquery))
    before(Session, "execute", run.call)
    connect = Redshift.connect

    def connected(self: Redshift) -> Session:
        session = connect(self)
        run.opened(self, session)
        return session

    patch.setattr(Redshift, "connect", connected)
