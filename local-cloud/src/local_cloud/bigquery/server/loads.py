"""Load jobs: compressed uploads, typed files, and the table's own schema where none is given."""

import gzip
import shutil
import threading
from pathlib import Path
from typing import Any

from local_bigquery.catalog import tables
from local_bigquery.errors import BigQueryError
from local_bigquery.jobs import load, runner

GZIP_MAGIC = b"\x1f\x8b"
_reading = threading.local()


def _inflate(upload: Path) -> None:
    """Decompress an upload in place; the server takes gzip from gs:// alone."""
    with upload.open("rb") as file:
        if file.read(2) != GZIP_MAGIC:
            return
    plain = upload.with_suffix(".plain")
    with gzip.open(upload) as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    plain.replace(upload)


def _table_schema(config: Any) -> Any:
    """The configuration with the destination's schema, when the job gives none and the table has one."""
    if config.schema_ and config.schema_.fields:
        return config
    try:
        table = tables.get(*tables.reference(config.destinationTable))
    except BigQueryError:
        return config
    return config.replace(schema=table.schema_.dump()) if tables.fields(table) else config


def mend() -> None:
    """Replace the parts of the server's load jobs."""
    decoded, projection, run = load._decoded, load._projection, load.run

    def decode(expression: str, field: Any, depth: int = 0) -> str:
        # Bytes come as base64 in text; in Parquet and Avro they are bytes already.
        return expression if getattr(_reading, "typed", False) else str(decoded(expression, field, depth))

    def project(config: Any, fields: Any, columns: Any) -> Any:
        _reading.typed = (config.sourceFormat or "CSV") not in load.TEXT_FORMATS
        try:
            return projection(config, fields, columns)
        finally:
            _reading.typed = False

    def load_job(cursor: Any, config: Any, upload: str | None) -> Any:
        if upload:
            _inflate(Path(upload))
        text = (config.sourceFormat or "CSV") in load.TEXT_FORMATS
        if text and not config.autodetect:
            config = _table_schema(config)
        return run(cursor, config, upload)

    load._decoded, load._projection, load.run = decode, project, load_job
    runner.HANDLERS["load"] = load_job
