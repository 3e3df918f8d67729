"""Object storage by URL: S3, Google Cloud Storage, Azure and local disk over obstore; other schemes over smart_open.

The one place where obstore's errors become ours. All methods may be called from several threads at once.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from singer_arrow import aws
from singer_arrow.aws import AwsOptions
from singer_arrow.errors import (
    ConfigError,
    CredentialsError,
    DataError,
    EmptyObjectError,
    NotFoundError,
    ObjectChangedError,
    ServiceError,
    SingerArrowError,
)
from singer_arrow.urls import Url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = ("s3", "gs", "az", "file")
_PAGE = 1000  # objects that a service tells of in one answer
_PART = 16 << 20  # bytes of one part of a multipart upload
# `read_timeout` ends a stalled body; `timeout` bounds a whole one, so obstore's default of 30 s would end slow ones.
_CLIENT = {"connect_timeout": "10s", "read_timeout": "20s", "timeout": "600s"}
_EXPIRED = re.compile(r"ExpiredToken|InvalidToken|TokenRefreshRequired|RequestExpired")
_NO_RANGE = re.compile(r"InvalidRange|416 Range Not Satisfiable|range was invalid|starting at \d+ but|beyond the end")
_NO_PATH = re.compile(r'invalid path: (?:Error parsing )?Path "(.*?)"')
_DENIED = re.compile(r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|Forbidden|403")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or an answer tells of an object: size in bytes, ETag, time of its last change in UTC."""

    url: Url
    size: int
    etag: str | None
    modified: datetime

    def same_version(self, other: ObjectInfo) -> bool:
        """Whether both are of one version of the object."""
        if self.etag and other.etag:
            return self.etag == other.etag
        return self.size == other.size and self.modified == other.modified


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes `start` to `start + len(data)` of an object. `data` supports the buffer protocol without a copy."""

    data: Any
    start: int
    info: ObjectInfo


class Storage:
    """All object stores of one run, opened on first use and kept."""

    def __init__(self, options: AwsOptions | None = None) -> None:
        self._aws = options or AwsOptions()
        self._stores: dict[tuple[str, str], ObjectStore] = {}
        self._lock = threading.Lock()

    def list(self, prefix: Url, *, after: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key begins with the prefix, in no promised order; folder markers are left out.

        Args:
            prefix: What keys begin with.
            after: Only objects with keys after this one, in the order of their bytes. Where the service lists in that
                order (see `lists_in_order`), it is not asked for others.

        Raises:
            NotFoundError: The bucket does not exist.
        """
        folder, _, name = prefix.key.rpartition("/")
        ordered = lists_in_order(prefix)
        begin = max(after, prefix.key[:-1] if name and ordered else "")
        with _mapped(prefix):
            for page in self._store(prefix).list(folder or None, offset=begin or None, chunk_size=_PAGE):
                for meta in page:
                    key = meta["path"]
                    if key.startswith(prefix.key):
                        if key > after:
                            yield _info(Url(prefix.scheme, prefix.bucket, key), meta)
                    elif ordered and key > prefix.key:
                        return

    def head(self, url: Url) -> ObjectInfo:
        """Size, ETag and time of an object.

        Raises:
            NotFoundError: There is no such object.
        """
        with _mapped(url):
            return _info(url, self._store(url).head(url.key))

    def exists(self, url: Url) -> bool:
        """Whether there is such an object."""
        try:
            self.head(url)
        except NotFoundError:
            return False
        return True

    def get(
        self,
        url: Url,
        *,
        start: int | None = None,
        end: int | None = None,
        suffix: int | None = None,
        version_of: ObjectInfo | None = None,
    ) -> Fetched:
        """Bytes `start` to `end` (exclusive), the last `suffix` bytes, or the whole object, in one request.

        With `version_of` the bytes are of that very version: the request carries If-Match, and the answer is
        compared too, for servers that ignore it.

        Raises:
            ObjectChangedError: The object is no longer that version, or is gone.
            EmptyObjectError: A range was asked of an object without a byte.
            NotFoundError: There is no such object.
            ServiceError: The answer broke off, also after obstore's own tries.
        """
        options: dict[str, Any] = {}
        if suffix is not None:
            options["range"] = {"suffix": suffix}
        elif end is not None:
            options["range"] = (start or 0, end)
        elif start:
            options["range"] = {"offset": start}
        if version_of is not None and version_of.etag:
            options["if_match"] = version_of.etag
        with _mapped(url, pinned=version_of is not None):
            result = self._store(url).get(url.key, options=cast("Any", options))
            info = _info(url, result.meta)
            if version_of is not None and not info.same_version(version_of):
                raise _changed(url)
            first, last = result.range
            data = result.bytes()
        if len(data) != last - first:
            msg = f"{url}: the answer broke off after {len(data)} of {last - first} bytes; try again"
            raise ServiceError(msg)
        return Fetched(data, first, info)

    def put(self, url: Url, data: bytes, *, if_absent: bool = False) -> bool:
        """Write an object at once.

        Returns:
            Whether it was written: False if `if_absent` and there already is one.
        """
        from obstore.exceptions import AlreadyExistsError

        self._make_folder(url)
        with _mapped(url):
            try:
                self._store(url).put(url.key, data, mode="create" if if_absent else "overwrite")
            except AlreadyExistsError:
                return False
        return True

    def put_file(self, url: Url, path: Path) -> int:
        """Move a local file to the URL, atomically: nobody ever sees a part of it.

        Returns:
            Its size in bytes.
        """
        size = path.stat().st_size
        if url.scheme == "file":
            self._make_folder(url)
            _replace(path, url.local_path())
            return size
        with _mapped(url):
            self._store(url).put(url.key, path, chunk_size=_PART)
        path.unlink()
        return size

    def delete(self, urls: Iterable[Url]) -> None:
        """Delete objects; those already gone are no error."""
        ordered = sorted(urls)
        for _, group in groupby(ordered, key=lambda u: (u.scheme, u.bucket)):
            some = list(group)
            with _mapped(some[0]):
                try:
                    self._store(some[0]).delete([u.key for u in some])
                except FileNotFoundError:  # local disks report it; elsewhere it is the bucket that is missing
                    if some[0].scheme != "file":
                        raise
                    for url in some:
                        url.local_path().unlink(missing_ok=True)

    def download(self, url: Url, path: Path) -> int:
        """Copy an object to a local file.

        Returns:
            Its size in bytes.
        """
        with path.open("wb") as out:
            if url.scheme not in SCHEMES:
                with self.open(url) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
                return out.tell()
            with _mapped(url):
                for chunk in self._store(url).get(url.key).stream(min_chunk_size=1 << 20):
                    out.write(chunk)
            return out.tell()

    def open(self, url: Url) -> BinaryIO:
        """Read an object in order, by smart_open: for the schemes that obstore lacks (http, ftp, sftp, hdfs)."""
        import smart_open

        try:
            return smart_open.open(str(url), "rb", compression="disable")
        except (OSError, ValueError, NotImplementedError, ImportError) as error:
            msg = f"{url} cannot be opened: {_line(error)}"
            raise NotFoundError(msg) from None

    def _make_folder(self, url: Url) -> None:
        if url.scheme == "file":
            url.local_path().parent.mkdir(parents=True, exist_ok=True)

    def _store(self, url: Url) -> ObjectStore:
        key = (url.scheme, url.bucket)
        with self._lock:
            if key not in self._stores:
                self._stores[key] = self._open_store(url)
            return self._stores[key]

    def _open_store(self, url: Url) -> ObjectStore:
        from obstore import store

        if url.scheme == "file":
            return store.LocalStore()
        if url.scheme == "s3":
            return self._open_s3(url.bucket)
        if url.scheme == "gs":
            return store.GCSStore(url.bucket, client_options=cast("Any", _CLIENT))
        if url.scheme == "az":
            return store.AzureStore(url.bucket, client_options=cast("Any", _CLIENT))
        msg = f"{url}: the scheme {url.scheme!r} can only be read one object at a time; use {', '.join(SCHEMES)}"
        raise ConfigError(msg)

    def _open_s3(self, bucket: str) -> ObjectStore:
        from obstore.store import S3Store

        options, boto = self._aws, aws.session(self._aws)
        endpoint = options.endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        region = options.region or boto.region_name
        if region is None:
            region = "us-east-1" if endpoint else aws.bucket_region(boto, bucket, anonymous=options.anonymous)
        config: dict[str, Any] = {"region": region, "virtual_hosted_style_request": endpoint is None}
        if endpoint:
            config["endpoint"] = endpoint
        if options.requester_pays:
            config["request_payer"] = True
        client = {**_CLIENT, "allow_http": bool(endpoint and endpoint.startswith("http://"))}
        if options.anonymous:
            config["skip_signature"] = True
            return S3Store(bucket, config=cast("Any", config), client_options=cast("Any", client))
        provider = aws.credential_provider(options, boto)
        return S3Store(
            bucket,
            config=cast("Any", config),
            client_options=cast("Any", client),
            credential_provider=cast("Any", provider),
        )


def lists_in_order(url: Url) -> bool:
    """Whether a service lists keys in the order of their bytes: all do, but S3's directory buckets."""
    return url.scheme in ("s3", "gs", "az") and not url.bucket.endswith("--x-s3")


def _info(url: Url, meta: Any) -> ObjectInfo:
    return ObjectInfo(url, meta["size"], meta["e_tag"], meta["last_modified"])


def _replace(path: Path, target: Path) -> None:
    try:
        path.replace(target)
    except OSError:  # another file system: copy beside the target first, so that the last step is still one rename
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        shutil.copyfile(path, beside)
        beside.replace(target)
        path.unlink()


def _changed(url: Url) -> ObjectChangedError:
    return ObjectChangedError(
        f"{url} was replaced or deleted while it was being read; run again to read its new version"
    )


@contextmanager
def _mapped(url: Url, *, pinned: bool = False) -> Iterator[None]:
    """Turn obstore's errors into ours; `pinned` says that a missing object was there before."""
    from obstore import exceptions as oe

    try:
        yield
    except SingerArrowError:
        raise
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error) or "BucketNotFound" in str(error):
            raise _no_bucket(url) from None
        if pinned:
            raise _changed(url) from None
        msg = f"{url} does not exist"
        raise NotFoundError(msg) from None
    except oe.PreconditionError:
        raise _changed(url) from None
    except PermissionError as error:  # local disks, and obstore's own of the same base
        msg = f"{url}: access is denied ({_line(error)}); check the credentials and what they allow"
        raise CredentialsError(msg) from None
    except (oe.BaseError, OSError) as error:
        raise _other(url, error, pinned=pinned) from None


def _other(url: Url, error: Exception, *, pinned: bool) -> Exception:
    text = str(error)
    if pinned and "412 Precondition Failed" in text:  # obstore met it while it resumed a broken body
        return _changed(url)
    if _NO_RANGE.search(text):
        return EmptyObjectError(f"{url} holds no byte where some were asked for; it is empty or was cut")
    if "NoSuchBucket" in text:
        return _no_bucket(url)
    if found := _NO_PATH.search(text):
        hint = "Rename the object, or keep it out of the folder that is listed"
        return DataError("its key has an empty part, or one that is '.' or '..'", url=found[1], hint=hint)
    if "InvalidObjectState" in text:
        return NotFoundError(f"{url} is archived; restore it from its storage class first")
    if _EXPIRED.search(text):
        return CredentialsError(f"{url}: the credentials have expired ({_line(error)}); renew them and run again")
    if isinstance(error, PermissionError) or _DENIED.search(text):
        return CredentialsError(f"{url}: access is denied ({_line(error)}); check the credentials and what they allow")
    return ServiceError(f"{url}: the storage did not answer as it should ({_line(error)}); try again")


def _no_bucket(url: Url) -> NotFoundError:
    return NotFoundError(f"{url.scheme}://{url.bucket} does not exist; check the bucket's name and region")


def _line(error: Exception) -> str:
    """A vendor's message in one short line: S3's own code and text where there are any."""
    text = str(error)
    code, message = (
        re.search(r"<Code>(.*?)</Code>", text),
        re.search(r"<Message>(.*?)</Message>", text, re.DOTALL),
    )
    if code:
        text = f"{code[1]}: {message[1]}" if message else code[1]
    return " ".join(text.partition("Debug source")[0].split())[:300].rstrip(" -")
