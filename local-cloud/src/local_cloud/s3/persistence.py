"""What moto lacks: memory that is saved and restored; times of modification that are chosen; ranges at their own cost.

Saved are the buckets, and for each object the newest version with its content, headers, ETag and time of
modification. Queues, their messages and the configuration of buckets are created anew.
"""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ACCOUNT = "123456789012"
INDEX = "index.json"


def _backend() -> Any:
    from moto.s3.models import s3_backends

    return s3_backends[ACCOUNT]["aws"]


def save(directory: Path) -> None:
    """Save everything to `directory`, which is replaced only when the new content is complete."""
    making = directory.with_name(directory.name + ".new")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    buckets = _backend().buckets
    index: dict[str, list[dict[str, Any]]] = {name: [] for name in buckets}
    for number, (name, key) in enumerate((name, key) for name, b in buckets.items() for key in b.keys.values()):
        (making / f"{number}").write_bytes(key.value)
        entry = {"key": key.name, "file": f"{number}", "etag": key.etag.strip('"'), "storage": key.storage_class}
        index[name].append({**entry, "modified": key.last_modified.isoformat(), "metadata": dict(key.metadata)})
    (making / INDEX).write_text(json.dumps(index), encoding="utf-8")
    shutil.rmtree(directory, ignore_errors=True)
    making.rename(directory)


def restore(directory: Path) -> None:
    """Restore what `save` has written. Does nothing on the first run."""
    if not (directory / INDEX).exists():
        return
    index = json.loads((directory / INDEX).read_text(encoding="utf-8"))
    backend = _backend()
    for bucket, objects in index.items():
        backend.create_bucket(bucket, "us-east-1")
        for entry in objects:
            content = (directory / entry["file"]).read_bytes()
            key = backend.put_object(
                bucket, entry["key"], content, storage=entry["storage"], etag=entry["etag"], disable_notification=True
            )
            key.set_metadata(entry["metadata"], replace=True)
            key.last_modified = datetime.fromisoformat(entry["modified"])


# Objects whose time of modification is chosen at upload, which the real S3 does not offer.

METADATA = "local-cloud-modified"
"""The metadata key of an object's time of modification, in ISO 8601 with an offset. A copy keeps it."""


class _Content:
    """The bytes of an object, read by slices: moto would read it whole, and copy it twice, for each range."""

    def __init__(self, key: Any) -> None:
        self._key = key

    def __len__(self) -> int:
        return int(self._key.size)

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(len(self))
        with self._key.lock:
            self._key._value_buffer.seek(start)
            return bytes(self._key._value_buffer.read(stop - start))


def patch() -> None:
    """Make moto take the time of modification from the metadata, and copy an object only in a version that is named.

    GET of a range reads that range only.
    """
    from flask import has_request_context, request
    from moto.s3.exceptions import PreconditionFailed
    from moto.s3.models import FakeKey
    from moto.s3.responses import S3Response

    copy_object, set_metadata = S3Response.copy_object, FakeKey.set_metadata

    def copy_version(self: S3Response) -> Any:
        etag = self.headers.get("x-amz-copy-source-if-match")
        bucket, _, key = unquote(self.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        if etag and (found := self.backend.get_object(bucket, key)) and found.etag != etag:
            raise PreconditionFailed("x-amz-copy-source-If-Match")
        return copy_object(self)

    S3Response.copy_object = copy_version  # type: ignore[method-assign]

    def set_metadata_and_time(self: FakeKey, metadata: Any, replace: bool = False) -> None:
        set_metadata(self, metadata, replace)
        if chosen := self.metadata.get(f"x-amz-meta-{METADATA}"):
            self.last_modified = datetime.fromisoformat(chosen).astimezone(UTC).replace(tzinfo=None)

    FakeKey.set_metadata = set_metadata_and_time  # type: ignore[method-assign]

    whole, ranged = FakeKey.value, S3Response._handle_range_header

    def content(self: FakeKey) -> Any:
        is_ranged = has_request_context() and request.method == "GET" and request.headers.get("Range")
        return _Content(self) if is_ranged and "partNumber" not in request.args else whole.fget(self)  # type: ignore[attr-defined]

    def ranged_bytes(*arguments: Any) -> Any:
        status, headers, found = ranged(*arguments)
        return status, headers, found[:] if isinstance(found, _Content) else found  # of a range that S3 ignores

    FakeKey.value = property(content, whole.fset)  # type: ignore[assignment,attr-defined]
    S3Response._handle_range_header = ranged_bytes  # type: ignore[assignment,method-assign]
