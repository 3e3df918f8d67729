"""The list of objects of an S3 Inventory, for buckets that are too large to be listed.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa

from singer_arrow.errors import DataError, NotFoundError, SingerArrowError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url

_COLUMNS = {
    "bucket": pa.string(),
    "key": pa.string(),
    "size": pa.int64(),
    "last_modified_date": pa.timestamp("us", "UTC"),
    "e_tag": pa.string(),
    "is_latest": pa.bool_(),
    "is_delete_marker": pa.bool_(),
}
_NEEDED = {"size": "Size", "last_modified_date": "Last modified", "e_tag": "ETag"}
"""Optional fields of an inventory that are needed, and what S3's console calls them."""
_PARQUET_FIELD = re.compile(r"(?:required|optional)\s+\w+\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an inventory consists of: `columns` are those of its files, in order, as Parquet names them."""

    url: Url
    format: str
    columns: tuple[str, ...]
    files: tuple[Url, ...]


def read_inventory(storage: Storage, manifest: Url, budget: Budget) -> Iterator[ObjectInfo]:
    """Yield the newest versions of the objects in an inventory, in no particular order.

    Args:
        storage: Where it is.
        manifest: A `manifest.json`; or a folder, which ends with a slash: then that of the newest inventory below it.
        budget: Bounds the bytes in flight.

    Raises:
        NotFoundError: There is no manifest, or a file of it is missing.
        DataError: The manifest, or a file of it, is not what it must be.
    """
    found = read_manifest(storage, manifest if not manifest.key.endswith("/") else _newest(storage, manifest))
    for file in found.files:
        yield from _objects(storage, found, file, budget)


def read_manifest(storage: Storage, url: Url) -> Manifest:
    """Read a `manifest.json`.

    Raises:
        NotFoundError: There is none.
        DataError: It is none, is of a format that is not read, or its inventory lacks a column.
    """
    text = bytes(storage.get(url).data)
    try:
        manifest_json = json.loads(text)
        kind, files = manifest_json["fileFormat"], [file["key"] for file in manifest_json["files"]]
        columns = _columns(kind, manifest_json["fileSchema"])
        bucket = manifest_json["destinationBucket"].removeprefix("arn:aws:s3:::").rpartition(":")[2]
    except (AttributeError, KeyError, TypeError, ValueError):
        reason = "it is no manifest of an S3 Inventory"
        raise DataError(reason, url=url, hint="Give the URL of a manifest.json in replication.manifest_url") from None
    if kind not in ("CSV", "Parquet"):
        reason = f"its inventory is written in {kind}"
        raise DataError(reason, url=url, hint="Configure the inventory to be written as Parquet or CSV")
    if missing := [_NEEDED[name] for name in _NEEDED if name not in columns]:
        reason = f"its inventory lacks {', '.join(missing)} of the objects"
        raise DataError(reason, url=url, hint="Add these fields to the inventory's configuration")
    return Manifest(url, kind.lower(), columns, tuple(Url(url.scheme, bucket, key) for key in files))


def _columns(kind: str, schema: str) -> tuple[str, ...]:
    if kind == "CSV":
        return tuple(_snake(name.strip()) for name in schema.split(","))
    return tuple(_PARQUET_FIELD.findall(schema))


def _snake(name: str) -> str:
    """`LastModifiedDate` as Parquet names it: `last_modified_date`."""
    return re.sub(r"(?<!^)(?=[A-Z][a-z]|(?<=[a-z])[A-Z])", "_", name).lower().replace("etag", "e_tag")


def _newest(storage: Storage, folder: Url) -> Url:
    """The manifest of the newest inventory: their folders are named by the time, and that is there when it is done."""
    found = [o for o in storage.list(folder) if o.url.name == "manifest.json"]
    if not found:
        msg = (
            f"No manifest.json is below {folder}; check replication.manifest_url, and whether an inventory was made yet"
        )
        raise NotFoundError(msg)
    return max(found, key=lambda o: (o.modified, o.url)).url


def _objects(storage: Storage, manifest: Manifest, file: Url, budget: Budget) -> Iterator[ObjectInfo]:
    reader = ObjectReader(storage, file, budget=budget)
    is_csv = manifest.format == "csv"
    names = [f"column_{n}" for n in range(1, len(manifest.columns) + 1)] if is_csv else list(manifest.columns)
    selected = {known: given for known, given in zip(manifest.columns, names, strict=True) if known in _COLUMNS}
    schema = pa.schema([(given, _COLUMNS[known]) for known, given in selected.items()])
    options = ReadOptions(header=False, delimiter=",") if is_csv else ReadOptions()
    try:
        for batch in FORMATS[manifest.format].read(reader, schema, options):
            yield from _newest_versions(batch.rename_columns(list(selected)), file, decode=is_csv)
    except DataError as error:
        raise error.at(f"{file} of {manifest.url}") from None
    except SingerArrowError as error:
        msg = f"{manifest.url} names a file that cannot be read: {error}"
        raise type(error)(msg) from None


def _newest_versions(batch: pa.RecordBatch, file: Url, *, decode: bool) -> Iterator[ObjectInfo]:
    columns: Mapping[str, Sequence[Any]] = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    nothing = [None] * batch.num_rows
    rows = zip(*(columns.get(name, nothing) for name in _COLUMNS), strict=True)
    for bucket, key, size, modified, etag, is_latest, is_marker in rows:
        if is_latest is False or is_marker:
            continue
        if bucket is None or key is None or size is None or modified is None:
            reason = f"{key!r} has no size or no time" if key else "a row of it names no object"
            raise DataError(reason, url=file)
        name = unquote_plus(key) if decode else key
        if not name.endswith("/"):
            yield ObjectInfo(Url("s3", bucket, name), size, _quoted(etag), _in_utc(modified))


def _quoted(etag: str | None) -> str | None:
    """As S3's own answers have it."""
    return f'"{etag.strip(chr(34))}"' if etag else None


def _in_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
