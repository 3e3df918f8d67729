"""Calls of the Storage Write API that are slow or fail on request."""

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from fastapi import Request
from fastapi.responses import JSONResponse
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import any_pb2
from google.rpc import status_pb2
from local_bigquery.app import app
from local_bigquery.grpc import read

PATH = "/local-cloud/write-faults"
CALLS = ("create", "append", "finalize", "commit", "get")
KEYS = {"call", "match", "status", "code", "message", "after", "in_band", "delay_s", "skip", "times"}
CODES: Any = types.StorageError.StorageErrorCode
_lock = threading.Lock()
_faults: list[dict[str, Any]] = []


class Refusal(read.StorageError):  # type: ignore[misc] # the server is not installed where types are checked
    """A failed call, with BigQuery's own word for it.

    Args:
        code: the gRPC status.
        message: what is wrong.
        storage_code: the name of a StorageErrorCode.
        entity: what it is about.
        in_band: an append is answered with it, and its connection goes on.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        storage_code: str | None = None,
        entity: str = "",
        *,
        in_band: bool = True,
    ) -> None:
        super().__init__(code, message)
        self.storage_code = storage_code
        self.entity = entity
        self.in_band = in_band

    @property
    def status(self) -> status_pb2.Status:
        """It as messages carry it."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.storage_code:
            error = types.StorageError(code=CODES[self.storage_code], entity=self.entity, error_message=self.message)
            packed = any_pb2.Any()
            packed.Pack(types.StorageError.pb(error))
            status.details.append(packed)
        return status


def _matching(call: str, table: str) -> dict[str, Any] | None:
    """The first fault that concerns a call now, if any; it counts as fired."""
    for fault in _faults:
        if fault.get("call", call) != call or not re.search(fault.get("match", ""), table):
            continue
        with _lock:
            fault["matched"] += 1
            if fault["matched"] <= fault.get("skip", 0) or fault["fired"] >= fault.get("times", fault["fired"] + 1):
                continue
            fault["fired"] += 1
        return fault
    return None


def suffering(call: str, table: str, function: Callable[[], Any]) -> Any:
    """Do what was asked for; wait and fail, before or after it, as the faults say."""
    fault = _matching(call, table)
    if fault is None:
        return function()
    answer = function() if fault.get("after") else None
    time.sleep(fault.get("delay_s", 0))
    if error := _refusal(fault):
        raise error
    return answer if fault.get("after") else function()


def _refusal(fault: dict[str, Any]) -> Refusal | None:
    """What a fault fails with; None if it was only slow."""
    if not (name := fault.get("status")):
        return None
    message = fault.get("message", f"made to fail: {name}")
    return Refusal(grpc.StatusCode[name], message, fault.get("code"), in_band=fault.get("in_band", False))


def add_control() -> None:
    """Let faults be set: PUT a list of them, instead of what was set before."""

    async def replace(request: Request) -> JSONResponse:
        given = await request.json()
        for fault in given:
            known = not set(fault) - KEYS and fault.get("call", CALLS[0]) in CALLS
            known = known and fault.get("status", "OK") in grpc.StatusCode.__members__
            if not known or (fault.get("code") or CODES(0).name) not in CODES.__members__:
                return JSONResponse({"error": f"cannot understand the fault {fault}"}, status_code=400)
        with _lock:
            _faults[:] = [fault | {"matched": 0, "fired": 0} for fault in given]
        return JSONResponse(_faults)

    app.add_api_route(PATH, replace, methods=["PUT"])
    app.add_api_route(PATH, lambda: _faults, methods=["GET"])
