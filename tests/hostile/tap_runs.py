"""Run the tap in this process over one file, for each kind of message."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from typed_values import from_json, plain

from singer_arrow.storage.urls import Url
from tap_s3_files.tap import TapS3Files

MESSAGES = ("parquet", "jsonl", "records")


def sent(data: bytes, name: str, messages: str, **stream: Any) -> Sent:
    """Run the tap over one file, and return what it sent.

    Args:
        data: Content of the file.
        name: Name of the file.
        messages: `parquet` or `jsonl` for BATCH messages, `records` for RECORD messages.
        stream: Settings of the stream.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in", name)
        path.parent.mkdir()
        path.write_bytes(data)
        config: dict[str, Any] = {"streams": [{"name": "rows", "path": str(path), **stream}], "metadata_columns": False}
        if messages != "records":
            root = f"file://{folder}/out"
            config["batch_config"] = {"encoding": {"format": messages}, "storage": {"root": root}}
        text = io.StringIO()
        with redirect_stdout(text):
            TapS3Files(config=config).sync_all()
        return Sent([json.loads(line, parse_float=Decimal) for line in text.getvalue().split("\n")[:-1]])


class Sent:
    """Messages, with the content of the files of BATCH messages."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self.schemas = [m["schema"] for m in messages if m["type"] == "SCHEMA"]
        self._records = [m["record"] for m in messages if m["type"] == "RECORD"]
        self._tables: list[pa.Table] = []
        for path in (Url.parse(u).local_path() for m in messages if m["type"] == "BATCH" for u in m["manifest"]):
            if path.suffix == ".parquet":
                self._tables.append(pq.ParquetFile(path).read())
            else:
                self._records += _lines(path)

    def columns(self, schema: pa.Schema) -> dict[str, list[Any]]:
        """Return the columns in the form of `typed_values.plain`, with the types of the file."""
        if self._tables:
            whole = pa.concat_tables(self._tables)
            return {name: plain(whole[name]) for name in whole.column_names}
        return {f.name: [from_json(r.get(f.name), f.type) for r in self._records] for f in schema}


def _lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line, parse_float=Decimal) for line in file)
