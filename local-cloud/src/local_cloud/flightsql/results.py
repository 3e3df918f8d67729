"""Results of queries as files, one for each endpoint, and tickets for them."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from local_cloud.flightsql.faults import Rule

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
