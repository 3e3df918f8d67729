"""Singer connectors that carry data as Arrow: storage, file formats, batch files, loads, and STATE after durability.

The names of `__all__` are the public API; docs/api.md describes them. Each is imported when it is first used. Every
other name may change in any version.

batch         BATCH messages and their files
casting       Exact conversions of values: from text, JSON and Arrow, and to JSON
compression   Detect the codec of a stream, and decompress it; Snappy
enforcement   Rows of a file -> rows of exactly the stream's schema; bad rows, drift
errors        The exception tree: fatal, retriable or skippable
formats       One or two files for each file format, and the list of them
load          Loads of items into tables, each batch once; checkpoints, dead letters
monitoring    Log formats, progress on terminals, reports of runs, lineage
naming        Names with a meaning in every package, and short digests
pipeline      A pipeline in one file: its description, its STATE, its run
read_options  How a file is read, where reading is, and what it leaves out
reading       Objects read by ranges, in bounded memory
records       RECORD lines <-> Arrow
run_figures   The figures of a run, by stream
runtime       Threads, executors, temporary files, memory of the process
schema        Arrow schema <-> JSON Schema
sdk           The seam to singer-sdk; the only place that uses its private members
settings      Settings, each declared once; their JSON Schema and values
state_file    The STATE of a pipeline between runs
storage       Object stores, URLs, credentials, retries
warehouse     What warehouse targets share
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` would be imported before a connector can handle a signal
if TYPE_CHECKING:
    from typing import Any

    from singer_arrow import errors
    from singer_arrow.batch.files import write_batch_files
    from singer_arrow.batch.message import Batch
    from singer_arrow.formats import FORMATS, detect_format
    from singer_arrow.pipeline import PipelineError, PipelineResult, run
    from singer_arrow.read_options import ReadOptions
    from singer_arrow.reading.objects import ObjectReader
    from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
    from singer_arrow.sdk.cli import run_connector
    from singer_arrow.sdk.tap import ArrowStream, ArrowTap
    from singer_arrow.sdk.target import WarehouseTarget
    from singer_arrow.storage.store import Storage
    from singer_arrow.storage.urls import Url
    from singer_arrow.warehouse.table import WarehouseTable

__all__ = [
    "FORMATS",
    "ArrowStream",
    "ArrowTap",
    "Batch",
    "ObjectReader",
    "PipelineError",
    "PipelineResult",
    "ReadOptions",
    "Storage",
    "Url",
    "WarehouseTable",
    "WarehouseTarget",
    "detect_format",
    "errors",
    "from_json_schema",
    "run",
    "run_connector",
    "to_json_schema",
    "write_batch_files",
]

_MODULES = {
    "FORMATS": "formats",
    "ArrowStream": "sdk.tap",
    "ArrowTap": "sdk.tap",
    "Batch": "batch.message",
    "ObjectReader": "reading.objects",
    "PipelineError": "pipeline",
    "PipelineResult": "pipeline",
    "ReadOptions": "read_options",
    "Storage": "storage.store",
    "Url": "storage.urls",
    "WarehouseTable": "warehouse.table",
    "WarehouseTarget": "sdk.target",
    "detect_format": "formats",
    "from_json_schema": "schema.json_schema",
    "run": "pipeline",
    "run_connector": "sdk.cli",
    "to_json_schema": "schema.json_schema",
    "write_batch_files": "batch.files",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("singer_arrow.errors")
    if name not in _MODULES:
        raise AttributeError(f"module 'singer_arrow' has no attribute {name!r}")
    return getattr(import_module(f"singer_arrow.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
