"""Load jobs: compressed uploads, files on Google Cloud Storage, typed files, and checks as in BigQuery."""

import gzip
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from local_bigquery.catalog import names, tables
from local_bigquery.errors import BigQueryError
from local_bigquery.jobs import load, runner, storage
from local_bigquery.models import TableFieldSchema

from local_cloud.bigquery.server.files import avro, files
from local_cloud.bigquery.server.tables import schemas

MOST_URIS = 10_000
GZIP_MAGIC = b"\x1f\x8b"
TYPED = ("PARQUET", "AVRO", "ORC")
_reading = threading.local()


def _inflate(upload: Path) -> None:
    """Decompress an upload in place, because the server accepts gzip only from gs://."""
    with upload.open("rb") as file:
        if file.read(2) != GZIP_MAGIC:
            return
    plain = upload.with_suffix(".plain")
    with gzip.open(upload) as source, plain.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
    plain.replace(upload)


def _destination(config: Any) -> list[Any]:
    """Return the fields of the destination table, or none if it does not exist or will be replaced."""
    if config.writeDisposition == "WRITE_TRUNCATE":
        return []
    try:
        return list(tables.fields(tables.get(*tables.reference(config.destinationTable))))
    except BigQueryError:
        return []


def _given(config: Any) -> list[Any]:
    return list((config.schema_ and config.schema_.fields) or [])


def _check_modes(config: Any, nullable: dict[str, bool], existing: list[Any]) -> None:
    """Refuse columns that are nullable in the file or the job's schema and required in the table."""
    given = {field.name.casefold(): field.mode != "REQUIRED" for field in _given(config)}
    loose = given or {name.casefold(): value for name, value in nullable.items()}
    reference = tables.reference(config.destinationTable)
    changed = [field.name for field in existing if field.mode == "REQUIRED" and loose.get(field.name.casefold(), False)]
    if "ALLOW_FIELD_RELAXATION" in (config.schemaUpdateOptions or []):
        schemas.relax(reference, changed)
    elif changed:
        raise files.refuse(
            f"Provided Schema does not match Table {names.label(*reference)}. "
            f"Field {changed[0]} has changed mode from REQUIRED to NULLABLE"
        )


def _check_parquet(upload: Path, config: Any, existing: list[Any]) -> None:
    schema = pq.read_schema(upload)
    files.check_names(schema.names)
    names.fields([TableFieldSchema(name=name) for name in schema.names])
    options = config.parquetOptions
    files.check_parquet(
        schema,
        list_inference=bool(options and options.enableListInference),
        decimal_targets=config.decimalTargetTypes or ["NUMERIC"],
    )
    files.check_years(pq.read_metadata(upload))
    present = {name.casefold() for name in schema.names}
    for field in _given(config) or existing:
        if field.type == "JSON" and field.name.casefold() in present:
            raise files.refuse(f"Unsupported field type: JSON (column {field.name} of a Parquet file)")
    _check_modes(config, {field.name: field.nullable for field in schema}, existing)


def _staged(cursor: Any, config: Any) -> list[str]:
    """Return the files of a job's URIs, all of which must exist; of Parquet files with one schema only the first."""
    uris = config.sourceUris or []
    if len(uris) > MOST_URIS:
        raise files.refuse(f"Too many sourceUris in the load job: {len(uris)}, the limit is {MOST_URIS}")
    if generations := [uri for uri in uris if "#" in uri]:
        raise files.unsupported(f"{generations[0]}: BigQuery takes no generation of an object")
    found = [(uri, path) for uri in uris for path in storage.paths(cursor, uri)]
    for uri, path in found:
        if not Path(path).is_file():
            raise BigQueryError("notFound", f"Not found: URI {uri}")
    if config.sourceFormat != "PARQUET":
        return [path for _, path in found]
    different: dict[Any, str] = {}
    for _, path in found:
        schema = pq.read_schema(path)
        different.setdefault((schema, *(field.nullable for field in schema)), path)
    return list(different.values())


def patch() -> None:
    """Replace the server's functions for load jobs."""
    decoded, projection, run = load._decoded, load._projection, load.run

    def decode(expression: str, field: Any, depth: int = 0) -> str:
        # Bytes are base64 in text formats; in Parquet and Avro they are bytes already.
        return expression if getattr(_reading, "typed", False) else str(decoded(expression, field, depth))

    def project(config: Any, fields: Any, columns: Any) -> Any:
        _reading.typed = (config.sourceFormat or "CSV") in TYPED
        try:
            return projection(config, fields, columns)
        finally:
            _reading.typed = False

    def load_job(cursor: Any, config: Any, upload: str | None) -> Any:
        if upload:
            _inflate(Path(upload))
        existing = _destination(config)
        for file in [upload] if upload else _staged(cursor, config):
            config = _checked(cursor, config, file, existing)
        return run(cursor, config, upload)

    def _checked(cursor: Any, config: Any, upload: str, existing: list[Any]) -> Any:
        kind = config.sourceFormat or "CSV"
        with load._reading({upload: None}):
            if kind == "PARQUET":
                _check_parquet(Path(upload), config, existing)
            elif kind == "AVRO":
                _check_modes(config, avro.nullable(Path(upload).read_bytes()), existing)
            elif not config.autodetect:
                if existing and not _given(config):
                    config = config.replace(schema={"fields": [field.dump() for field in existing]})
                if not _given(config):
                    raise files.refuse("No schema specified on job or table.")
                _check_modes(config, {}, existing)
                if kind == "NEWLINE_DELIMITED_JSON":
                    ignore = bool(config.ignoreUnknownValues)
                    files.check_keys(cursor, upload, _given(config), ignore_unknown=ignore)
        return config

    load._decoded, load._projection, load.run = decode, project, load_job
    load.ARROW_READERS["AVRO"] = avro.read
    runner.HANDLERS["load"] = load_job
