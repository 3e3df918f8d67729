"""The process of an endpoint: `python -m local_cloud.flightsql.endpoint RESULTS PORT`."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local_cloud.lifeline import Ready, end_with_parent

ACCESS = "LOCAL_CLOUD_FLIGHTSQL_ACCESS"  # an `Access`, as JSON


def main() -> None:
    """Serve on 127.0.0.1 until the parent ends."""
    ready = Ready()
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    end_with_parent(lambda: None)
    # After the lifeline, because these imports take a while.
    import pyarrow as pa
    import pyarrow.flight as fl

    from local_cloud.flightsql import results
    from local_cloud.flightsql.access import Access
    from local_cloud.flightsql.protocol import handle_of

    given = json.loads(os.environ[ACCESS])
    access = Access(**{**given, "folder": Path(given["folder"])})

    class Endpoint(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
        def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002 - the signature of pyarrow
            wish = results.Ticket.from_bytes(handle_of(ticket.ticket))
            try:
                reader = results.read(folder / wish.file)
            except FileNotFoundError:
                raise pa.ArrowKeyError("the ticket has expired") from None
            if wish.fault.action == "expired":
                raise pa.ArrowKeyError("the ticket has expired")
            if wish.fault.action == "none":
                return fl.RecordBatchStream(reader)
            if wish.fault.action == "slow":
                return fl.GeneratorStream(reader.schema, self._slow(reader, wish.fault.mb_per_s * 1e6))
            return fl.GeneratorStream(reader.schema, self._failing(reader, wish.fault))

        @staticmethod
        def _slow(reader: Any, bytes_per_s: float) -> Iterator[Any]:
            due = time.monotonic()
            for batch in reader:
                due = max(due, time.monotonic() - 0.1) + batch.nbytes / bytes_per_s
                time.sleep(max(0.0, due - time.monotonic()))
                yield batch

        @staticmethod
        def _failing(reader: Any, fault: Any) -> Iterator[Any]:
            batches = list(reader)
            yield from batches[: fault.after_batches]
            if fault.action == "lost":
                raise fl.FlightUnavailableError("the connection to the backend was lost")
            if fault.action == "restart":
                os.kill(os.getpid(), signal.SIGKILL)
            if fault.action == "error":
                raise fl.FlightServerError(fault.message)
            if fault.action == "hang":
                time.sleep(fault.delay_s)
            yield from batches[fault.after_batches : -1 if fault.action == "skip_rows" else None]

    server = Endpoint(f"{access.scheme}://127.0.0.1:{port}", **access.server_options())
    ready.report({"port": server.port})
    server.serve()


if __name__ == "__main__":
    main()
