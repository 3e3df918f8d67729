"""Results of queries as files; the process that sends them, `python -m local_cloud.flightsql.endpoint RESULTS PORT`."""

import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from local_cloud.flightsql.faults import Rule
from local_cloud.lifeline import Ready, end_with_parent

# Results of queries as files, one for each endpoint, and tickets for them.

KEPT = 50  # results; tickets of older ones have expired


@dataclass(frozen=True, slots=True)
class Ticket:
    """What an endpoint is asked for: the rows of a file; and the fault that this request meets."""

    file: str
    fault: Rule

    def to_bytes(self) -> bytes:
        """Encode the ticket."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Ticket":
        """Decode a ticket."""
        value = json.loads(data)
        return cls(value["file"], Rule(**value["fault"]))


class Results:
    """The files of results."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def write(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch], parts: int) -> tuple[list[str], int]:
        """Write the rows of a result, dealt out to `parts` files; return their names, and the number of rows."""
        number, rows = next(self._numbers), 0
        names = [f"result-{number}-{part}.arrows" for part in range(parts)]
        writers = [pa.ipc.new_stream(str(self._folder / name), schema) for name in names]
        for batch in batches:
            rows += batch.num_rows
            size = -(-batch.num_rows // parts)
            for part, writer in enumerate(writers):
                if part * size < batch.num_rows:
                    writer.write_batch(batch.slice(part * size, size))
        for writer in writers:
            writer.close()
        for file in self._folder.glob(f"result-{number - KEPT}-*.arrows"):
            file.unlink()
        return names, rows


def read(path: Path) -> pa.ipc.RecordBatchStreamReader:
    """Return a reader of a file, mapped into memory; FileNotFoundError: the result is not kept any more."""
    return pa.ipc.open_stream(pa.memory_map(str(path)))


# The process of an endpoint.

ACCESS = "LOCAL_CLOUD_FLIGHTSQL_ACCESS"  # an `Access`, as JSON


def main() -> None:
    """Serve on 127.0.0.1 until the parent ends."""
    ready = Ready()
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    end_with_parent(lambda: None)
    # After the lifeline, because these imports take a while.
    import pyarrow.flight as fl

    from local_cloud.flightsql.access import Access
    from local_cloud.flightsql.protocol import handle_of

    given = json.loads(os.environ[ACCESS])
    access = Access(**{**given, "folder": Path(given["folder"])})

    class Endpoint(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
        def do_get(self, context: Any, ticket: Any) -> Any:  # noqa: ARG002 - the signature of pyarrow
            wish = Ticket.from_bytes(handle_of(ticket.ticket))
            try:
                reader = read(folder / wish.file)
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
