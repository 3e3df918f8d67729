"""The list of objects of an S3 Inventory, for buckets that are too large to be listed.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from singer_arrow.errors import DataError, NotFoundError, SingerArrowError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.storage.object_page import OBJECT_COLUMNS, decoded_keys
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
_WORD = re.compile(r"(?<!^)(?=[A-Z][a-z]|(?<=[a-z])[A-Z])")
_PARQUET_FIELD = re.compile(r"(?:required|optional)\s+\w+\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an inventory consists of: `columns` are those of its files, in order, as Parquet names them."""

    url: Url
    format: str
    columns: tuple[str, ...]
    files: tuple[Url, ...]


def read_inventory(storage: Storage, manifest: Url, budget: Budget) -> Iterator[tuple[Url, pa.RecordBatch]]:
    """Yield the newest versions of the objects in an inventory, in no particular order.

    Each item is the URL of a bucket, and some of its objects in the columns of `OBJECT_COLUMNS`. `manifest` is a
    `manifest.json`; or a folder, which ends with a slash: then that of the newest inventory below it.
    """
    url = manifest
    if manifest.key.endswith("/"):  # folders are named by the time, and a manifest is written last
        manifests = [o for o in storage.list(manifest) if o.url.name == "manifest.json"]
        if not manifests:
            msg = (
                f"No manifest.json is below {manifest}; check replication.manifest_url, and whether an inventory was "
                "made yet"
            )
            raise NotFoundError(msg)
        url = max(manifests, key=lambda o: (o.modified, o.url)).url
    found = read_manifest(storage, url)
    for file in found.files:
        yield from _objects(storage, found, file, budget)


def read_manifest(storage: Storage, url: Url) -> Manifest:
    text = bytes(storage.get(url).data)
    try:
        manifest_json = json.loads(text)
        kind, files = manifest_json["fileFormat"], [file["key"] for file in manifest_json["files"]]
        schema = manifest_json["fileSchema"]
        is_csv = kind == "CSV"
        columns = schema.split(",") if is_csv else _PARQUET_FIELD.findall(schema)
        if is_csv:  # `LastModifiedDate` is `last_modified_date` in Parquet
            columns = [_WORD.sub("_", name.strip()).lower().replace("etag", "e_tag") for name in columns]
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
    return Manifest(url, kind.lower(), tuple(columns), tuple(Url(url.scheme, bucket, key) for key in files))


def _objects(storage: Storage, manifest: Manifest, file: Url, budget: Budget) -> Iterator[tuple[Url, pa.RecordBatch]]:
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


def _newest_versions(batch: pa.RecordBatch, file: Url, *, decode: bool) -> Iterator[tuple[Url, pa.RecordBatch]]:
    import pyarrow.compute as pc

    names = batch.schema.names
    if "is_latest" in names:
        batch = batch.filter(pc.fill_null(batch["is_latest"], True))
    if "is_delete_marker" in names:
        batch = batch.filter(pc.invert(pc.fill_null(batch["is_delete_marker"], False)))
    needed = ("bucket", "key", "size", "last_modified_date")
    if any(batch[name].null_count for name in needed):
        key = next(r for r in batch.select(needed).to_pylist() if None in r.values())["key"]
        reason = f"{key!r} has no size or no time" if key else "a row of it names no object"
        raise DataError(reason, url=file)
    keys = pa.array(decoded_keys(batch["key"].to_pylist()), pa.string()) if decode else batch["key"]
    # In quotes, as S3's own answers have them, or null if there is none
    etags = pc.binary_join_element_wise('"', pc.utf8_trim(batch["e_tag"], '"'), '"', "")
    etags = pc.if_else(pc.equal(batch["e_tag"], ""), None, etags)
    columns = [keys, batch["size"], etags, batch["last_modified_date"].cast(pa.int64())]
    rows = pa.RecordBatch.from_arrays(columns, schema=OBJECT_COLUMNS)
    is_object = pc.invert(pc.ends_with(keys, "/"))
    for bucket in pc.unique(batch["bucket"]).to_pylist():
        is_in_bucket = pc.and_(pc.equal(batch["bucket"], bucket), is_object)
        yield Url("s3", bucket, ""), rows.filter(is_in_bucket)
