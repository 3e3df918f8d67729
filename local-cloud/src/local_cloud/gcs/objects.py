"""Buckets and objects as files `folder/bucket/key`; standard library only, because BigQuery's server imports it."""

import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO

_CHUNK = 1 << 20
PARTIAL = ".partial"  # name of the folder beside the buckets for objects that are being written


class StorageError(Exception):
    """An error answer of Google Cloud Storage: HTTP status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's metadata: size in bytes, time, and the stored headers of its upload."""

    key: str
    size: int
    etag: str
    generation: int
    modified: datetime
    headers: Mapping[str, str] = field(default_factory=dict)


class Objects:
    """All buckets, each a subfolder of `folder`. Safe from any thread; an object is written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._partial = folder / PARTIAL
        self._partial.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Stored] = {}
        self._generation = 0
        self._uploads: dict[str, tuple[str, str, Mapping[str, str], dict[int, Path]]] = {}

    def create_bucket(self, bucket: str) -> None:
        """Create a bucket, if it does not exist."""
        self._bucket_path(bucket).mkdir(exist_ok=True)

    def delete_bucket(self, bucket: str) -> None:
        """Remove a bucket with all its objects. The real service refuses a bucket that is not empty."""
        shutil.rmtree(self._bucket(bucket))

    def received(self, body: BinaryIO | BufferedIOBase, size: int) -> Path:
        """Write bytes to a temporary file and return its path, for `put` or `put_part`."""
        descriptor, name = tempfile.mkstemp(dir=self._partial)
        with os.fdopen(descriptor, "wb") as out:
            while size:
                chunk = body.read(min(_CHUNK, size))
                if not chunk:
                    Path(name).unlink()
                    raise StorageError(400, "IncompleteBody", "The request body ended too early.")
                out.write(chunk)
                size -= len(chunk)
        return Path(name)

    def put(self, bucket: str, key: str, path: Path, headers: Mapping[str, str], *, match: int | None = None) -> Stored:
        """Make `path`, from `received`, an object; `match`: required generation of the present one, 0: none exists."""
        try:
            place = self._path(bucket, key)
            modified = datetime.now(UTC)
            etag = _md5(path)
            with self._lock:
                there = self._stored(bucket, key) if place.is_file() else None
                if match is not None and match != (there.generation if there else 0):
                    raise StorageError(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    size = path.stat().st_size
                    path.replace(place)
                except OSError:
                    message = f"the local Google Cloud Storage cannot have both an object and a folder named {key}"
                    raise StorageError(501, "NotImplemented", message) from None
                self._generation = max(self._generation + 1, int(modified.timestamp() * 1e6))
                stored = Stored(key, size, etag, self._generation, modified, dict(headers))
                self._known[bucket, key] = stored
            return stored
        finally:
            path.unlink(missing_ok=True)

    def get(self, bucket: str, key: str) -> tuple[Stored, BinaryIO]:
        """Return an object and its bytes at this moment. The caller closes the stream."""
        with self._lock:
            place = self._path(bucket, key)
            try:
                return self._stored(bucket, key), place.open("rb")
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                raise StorageError(404, "NoSuchKey", f"The specified key does not exist: {bucket}/{key}") from None

    def delete(self, bucket: str, key: str) -> None:
        """Remove an object, and the folders that are empty then."""
        with self._lock:
            self._known.pop((bucket, key), None)
            place, root = self._path(bucket, key), self._bucket(bucket)
            if not place.is_file():
                raise StorageError(404, "NoSuchKey", f"The specified key does not exist: {bucket}/{key}")
            place.unlink()
            for folder in place.parents:
                if folder == root or any(folder.iterdir()):
                    return
                folder.rmdir()

    def list(self, bucket: str, prefix: str, after: str) -> list[Stored]:
        """Return the objects whose keys begin with `prefix` and follow `after`, in the order of their bytes."""
        with self._lock:
            root = self._bucket(bucket)
            keys = (p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
            selected = (key for key in keys if key.startswith(prefix) and key.encode() > after.encode())
            return [self._stored(bucket, key) for key in sorted(selected, key=str.encode)]

    def begin(self, bucket: str, key: str, headers: Mapping[str, str]) -> str:
        """Begin an upload in parts and return its id."""
        self._path(bucket, key)
        with self._lock:
            number = f"upload-{len(self._uploads)}-{os.urandom(4).hex()}"
            self._uploads[number] = (bucket, key, dict(headers), {})
        return number

    def put_part(self, upload: str, number: int, path: Path) -> str:
        """Store a part of an upload and return its ETag."""
        etag = _md5(path)
        with self._lock:
            self._upload(upload)[3][number] = path
        return etag

    def complete(self, upload: str, numbers: Iterable[int]) -> Stored:
        """Make an object of the parts."""
        with self._lock:
            bucket, key, headers, parts = self._upload(upload)
            if missing := set(numbers) - parts.keys():
                raise StorageError(400, "InvalidPart", f"There is no part {min(missing)}.")
            del self._uploads[upload]
        whole = parts[min(parts)]
        with whole.open("ab") as out:
            for number in sorted(parts)[1:]:
                with parts[number].open("rb") as part:
                    shutil.copyfileobj(part, out, _CHUNK)
                parts[number].unlink()
        return self.put(bucket, key, whole, headers)

    def abort(self, upload: str) -> None:
        """Discard an upload."""
        with self._lock:
            parts = self._upload(upload)[3]
            del self._uploads[upload]
        for part in parts.values():
            part.unlink(missing_ok=True)

    def _upload(self, upload: str) -> tuple[str, str, Mapping[str, str], dict[int, Path]]:
        if upload not in self._uploads:
            raise StorageError(404, "NoSuchUpload", "The requested upload was not found.")
        return self._uploads[upload]

    def _stored(self, bucket: str, key: str) -> Stored:
        """Return the metadata of a file. For a file that was written by another program, derive it from the file."""
        place = self._path(bucket, key)
        status = place.stat()
        known = self._known.get((bucket, key))
        if known is None:
            generation, modified = status.st_mtime_ns // 1000, datetime.fromtimestamp(status.st_mtime, UTC)
            known = self._known[bucket, key] = Stored(key, status.st_size, _md5(place), generation, modified)
        return known

    def _bucket_path(self, bucket: str) -> Path:
        if not bucket or bucket.startswith(".") or "/" in bucket:
            raise StorageError(400, "InvalidBucketName", "The specified bucket is not valid.")
        return self.folder / bucket

    def _bucket(self, bucket: str) -> Path:
        if not (path := self._bucket_path(bucket)).is_dir():
            raise StorageError(404, "NoSuchBucket", f"The specified bucket does not exist: {bucket}")
        return path

    def _path(self, bucket: str, key: str) -> Path:
        if not key or any(part in ("", ".", "..") for part in key.split("/")):
            message = f"the local Google Cloud Storage keeps objects as files, which cannot be named {key!r}"
            raise StorageError(501, "NotImplemented", message)
        return self._bucket(bucket) / key


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
