"""Faults that are set over HTTP: which of them a call suffers, and how often each has matched and fired."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from local_bigquery.app import app

Fault = dict[str, Any]
KEYS = {"match", "delay_s", "skip", "times"}


class Faults:
    """The faults in force.

    Of every kind of fault: `match` is searched for as a regular expression in what a call is about; so many calls as
    `skip` says pass first; it fires as often as `times` says, or without end. A call that it fires for waits `delay_s`
    seconds first, at most until other faults are set. `suffering` counts the calls that have not returned yet.

    Args:
        path: where they are set by PUT of a list, instead of what was set before, and given with counts by GET; it also
            gives former faults while a call suffers from them.
        keys: what a fault of this kind may hold besides.
        is_known: whether the values of these are understood.
    """

    def __init__(self, path: str, keys: set[str], is_known: Callable[[Fault], bool]) -> None:
        self._path, self._keys, self._is_known = path, keys | KEYS, is_known
        self._changed = threading.Condition()
        self._faults: list[Fault] = []
        self._former: list[Fault] = []

    def firing(self, subject: str, concerns: Callable[[Fault], bool]) -> Fault | None:
        """Return the first fault that fires for a call, if any, and count it; the caller then enters `delaying`."""
        for fault in self._faults:
            if not re.search(fault.get("match", ""), subject) or not concerns(fault):
                continue
            with self._changed:
                fault["matched"] += 1
                if fault["matched"] <= fault.get("skip", 0) or fault["fired"] >= fault.get("times", fault["fired"] + 1):
                    continue
                fault["fired"] += 1
                fault["suffering"] += 1
            return fault
        return None

    @contextmanager
    def delaying(self, fault: Fault) -> Iterator[None]:
        """Wait as long as a fault asks for; the call that it fires for ends with the block."""
        with self._changed:
            self._changed.wait_for(lambda: not any(fault is other for other in self._faults), fault.get("delay_s", 0))
        try:
            yield
        finally:
            self.end(fault)

    def end(self, fault: Fault) -> None:
        """Count the end of a call that a fault fires for; `delaying` does it at its own."""
        with self._changed:
            fault["suffering"] -= 1

    def _report(self) -> list[Fault]:
        with self._changed:
            self._former = [fault for fault in self._former if fault["suffering"]]
            return [dict(fault) for fault in (*self._faults, *self._former)]

    def add_control(self) -> None:
        """Let them be set."""

        async def replace(request: Request) -> JSONResponse:
            given = await request.json()
            for fault in given:
                if set(fault) - self._keys or not self._is_known(fault):
                    return JSONResponse({"error": f"cannot understand the fault {fault}"}, status_code=400)
            with self._changed:
                self._former += self._faults
                self._faults = [fault | {"matched": 0, "fired": 0, "suffering": 0} for fault in given]
                self._changed.notify_all()
                return JSONResponse(self._faults)

        app.add_api_route(self._path, replace, methods=["PUT"])
        app.add_api_route(self._path, self._report, methods=["GET"])
