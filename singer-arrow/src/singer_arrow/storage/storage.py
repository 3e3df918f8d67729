"""Object storage by URL: S3, Google Cloud Storage, Azure and local disk over obstore; other schemes over smart_open.

The one place where vendors' errors become ours. All methods may be called from several threads at once.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from singer_arrow.errors import ConfigError, ConflictError, DataError, NotFoundError, ServiceError
from singer_arrow.storage import s3_client as s3
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.cache import Kept
from singer_arrow.storage.errors import changed, conflict_of, is_not_encrypted, line, mapped
from singer_arrow.storage.object_info import Fetched, Lifetime, ObjectInfo
from singer_arrow.storage.retry import Pace, always, persist
from singer_arrow.storage.store_factory import GoogleToken, Place, Reach, open_store
from singer_arrow.storage.urls import Url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

logger = logging.getLogger(__name__)
SCHEMES = ("s3", "gs", "az", "file")
_PAGE = 1000  # objects that a service tells of in one answer
_PART = 16 << 20  # bytes of one part of a multipart upload
_PARTS = 12  # that are sent at once
_Answer = TypeVar("_Answer")


class Storage:
    """All object stores of one run, opened on first use and kept.

    Args:
        options: How S3 is reached.
        google: Credentials for Google Cloud Storage; None: those of the environment.
    """

    def __init__(self, options: AwsOptions | None = None, google: GoogleToken | None = None) -> None:
        self._aws = options or AwsOptions()
        self._google = google
        self._stores: dict[tuple[str, str, bool, bool, date | None], ObjectStore] = {}
        self._buckets: dict[str, s3.Bucket] = {}
        self._places: dict[str, Place] = {}
        self._reach = Reach(self._aws)
        self._lock = threading.Lock()
        self.kept = Kept()
        """What was read through it and may be wanted again."""
        self.given_up = threading.Event()
        """Set: the run is over, and nothing that is read is asked for again."""

    def list(self, prefix: Url, *, after: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key begins with the prefix, in no promised order; folder markers are left out.

        A listing that breaks off is an error, also where the service answers `200` with something else than a page of
        a listing. On Google Cloud Storage such an answer counts as the end only if the next one names no object either.

        Args:
            prefix: What keys begin with.
            after: Only objects with keys after this one, in the order of their bytes. Where the service lists in that
                order (see `lists_in_order`), it is not asked for others.

        Raises:
            NotFoundError: The bucket does not exist.
            ServiceError: The service did not answer with a whole listing.
        """
        lists = {"s3": self._list_s3, "gs": self._list_twice}
        with mapped(prefix):
            yield from lists.get(prefix.scheme, self._list)(prefix, after)

    def _list_s3(self, prefix: Url, after: str) -> Iterator[ObjectInfo]:
        ordered = lists_in_order(prefix)
        asked = prefix.key if ordered else prefix.key[: prefix.key.rfind("/") + 1]  # directory buckets list folders
        for told in self._bucket(prefix).list(asked, after if ordered else ""):
            url = Url(prefix.scheme, prefix.bucket, told.key)
            if told.key.endswith("/"):
                if told.size:
                    logger.warning("%s holds %d bytes, but its key is that of a folder; it is left out", url, told.size)
            elif ordered or (told.key > after and told.key.startswith(prefix.key)):
                yield _told(url, told)

    def _list_twice(self, prefix: Url, after: str) -> Iterator[ObjectInfo]:
        """List until a request behind the last key gives no object, and make two requests at least.

        obstore takes a page that is no listing, or that is cut and lacks the token of the next one, for the last page
        of S3 and of Google; Azure's must have the element `Blobs`.
        """
        for count in itertools.count():
            last = ""
            for info in self._list(prefix, after):
                last = info.url.key
                yield info
            if count and not last:
                return
            after = last or after

    def _list(self, prefix: Url, after: str) -> Iterator[ObjectInfo]:
        folder, _, name = prefix.key.rpartition("/")
        ordered = lists_in_order(prefix)
        begin = max(after, prefix.key[:-1] if name and ordered else "")
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
        with mapped(url):
            if _is_odd(url):
                return _told(url, self._ask_s3(url, lambda bucket, keyed: bucket.head(url.key, keyed=keyed)))
            return _info(url, self._ask(url, lambda store: store.head(url.key)))

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
        wanted: Callable[[], bool] = always,
    ) -> Fetched:
        """Bytes `start` to `end` (exclusive), the last `suffix` bytes, or the whole object, in one request.

        With `version_of` the bytes are of that very version: the request carries If-Match, and the answer is
        compared too, for servers that ignore it. Once it is not `wanted` any more it is not asked for again.

        Raises:
            ObjectChangedError: The object is no longer that version, or is gone.
            EmptyObjectError: A range was asked of an object without a byte.
            ArchivedError: S3 gives its bytes only once it is restored.
            NotFoundError: There is no such object.
            ServiceError: There was no whole answer, also after further tries (see `pace.persist`).
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
        with mapped(url, pinned=version_of is not None):
            if _is_odd(url):
                return self._get_odd(url, options, version_of)
            return persist(
                lambda: self._get(url, options, version_of), url, wanted=lambda: wanted() and not self.given_up.is_set()
            )

    def _get(self, url: Url, options: Mapping[str, Any], version_of: ObjectInfo | None) -> Fetched:
        result = self._ask(url, lambda store: store.get(url.key, options=cast("Any", options)), persistent=False)
        info = _info(url, result.meta)
        if version_of is not None and not info.same_version(version_of):
            raise changed(url)
        first, last = result.range
        data = result.bytes()
        if len(data) != last - first:
            msg = f"{url}: the answer broke off after {len(data)} of {last - first} bytes; try again"
            raise ServiceError(msg)
        return Fetched(data, first, info)

    def _get_odd(self, url: Url, options: Mapping[str, Any], version_of: ObjectInfo | None) -> Fetched:
        told = self._ask_s3(url, lambda bucket, keyed: bucket.get(url.key, options, keyed=keyed))
        info = _told(url, told)
        if version_of is not None and not info.same_version(version_of):
            raise changed(url)
        return Fetched(told.data, told.start, info)

    def put(
        self,
        url: Url,
        data: bytes | Path,
        *,
        if_absent: bool = False,
        lifetime: Lifetime | None = None,
        parts: int = _PARTS,
    ) -> bool:
        """Write an object at once, of bytes or of a local file, which stays: no reader ever sees a part of it.

        A write that is refused because of another one under way (409) is repeated, as S3 asks for.

        Args:
            url: Which object.
            data: What is in it.
            if_absent: Only if there is none.
            lifetime: After which a rule of the bucket may remove it.
            parts: How many parts of a large file are sent at once; each is 16 MiB of memory.

        Returns:
            Whether it was written. False only with `if_absent`: the object exists. It may be an earlier try of this
            very call that wrote it, if the answer to that was lost; who wrote it shows only in its content.

        Raises:
            ServiceError: There was no answer, or always another write under way, also after further tries.
        """
        self._make_folder(url)
        day = datetime.now(UTC).date() if lifetime and url.scheme == "gs" else None
        options: dict[str, Any] = {"tags": lifetime.tags if lifetime and url.scheme == "s3" else None}
        options |= {"mode": "create" if if_absent else "overwrite", "chunk_size": _PART, "max_concurrency": parts}
        with mapped(url):
            return persist(
                lambda: self._put(url, data, day, options),
                url,
                pace=Pace(1),  # its own: uploads take long, and would take the places of reads
                wanted=lambda: not self.given_up.is_set(),
                passing=lambda error: (isinstance(error, ConflictError), False),  # obstore itself repeats the rest
            )

    def _put(self, url: Url, data: bytes | Path, day: date | None, options: Mapping[str, Any]) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store(url, day=day).put(url.key, data, **options)
        except AlreadyExistsError as error:
            if found := conflict_of(url, error, may_exist=options["mode"] == "create"):
                raise found from None
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
        self.put(url, path)
        path.unlink()
        return size

    def delete(self, urls: Iterable[Url]) -> None:
        """Delete objects; those already gone are no error."""
        ordered = sorted(urls)
        for _, group in groupby(ordered, key=lambda u: (u.scheme, u.bucket)):
            some = list(group)
            with mapped(some[0]):
                try:
                    self._store(some[0]).delete([u.key for u in some])
                except FileNotFoundError as error:
                    if some[0].scheme == "s3" or "NoSuchBucket" in line(error):
                        raise  # S3 reports no missing object, so it is the bucket
                    for url in some:
                        with contextlib.suppress(FileNotFoundError):
                            self._store(url).delete(url.key)

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
            if _is_odd(url):
                out.write(self.get(url).data)
                return out.tell()
            with mapped(url):
                for chunk in self._ask(url, lambda store: store.get(url.key)).stream(min_chunk_size=1 << 20):
                    out.write(chunk)
            return out.tell()

    def open(self, url: Url) -> BinaryIO:
        """Read an object in order, by smart_open: for the schemes that obstore lacks (http, ftp, sftp, hdfs)."""
        import smart_open

        try:
            return smart_open.open(str(url), "rb", compression="disable")
        except (OSError, ValueError, NotImplementedError, ImportError) as error:
            msg = f"{url} cannot be opened: {line(error)}"
            raise NotFoundError(msg) from None

    def _make_folder(self, url: Url) -> None:
        if url.scheme == "file":
            folder = url.local_path().parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"{url} cannot be written: folder {folder}: {error.strerror}; name another place, or allow it"
                raise ConfigError(msg) from None

    def _ask(self, url: Url, act: Callable[[ObjectStore], _Answer], *, persistent: bool = True) -> _Answer:
        """What is answered of an object: of one that is not encrypted with the customer's key, without that key.

        `persistent`: obstore itself asks again for what fails in passing.
        """
        from obstore.exceptions import BaseError

        if url.scheme == "s3" and self._aws.sse_customer_key:
            try:
                return act(self._store(url, keyed=True, persistent=persistent))
            except (BaseError, OSError) as error:
                if not is_not_encrypted(error):
                    raise
        return act(self._store(url, persistent=persistent))

    def _ask_s3(self, url: Url, act: Callable[[s3.Bucket, bool], s3.Told]) -> s3.Told:
        """As `_ask`, of an object that obstore cannot name."""
        from botocore.exceptions import ClientError

        if not s3.is_key(url.key):
            reason = "no key of S3 is empty or longer than 1,024 bytes"
            raise DataError(reason, url=url, hint="Correct what names it")
        bucket = self._bucket(url)
        if self._aws.sse_customer_key:
            try:
                return act(bucket, True)
            except ClientError as error:
                if not is_not_encrypted(error):
                    raise
        return act(bucket, False)

    def _store(self, url: Url, *, keyed: bool = False, persistent: bool = True, day: date | None = None) -> ObjectStore:
        place = self._place(url) if url.scheme == "s3" else None
        key = (url.scheme, url.bucket, keyed, persistent, day)
        with self._lock:
            if key not in self._stores:
                options: dict[str, Any] = {"keyed": keyed, "persistent": persistent}
                self._stores[key] = open_store(url, self._aws, place, **options, google=self._google, day=day)
            return self._stores[key]

    def _bucket(self, url: Url) -> s3.Bucket:
        place = self._place(url)
        with self._lock:
            if url.bucket not in self._buckets:
                self._buckets[url.bucket] = s3.Bucket(url.bucket, self._reach.client(place), self._aws)
            return self._buckets[url.bucket]

    def _place(self, url: Url) -> Place:
        with self._lock:
            if url.bucket not in self._places:
                self._places[url.bucket] = self._reach.place(url.bucket)
            return self._places[url.bucket]


def lists_in_order(url: Url) -> bool:
    """Whether a service lists keys in the order of their bytes: all do, but S3's directory buckets."""
    return url.scheme in ("s3", "gs", "az") and not url.bucket.endswith("--x-s3")


def _info(url: Url, meta: Any) -> ObjectInfo:
    return ObjectInfo(url, meta["size"], meta["e_tag"], meta["last_modified"])


def _told(url: Url, told: s3.Told) -> ObjectInfo:
    return ObjectInfo(url, told.size, told.etag, told.modified)


def _is_odd(url: Url) -> bool:
    return url.scheme == "s3" and s3.is_odd(url.key)


def _replace(path: Path, target: Path) -> None:
    try:
        path.replace(target)
    except OSError:  # another file system: copy beside the target first, so that the last step is still one rename
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        shutil.copyfile(path, beside)
        beside.replace(target)
        path.unlink()
