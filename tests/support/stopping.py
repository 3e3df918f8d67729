"""A run of a target in this process that stops at one of its calls of the warehouse: for good, or until it is woken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from singer_lines import Message
from warehouses import Warehouse

from target_bigquery.connection.connection import Connection as BigQuery
from target_bigquery.storage_write import client as write_api
from target_redshift.connection.connection import Connection as Redshift
from target_redshift.connection.connection import Session

WAIT_SECONDS = 120.0


class StoppedError(BaseException):
    """The run is dead."""


class Run:
    """A run in a thread of its own; what its calls are is known from the clients that this thread makes.

    Args:
        at: The number of the call at which all of its threads stop, from 1.
        dies: Whether that is its end.

    Attributes:
        stopped: It has come to that call.
        wake: Lets it go on.
        states: What has left.
        error: What it failed of.
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
        """Begin, and come to the call or to the end."""

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
        """Let it go on to its end."""
        assert self._thread
        self.wake.set()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()

    def made(self, thing: object) -> None:
        """Something was made, perhaps by this run."""
        if threading.current_thread() is self._thread:
            self._own.append(thing)

    def opened(self, connection: object, session: object) -> None:
        """A session was opened, by whichever thread."""
        if any(connection is own for own in self._own):
            self._own.append(session)

    def call(self, thing: object) -> None:
        """Something calls the warehouse."""
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
    """Let a run hear of all calls of warehouses."""

    def before(owner: type, name: str, hear: Callable[[Any], None]) -> None:
        real = getattr(owner, name)

        def heard(self: Any, *args: Any, **options: Any) -> Any:
            hear(self)
            return real(self, *args, **options)

        patch.setattr(owner, name, heard)

    for client in (BigQuery, Redshift):
        before(client, "__init__", run.made)
    before(BigQuery, "call_once", run.call)
    before(write_api.WriteApi, "_call", lambda api: run.call(api._bigquery))
    before(Session, "execute", run.call)
    connect = Redshift._connect

    def connected(self: Redshift) -> Session:
        session = connect(self)
        run.opened(self, session)
        return session

    patch.setattr(Redshift, "_connect", connected)
