"""`Storage`: list, read, write and delete objects by URL; the store of a URL."""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from singer_arrow.errors import ConfigError, ConflictError, DataError, NotFoundError, ServiceError
from singer_arrow.storage import aws
from singer_arrow.storage import listing as s3
from singer_arrow.storage.aws import AwsOptions, S3Access, static_access
from singer_arrow.storage.errors import (
    AdaptiveLimiter,
    always,
    conflict_error,
    is_not_encrypted,
    object_changed,
    summary,
    translate_errors,
    with_retries,
)
from singer_arrow.storage.listing import ObjectPage
from singer_arrow.storage.redirects import refuse_redirects
from singer_arrow.storage.urls import Fetched, Lifetime, ObjectInfo, Url, VersionCache

if TYPE_CHECKING:
    from obstore.store import ObjectStore


# Opening of obstore's stores: region, endpoint and credentials of a bucket.

# `read_timeout` ends a stalled body. `timeout` bounds the whole body, so obstore's default of 30 s is too short.
CLIENT_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "20s", "timeout": "600s"}


GoogleToken = Callable[[], dict[str, Any]]
"""Returns `token` and `expires_at` in obstore's form."""
EMULATOR = "STORAGE_EMULATOR_HOST"
"""Environment variable with the endpoint of an emulator, also read by Google's libraries."""


def open_store(
    url: Url,
    options: AwsOptions,
    location: S3Access | None,
    *,
    keyed: bool,
    persistent: bool = True,
    google: GoogleToken | None = None,
    day: date | None = None,
) -> ObjectStore:
    """Return a store for the bucket of a URL; ConfigError if the scheme is not supported.

    `keyed`: objects are decrypted with the customer's key. `persistent`: obstore retries transient errors. `google`:
    credentials, by default those of the environment. `day`: custom time of objects written to Google Cloud Storage.
    """
    from obstore import store

    more: dict[str, Any] = retry_options(persistent=persistent)
    if location is not None:
        # Amazon's certificates do not cover bucket names with a dot.
        virtual = location.endpoint is None and "." not in url.bucket
        config: dict[str, Any] = {"region": location.region, "virtual_hosted_style_request": virtual}
        if location.endpoint:
            config["endpoint"] = location.endpoint
        if options.requester_pays:
            config["request_payer"] = True
        if keyed:
            config |= {"server_side_encryption": "sse-c", "sse_customer_key_base64": options.sse_customer_key}
        more["client_options"] = _client(allow_http=(location.endpoint or "").startswith("http://"))
        if location.credentials is None:
            config["skip_signature"] = True
        else:
            more["credential_provider"] = location.credentials
        return store.S3Store(url.bucket, config=cast("Any", config), **more)
    if url.scheme == "file":
        return store.LocalStore()
    if url.scheme == "gs":
        headers: dict[str, Any] = {}
        config = {}
        if host := os.environ.get(EMULATOR):
            config["base_url"] = host if "://" in host else f"http://{host}"
            google = _no_token
        if day is not None:
            begun = datetime.combine(day, time(), UTC)
            headers["default_headers"] = {"x-goog-custom-time": f"{begun:%Y-%m-%dT%H:%M:%SZ}"}
        more["client_options"] = _client(allow_http=config.get("base_url", "").startswith("http://"), **headers)
        if google is not None:
            more["credential_provider"] = google
        return store.GCSStore(url.bucket, config=cast("Any", config), **more)
    if url.scheme == "az":
        return store.AzureStore(url.bucket, client_options=_client(), **more)
    raise ConfigError(f"{url}: the scheme {url.scheme!r} can only be read one object at a time; use s3, gs, az or file")


def _no_token() -> dict[str, Any]:
    """Return a token for an emulator; without one obstore would look for credentials."""
    return {"token": "none", "expires_at": None}


def retry_options(*, persistent: bool) -> dict[str, Any]:
    """Return the options for retries of a store: obstore's own, or none."""
    return {} if persistent else {"retry_config": {"max_retries": 0}}


def _client(**more: Any) -> Any:
    """Return obstore's client options; it reads proxies and SSL_CERT_FILE from the environment itself."""
    bundle = aws.ca_bundle()
    if bundle and bundle != os.environ.get("SSL_CERT_FILE"):
        more["root_certificate"] = Path(bundle).read_bytes()
    return {**CLIENT_TIMEOUTS, **more}


# Object storage by URL: S3, Google Cloud Storage, Azure and local disk over obstore; other schemes over smart_open.
#
# All methods are thread-safe and raise the errors of `singer_arrow.errors`.

logger = logging.getLogger(__name__)
SCHEMES = ("s3", "gs", "az", "file")
_PAGE = 1000  # objects per answer
_PART = 16 << 20  # bytes of one part of a multipart upload
_PARTS = 12  # parts sent at once
_Answer = TypeVar("_Answer")


Version = tuple[str | None, str | None]
"""ETag and version id of an object, as stores compare them."""


class Storage:
    """Access to all object stores of a run, opened on first use.

    Without `google`, credentials for Google Cloud Storage are those of the environment.
    """

    def __init__(self, options: AwsOptions | None = None, google: GoogleToken | None = None) -> None:
        self._aws = options or AwsOptions()
        self._google = google
        self._stores: dict[tuple[str, str, bool, bool, date | None], ObjectStore] = {}
        self._buckets: dict[str, s3.Bucket] = {}
        self._locations: dict[str, S3Access] = {}
        self._asked = set[str]()  # buckets whose endpoint redirects no request
        self._clients: dict[tuple[str | None, str | None], Any] = {}
        self._lock = threading.Lock()
        self.cache = VersionCache()  # cache for data derived from objects, such as Parquet footers
        self.cancelled = threading.Event()  # set at the end of the run: requests are not retried any more

    def list(self, prefix: Url, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield all objects whose keys begin with the prefix, in any order, without folder markers.

        With `after`, only those whose keys follow it in byte order; if the service lists in that order (see
        `lists_in_order`), the others are not requested. An incomplete listing is an error, even if the service answers
        `200` with something else than a page. On Google Cloud Storage such an answer counts as the end only if the next
        one contains no object either.

        NotFoundError: the bucket does not exist. ServiceError: the service did not return a complete listing.
        """
        for page in self.list_pages(prefix, after=after):
            yield from page.objects(prefix)

    def list_pages(self, prefix: Url, *, after: str = "") -> Iterator[ObjectPage]:
        """Yield what `list` yields, in columns: for listings of many objects."""
        with translate_errors(prefix):
            if prefix.scheme == "s3":
                yield from self._bucket(prefix).object_pages(prefix.key, after, ordered=lists_in_order(prefix))
            else:
                list_objects = self._list_twice if prefix.scheme == "gs" else self._list
                found = list_objects(prefix, after)
                while page := list(itertools.islice(found, _PAGE)):
                    yield ObjectPage.of(page)

    def folders(self, prefix: Url) -> Sequence[str]:
        """Return the names of the folders of which a prefix is the beginning, sorted; what they hold is not listed."""
        above, _, begin = prefix.key.rpartition("/")
        with translate_errors(prefix):
            if prefix.scheme == "s3":
                listed = prefix.key if lists_in_order(prefix) else prefix.key[: -len(begin) or None]
                keys: Sequence[str] = list(self._bucket(prefix).folders(listed))
            else:
                store, known = self._store(prefix), [""]
                keys = store.list_with_delimiter(above or None)["common_prefixes"]
                while prefix.scheme == "gs" and keys != known:  # until two answers are the same, see `list`
                    known, keys = list(keys), store.list_with_delimiter(above or None)["common_prefixes"]
        names = {key.rstrip("/").rpartition("/")[2] for key in keys}
        return sorted(name for name in names if name.startswith(begin) and name)

    def _list_twice(self, prefix: Url, after: str) -> Iterator[ObjectInfo]:
        """List until a request after the last key returns no object; sends at least two requests.

        On S3 and Google, obstore takes an answer that is not a listing, or is truncated without a continuation token,
        for the last page; for Azure it checks the element `Blobs`.
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
        """Return the metadata of an object, or raise NotFoundError."""
        with translate_errors(url):
            if _is_unsupported(url):
                return self._request_s3(url, lambda bucket, keyed: bucket.head(url, keyed=keyed))
            return _info(url, self._request(url, lambda store: store.head(url.key)))

    def get(
        self,
        url: Url,
        *,
        start: int | None = None,
        end: int | None = None,
        suffix: int | None = None,
        version_of: ObjectInfo | None = None,
        is_needed: Callable[[], bool] = always,
    ) -> Fetched:
        """Return bytes `start` to `end` (exclusive), the last `suffix` bytes, or the whole object, in one request.

        With `version_of` the bytes are of that version, or ObjectChangedError is raised: the request carries If-Match,
        and the answer is compared, for servers that ignore it. The request is not retried once `is_needed` returns
        False.

        Other errors: EmptyObjectError for a range of an empty object, ArchivedError, NotFoundError, and ServiceError
        once all tries failed (see `retry.with_retries`).
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
        with translate_errors(url, pinned=version_of is not None):
            if _is_unsupported(url):
                found = self._request_s3(url, lambda bucket, keyed: bucket.get(url, options, keyed=keyed))
                if version_of is not None and not found.info.same_version(version_of):
                    raise object_changed(url)
                return found
            return with_retries(
                lambda: self._get(url, options, version_of),
                url,
                is_needed=lambda: is_needed() and not self.cancelled.is_set(),
            )

    def _get(self, url: Url, options: Mapping[str, Any], version_of: ObjectInfo | None) -> Fetched:
        result = self._request(url, lambda store: store.get(url.key, options=cast("Any", options)), persistent=False)
        info = _info(url, result.meta)
        if version_of is not None and not info.same_version(version_of):
            raise object_changed(url)
        first, last = result.range
        data = result.bytes()
        if len(data) != last - first:
            raise ServiceError(f"{url}: the answer broke off after {len(data)} of {last - first} bytes; try again")
        return Fetched(data, first, info)

    def put(
        self,
        url: Url,
        data: bytes | Path,
        *,
        if_absent: bool = False,
        lifetime: Lifetime | None = None,
        parts: int = _PARTS,
    ) -> bool:
        """Write bytes or a local file, which is kept, to an object atomically; return whether it was written.

        It is not only with `if_absent`, if the object exists. An earlier try of this call whose answer was lost may
        have written it; compare the content. A write that conflicts with another one (409) is retried, as S3 demands.
        After its `lifetime` a lifecycle rule may remove the object. Of a large file so many `parts` are sent at once;
        each takes 16 MiB of memory. ServiceError: all tries failed or conflicted with other writes.
        """
        self._make_folder(url)
        day = datetime.now(UTC).date() if lifetime and url.scheme == "gs" else None
        tags = {"sdc-expires": f"{lifetime.days}d"} if lifetime and url.scheme == "s3" else None
        options: dict[str, Any] = {"tags": tags}
        options |= {"mode": "create" if if_absent else "overwrite", "chunk_size": _PART, "max_concurrency": parts}
        with translate_errors(url):
            return with_retries(
                lambda: self._put(url, data, day, options),
                url,
                limiter=AdaptiveLimiter(1),  # uploads take long and must not block reads
                is_needed=lambda: not self.cancelled.is_set(),
                classify=lambda error: (isinstance(error, ConflictError), False),  # obstore retries other errors
            )

    def _put(self, url: Url, data: bytes | Path, day: date | None, options: Mapping[str, Any]) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store(url, day=day).put(url.key, data, **options)
        except AlreadyExistsError as error:
            if conflict := conflict_error(url, error, may_exist=options["mode"] == "create"):
                raise conflict from None
            return False
        return True

    def read(self, url: Url) -> tuple[bytes, Version]:
        """Return an object and its version, for `replace`."""
        with translate_errors(url):
            result = self._request(url, lambda store: store.get(url.key))
            return bytes(result.bytes()), (result.meta["e_tag"], result.meta["version"])

    def replace(self, url: Url, data: bytes, known: Version | None) -> Version | None:
        """Write an object in place of its version `known`, or where there is none (None).

        Return its new version; None: it has another one than `known`, so nothing was written.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        tags = zip(("e_tag", "version"), known or (), strict=False)
        mode: Any = {name: value for name, value in tags if value is not None} or "create"

        def put() -> Version | None:
            try:
                written = self._store(url).put(url.key, data, mode=mode)
            except (AlreadyExistsError, PreconditionError) as error:
                is_conflict = isinstance(error, AlreadyExistsError)
                if is_conflict and (conflict := conflict_error(url, error, may_exist=known is None)):
                    raise conflict from None
                found, version = self.read(url)  # an earlier try whose answer was lost may have written it
                return version if found == data else None
            return written["e_tag"], written["version"]

        with translate_errors(url):
            return with_retries(put, url, limiter=AdaptiveLimiter(1))

    def put_file(self, url: Url, path: Path) -> int:
        """Move a local file to the URL atomically, and return its size in bytes."""
        size = path.stat().st_size
        if url.scheme == "file":
            self._make_folder(url)
            _replace(path, url.local_path())
            return size
        self.put(url, path)
        path.unlink()
        return size

    def delete(self, urls: Iterable[Url]) -> None:
        """Delete objects; missing ones are ignored."""
        ordered = sorted(urls)
        for _, group in groupby(ordered, key=lambda u: (u.scheme, u.bucket)):
            some = list(group)
            with translate_errors(some[0]):  # obstore does not send a deletion again whose connection broke
                with_retries(partial(self._delete, some), some[0], limiter=AdaptiveLimiter(1))

    def _delete(self, urls: Sequence[Url]) -> None:
        store = self._store(urls[0])
        try:
            store.delete([u.key for u in urls])
        except FileNotFoundError as error:
            if urls[0].scheme == "s3" or "NoSuchBucket" in summary(error):
                raise  # S3 reports no missing object, so it is the bucket
            for url in urls:
                with contextlib.suppress(FileNotFoundError):
                    store.delete(url.key)

    # Changes of one version of an object, only on S3. ObjectChangedError: it is another one, NotFoundError: it is gone.

    def delete_version(self, info: ObjectInfo) -> None:
        """Delete an object if it is this version."""
        with translate_errors(info.url):
            self._request_s3(info.url, lambda bucket, _: bucket.delete(info))

    def copy_version(self, info: ObjectInfo, to: Url) -> None:
        """Copy an object on S3, to another place there, if it is this version."""
        with translate_errors(to):
            self._request_s3(to, lambda bucket, keyed: bucket.copy(info, to, keyed=keyed))

    def tag_version(self, info: ObjectInfo, tags: Mapping[str, str]) -> None:
        """Add tags to an object if it is this version; it keeps others that it has."""
        with translate_errors(info.url):
            self._request_s3(info.url, lambda bucket, keyed: bucket.tag(info, tags, keyed=keyed))

    def download(self, url: Url, path: Path) -> int:
        """Copy an object to a local file, and return its size in bytes."""
        with path.open("wb") as out:
            if url.scheme not in SCHEMES:
                with self.open(url) as source:
                    shutil.copyfileobj(source, out, 1 << 20)
                return out.tell()
            if _is_unsupported(url):
                out.write(self.get(url).data)
                return out.tell()
            with translate_errors(url):
                for chunk in self._request(url, lambda store: store.get(url.key)).stream(min_chunk_size=1 << 20):
                    out.write(chunk)
            return out.tell()

    def open(self, url: Url) -> BinaryIO:
        """Open an object of a scheme that obstore lacks (http, ftp, sftp, hdfs) to read it in order, by smart_open."""
        import smart_open

        try:
            return smart_open.open(str(url), "rb", compression="disable")
        except (OSError, ValueError, NotImplementedError, ImportError) as error:
            raise NotFoundError(f"{url} cannot be opened: {summary(error)}") from None

    def _make_folder(self, url: Url) -> None:
        if url.scheme == "file":
            folder = url.local_path().parent
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                msg = f"{url} cannot be written: folder {folder}: {error.strerror}; name another place, or allow it"
                raise ConfigError(msg) from None

    def _request(self, url: Url, send: Callable[[ObjectStore], _Answer], *, persistent: bool = True) -> _Answer:
        """Send a request with the customer's key, if set, and without it if the object is not encrypted with it.

        `persistent`: obstore retries transient errors.
        """
        from obstore.exceptions import BaseError

        if url.scheme == "s3" and self._aws.sse_customer_key:
            try:
                return send(self._store(url, keyed=True, persistent=persistent))
            except (BaseError, OSError) as error:
                if not is_not_encrypted(error):
                    raise
        return send(self._store(url, persistent=persistent))

    def _request_s3(self, url: Url, send: Callable[[s3.Bucket, bool], _Answer]) -> _Answer:
        """Send a request as `_request` does, by botocore."""
        from botocore.exceptions import ClientError

        if not s3.is_valid_key(url.key):
            raise DataError("S3 allows keys of 1 to 1,024 bytes", url=url, hint="Correct the key")
        bucket = self._bucket(url)
        if self._aws.sse_customer_key:
            try:
                return send(bucket, True)
            except ClientError as error:
                if not is_not_encrypted(error):
                    raise
        return send(bucket, False)

    def _store(self, url: Url, *, keyed: bool = False, persistent: bool = True, day: date | None = None) -> ObjectStore:
        location = self.access(url) if url.scheme == "s3" else None
        key = (url.scheme, url.bucket, keyed, persistent, day)
        with self._lock:
            if key not in self._stores:
                self._refuse_redirects(url, location)
                options: dict[str, Any] = {"keyed": keyed, "persistent": persistent}
                self._stores[key] = open_store(url, self._aws, location, **options, google=self._google, day=day)
            return self._stores[key]

    def _refuse_redirects(self, url: Url, location: S3Access | None) -> None:
        if location is not None and location.endpoint and url.bucket not in self._asked:
            refuse_redirects(location.endpoint, url.bucket, url.key, aws.ca_bundle())
            self._asked.add(url.bucket)

    def _bucket(self, url: Url) -> s3.Bucket:
        location = self.access(url)
        with self._lock:
            if url.bucket not in self._buckets:
                self._refuse_redirects(url, location)
                key = location.region, location.endpoint
                if key not in self._clients:
                    self._clients[key] = s3.client(
                        self._boto, self._aws, region=location.region, endpoint=location.endpoint
                    )
                self._buckets[url.bucket] = s3.Bucket(url.bucket, self._clients[key], self._aws)
            return self._buckets[url.bucket]

    def access(self, url: Url) -> S3Access:
        """Return the access to a bucket of S3, with its region; CredentialsError if there are no credentials.

        botocore is loaded only if settings and environment do not suffice.
        """
        bucket = url.bucket
        with self._lock:
            if bucket not in self._locations:
                access = self.usual_access
                region = self._aws.region or (access.region if access.endpoint else None)
                if region is None and access.endpoint:
                    region = aws.DEFAULT_REGION
                elif region is None:
                    region = aws.bucket_region(self._boto, bucket, anonymous=self._aws.anonymous)
                self._locations[bucket] = replace(access, region=region)
            return self._locations[bucket]

    @cached_property
    def _boto(self) -> aws.AwsSession:
        return aws.session(self._aws)

    @cached_property
    def usual_access(self) -> S3Access:
        """The usual region, the endpoint and the credentials, from settings and environment or by botocore."""
        found = static_access(self._aws)
        if found is None:
            endpoint = self._aws.endpoint_url or aws.s3_endpoint(self._boto)
            credentials = None if self._aws.anonymous else aws.credential_provider(self._boto)
            found = S3Access(self._boto.region_name or None, endpoint, credentials)
        if found.endpoint and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", found.endpoint):
            msg = f"The endpoint of S3 is {found.endpoint!r}, which is no URL; correct endpoint_url or AWS_ENDPOINT_URL"
            raise ConfigError(msg)
        return found


def lists_in_order(url: Url) -> bool:
    """Return whether a service lists keys in byte order: all do, except S3's directory buckets."""
    return url.scheme in ("s3", "gs", "az") and not url.bucket.endswith("--x-s3")


def _info(url: Url, meta: Any) -> ObjectInfo:
    return ObjectInfo(url, meta["size"], meta["e_tag"], meta["last_modified"])


def _is_unsupported(url: Url) -> bool:
    return url.scheme == "s3" and s3.is_unsupported_key(url.key)


def _replace(path: Path, target: Path) -> None:
    try:
        path.replace(target)
    except OSError:  # another file system: copy beside the target first, so that the last step is still one rename
        beside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            shutil.copyfile(path, beside)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(target)) from None  # else it names the temporary file
        path.unlink()
