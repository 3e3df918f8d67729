"""Build Singer messages, and run a target on them in this process."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from singer_arrow.formats import WRITABLE
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.sdk.target import WarehouseTarget
from target_bigquery.target import TargetBigQuery

Message = dict[str, Any]
COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])


def lines(messages: Iterable[Message]) -> str:
    """Return the messages as lines of a tap."""
    return "".join(json.dumps(m) + "\n" for m in messages)


def schema(stream: str = "rows", columns: pa.Schema = COLUMNS, keys: tuple[str, ...] = ("id",)) -> Message:
    """Return a SCHEMA as tap-s3-files writes it."""
    properties = to_json_schema(columns, keys=keys)
    return {"type": "SCHEMA", "stream": stream, "schema": properties, "key_properties": list(keys)}


def record(stream: str = "rows", *, version: int | None = None, **values: Any) -> Message:
    """Return a RECORD."""
    message = {"type": "RECORD", "stream": stream, "record": values}
    return message if version is None else message | {"version": version}


def state(number: int) -> Message:
    """Return a STATE."""
    return {"type": "STATE", "value": {"n": number}}


def activate(version: int, stream: str = "rows") -> Message:
    """Return an ACTIVATE_VERSION."""
    return {"type": "ACTIVATE_VERSION", "stream": stream, "version": version}


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Return rows of `COLUMNS`."""
    return [{"id": n, "name": f"name {n}"} for n in range(first, first + count)]


def some_batches(batch: Callable[..., Message], count: int = 6, first: int = 0, **options: Any) -> list[Message]:
    """Return a run of several batches of two rows, with ids as tap-s3-files sends, each followed by a STATE."""
    run = [schema()]
    for n in range(first, first + count):
        run += [batch(rows(2 * n, 2), batch_id=f"batch-{n}", **options), state(n)]
    return run


def states(text: str | bytes) -> list[int]:
    """Return the numbers of the STATEs that a target wrote."""
    return [json.loads(line)["n"] for line in text.splitlines()]


def batch_of(url: str, file_format: str, stream: str = "rows", *, version: int | None = None) -> Message:
    """Return a BATCH of one file, without the additions of tap-s3-files."""
    message = {"type": "BATCH", "stream": stream, "encoding": {"format": file_format}, "manifest": [url]}
    return message if version is None else message | {"version": version}


def counted(batch_id: str, rows: int, size: int) -> Message:
    """Return the members that tap-s3-files adds to a BATCH."""
    return {"batch_id": batch_id, "row_count": rows, "byte_count": size}


class Batches:
    """Writes batch files into a folder, and returns their messages."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def __call__(
        self,
        content: list[dict[str, Any]],
        *,
        stream: str = "rows",
        columns: pa.Schema | dict[str, Any] = COLUMNS,
        file_format: str = "parquet",
        batch_id: str | None = None,
        version: int | None = None,
    ) -> Message:
        """Return a BATCH message of one file; with an id as tap-s3-files sends, or without one."""
        self._count += 1
        arrow = columns if isinstance(columns, pa.Schema) else from_json_schema(columns)
        path = self._folder / f"{self._count}.{'jsonl.gz' if file_format == 'jsonl' else file_format}"
        if file_format != "jsonl":
            batches = pa.Table.from_pylist(content, arrow).to_batches()
            WRITABLE[file_format].write(batches, arrow, path)
        else:
            path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in content).encode()))
        message = batch_of(path.as_uri(), file_format, stream, version=version)
        return message if batch_id is None else message | counted(batch_id, len(content), path.stat().st_size)


def load(
    messages: Iterable[Message] | str,
    config: dict[str, Any],
    target: type[WarehouseTarget] = TargetBigQuery,
    on_state: Callable[[Message], None] = lambda _: None,
) -> WarehouseTarget:
    """Run a target in this process, as its executable does; a text is passed unchanged."""
    running = target(config=dict(config))
    checkpoints = running.run.checkpoints
    emit = checkpoints.emit

    def emit_and_report(state: Any) -> None:
        on_state(state)
        emit(state)

    checkpoints.emit = emit_and_report
    try:
        running.listen(io.StringIO(messages if isinstance(messages, str) else lines(messages)))
    except BaseException as error:
        running.run.abandon(error)
        raise
    finally:
        running.run.close()
    return running
