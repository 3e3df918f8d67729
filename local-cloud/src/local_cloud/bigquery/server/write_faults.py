"""Calls of the Storage Write API that are slow or fail on request."""

from collections.abc import Callable
from typing import Any

import grpc
from google.cloud.bigquery_storage_v1 import types
from google.protobuf import any_pb2
from google.rpc import status_pb2
from local_bigquery.grpc import read

from local_cloud.bigquery.server.faults import Fault, Faults

CALLS = ("create", "append", "finalize", "commit", "get")
CODES: Any = types.StorageError.StorageErrorCode


def _is_known(fault: Fault) -> bool:
    known = fault.get("call", CALLS[0]) in CALLS and fault.get("status", "OK") in grpc.StatusCode.__members__
    return known and (fault.get("code") or CODES(0).name) in CODES.__members__


FAULTS = Faults("/local-cloud/write-faults", {"call", "status", "code", "message", "after", "in_band"}, _is_known)


class Refusal(read.StorageError):  # type: ignore[misc] # the server is not installed where types are checked
    """A failed call, with BigQuery's own error code."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        storage_code: str | None = None,  # the name of a StorageErrorCode
        entity: str = "",  # the stream or table of the error
        *,
        in_band: bool = True,  # an append is answered with the error while its connection stays open
    ) -> None:
        super().__init__(code, message)
        self.storage_code = storage_code
        self.entity = entity
        self.in_band = in_band

    @property
    def status(self) -> status_pb2.Status:
        """Return the error as a status message."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.storage_code:
            error = types.StorageError(code=CODES[self.storage_code], entity=self.entity, error_message=self.message)
            packed = any_pb2.Any()
            packed.Pack(types.StorageError.pb(error))
            status.details.append(packed)
        return status


def suffering(call: str, table: str, function: Callable[[], Any]) -> Any:
    """Run a call with its faults: wait, and fail before or after it."""
    fault = FAULTS.firing(table, lambda fault: fault.get("call", call) == call)
    if fault is None:
        return function()
    answer = None
    if fault.get("after"):
        try:
            answer = function()
        except BaseException:  # the call itself fails
            FAULTS.end(fault)
            raise
    with FAULTS.delaying(fault):
        if error := _refusal(fault):
            raise error
        return answer if fault.get("after") else function()


def _refusal(fault: Fault) -> Refusal | None:
    """Return the error of a fault, or None if it only delays."""
    if not (name := fault.get("status")):
        return None
    message = fault.get("message", f"made to fail: {name}")
    return Refusal(grpc.StatusCode[name], message, fault.get("code"), in_band=fault.get("in_band", False))
