"""Faults that are set over HTTP: which of them a call suffers, and how often each has matched and fired."""

import re
import threading
from collections.abc import Callable
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from local_bigquery.app import app

Fault = dict[str, Any]
KEYS = {"match", "delay_s", "skip", "times"}


class Faults:
    """The faults in force.

    Of every kind of fault: `match` is searched for as a regular expression in what a call is about; so many calls as
    `skip` says pass first; it fires as often as `times` says, or without end; whoever suffers it waits `delay_s` first.

    Args:
        path: where they are set by PUT of a list, instead of what was set before, and given with counts by GET.
        keys: what a fault of this kind may hold besides.
        is_known: whether the values of these are understood.
    """

    def __init__(self, path: str, keys: set[str], is_known: Callable[[Fault], bool]) -> None:
        self._path, self._keys, self._is_known = path, keys | KEYS, is_known
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def firing(self, subject: str, concerns: Callable[[Fault], bool]) -> Fault | None:
        """The first fault that concerns a call and fires now, if any; it counts as fired."""
        for fault in self._faults:
            if not re.search(fault.get("match", ""), subject) or not concerns(fault):
                continue
            with self._lock:
                fault["matched"] += 1
                if fault["matched"] <= fault.get("skip", 0) or fault["fired"] >= fault.get("times", fault["fired"] + 1):
                    continue
                fault["fired"] += 1
            return fault
        return None

    def add_control(self) -> None:
        """Let them be set."""

        async def replace(request: Request) -> JSONResponse:
            given = await request.json()
            for fault in given:
                if set(fault) - self._keys or not self._is_known(fault):
                    return JSONResponse({"error": f"cannot understand the fault {fault}"}, status_code=400)
            with self._lock:
                self._faults = [fault | {"matched": 0, "fired": 0} for fault in given]
            return JSONResponse(self._faults)

        app.add_api_route(self._path, replace, methods=["PUT"])
        app.add_api_route(self._path, lambda: self._faults, methods=["GET"])
