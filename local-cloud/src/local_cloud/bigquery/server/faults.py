"""Faults that are set over HTTP: which fault applies to a call, and counts of matches and of firings."""

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
    """The faults in force. PUT of a list to the URL path `path` replaces them; GET returns them with counts.

    `match` is a regular expression that is searched for in the subject of a call. The first `skip` matching calls pass.
    Then the fault fires at most `times` times, or without limit. A call for which it fires first waits `delay_s`
    seconds, at most until other faults are set. `suffering` counts such calls that have not returned yet; GET also
    returns replaced faults that affect one. `keys` may occur too, and `is_known` checks their values.
    """

    def __init__(self, path: str, keys: set[str], is_known: Callable[[Fault], bool]) -> None:
        self._path, self._keys, self._is_known = path, keys | KEYS, is_known
        self._changed = threading.Condition()
        self._faults: list[Fault] = []
        self._former: list[Fault] = []

    def firing(self, subject: str, concerns: Callable[[Fault], bool]) -> Fault | None:
        """Return the first fault that fires for a call, if any, and count it. The caller then enters `delaying`."""
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
        """Wait for the delay of a fault. The affected call ends with the block."""
        with self._changed:
            self._changed.wait_for(lambda: not any(fault is other for other in self._faults), fault.get("delay_s", 0))
        try:
            yield
        finally:
            self.end(fault)

    def end(self, fault: Fault) -> None:
        """Count the end of a call for which a fault fired. `delaying` calls it at its end."""
        with self._changed:
            fault["suffering"] -= 1

    def _report(self) -> list[Fault]:
        with self._changed:
            self._former = [fault for fault in self._former if fault["suffering"]]
            return [dict(fault) for fault in (*self._faults, *self._former)]

    def add_control(self) -> None:
        """Add the HTTP control of the faults to the server."""

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
