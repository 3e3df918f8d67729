"""S3 by botocore, for listings by exact prefix, keys that obstore does not support, and changes of one version.

obstore treats keys as paths: it refuses empty parts, `.`, `..` and control characters, drops trailing slashes, and
lists whole folders. S3 allows any key of up to 1,024 bytes.
"""

from __future__ import annotations

import logging
import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import compress
from operator import methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus

import pyarrow as pa

from singer_arrow.errors import ServiceError
from singer_arrow.storage.redirects import redirect_error
from singer_arrow.storage.urls import Fetched, ObjectInfo, Url

if TYPE_CHECKING:
    from singer_arrow.storage.aws import AwsOptions, AwsSession


# A page of a listing in columns, and the pages of S3's listings decoded. Pure.
#
# A listing of ten million objects has ten thousand pages, so a page is decoded by one regular expression, and no Python
# object is made for each of its objects.

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TAG = "ListBucketResult"
_CONTENTS = re.compile(
    rb"<Contents><Key>([^<&]*)</Key><LastModified>([^<]*)</LastModified>(?:<ETag>([^<]*)</ETag>)?"
    rb"(?:<Checksum\w+>[^<]*</Checksum\w+>)*<Size>(\d+)</Size>(?:<(?!/?Contents>)[^<]*)*</Contents>"
)
_PARTS = _CONTENTS.groups + 1
_FREQUENT = {"%3D": "=", "%3A": ":"}  # codes of the characters in folders of partitions, which are decoded first


OBJECT_COLUMNS = pa.schema(
    [("key", pa.string()), ("size", pa.int64()), ("etag", pa.string()), ("modified", pa.int64())]
)
"""Objects of one bucket as Arrow columns; see `ObjectPage` for their values."""


class ObjectPage(NamedTuple):
    """Objects of one bucket, in columns of equal lengths."""

    keys: list[str]
    sizes: list[int]  # bytes
    etags: list[str | None]  # as the service writes them
    modified: list[int]  # microseconds since 1970 in UTC

    @classmethod
    def of(cls, objects: Iterable[ObjectInfo]) -> ObjectPage:
        """Return a page of objects of one bucket."""
        page = cls([], [], [], [])
        for info in objects:
            page.keys.append(info.url.key)
            page.sizes.append(info.size)
            page.etags.append(info.etag)
            page.modified.append((info.modified - EPOCH) // _MICROSECOND)
        return page

    def select(self, mask: Iterable[bool]) -> ObjectPage:
        """Return the objects for which the mask is true."""
        chosen = list(mask)
        if all(chosen):
            return self
        keys, sizes, etags, modified = (list(compress(column, chosen)) for column in self)
        return ObjectPage(keys, sizes, etags, modified)  # type: ignore[arg-type]  # mypy joins their types

    def to_arrow(self) -> pa.RecordBatch:
        """Return the objects in the columns of `OBJECT_COLUMNS`."""
        columns = zip(self, OBJECT_COLUMNS.types, strict=True)
        return pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=OBJECT_COLUMNS)

    def objects(self, bucket: Url) -> Iterator[ObjectInfo]:
        """Yield the objects, in the bucket of a URL."""
        for key, size, etag, modified in zip(*self, strict=True):
            url = Url(bucket.scheme, bucket.bucket, key)
            yield ObjectInfo(url, size, etag, EPOCH + timedelta(microseconds=modified))


def page_from_xml(body: bytes) -> tuple[ObjectPage, str | None, bool]:
    """Return the objects of an answer of ListObjectsV2, the token of the next page, and whether more follow.

    ServiceError: it is not a listing. xml.etree.ElementTree.ParseError: it is not XML.
    """
    parts = _CONTENTS.split(body)  # other text, key, time, ETag, size; other text, ...
    rest = b"".join(parts[::_PARTS])
    usual = _usual_page(parts) if b"<Contents" not in rest else None
    root = ET.fromstring(body if usual is None else rest)  # noqa: S314 - expat limits entity expansion
    space, tag = root.tag.rpartition("}")[0], root.tag.rpartition("}")[2]
    space += "}" if space else ""
    if tag != _TAG:  # for example a proxy's error page
        raise ServiceError(f"the answer to a listing is <{root.tag}>, which S3 never sends; try again")
    page = _any_page(root, space) if usual is None else usual
    if root.findtext(f"{space}EncodingType") == "url":
        page = page._replace(keys=decoded_keys(page.keys))
    token = root.findtext(f"{space}NextContinuationToken")
    return page, token, root.findtext(f"{space}IsTruncated") == "true"


def folders_from_xml(body: bytes) -> list[str]:
    """Return the common prefixes of an answer of ListObjectsV2, which is one that `page_from_xml` accepts."""
    root = ET.fromstring(body)  # noqa: S314 - as above
    found = [found.text or "" for found in root.iterfind("{*}CommonPrefixes/{*}Prefix")]
    return decoded_keys(found) if root.findtext("{*}EncodingType") == "url" else found


def decoded_keys(keys: Sequence[str]) -> list[str]:
    """Decode keys that are encoded as in URLs: those of a listing with an encoding type, or of an S3 Inventory."""
    text = "\n".join(keys)  # one call for all keys takes a tenth of the time
    for code, character in _FREQUENT.items():
        text = text.replace(code, character)
    found = (unquote_plus(text) if "%" in text or "+" in text else text).split("\n")
    return found if len(found) == len(keys) else [unquote_plus(key) for key in keys]  # a key contains a line feed


def _usual_page(parts: Sequence[bytes]) -> ObjectPage | None:
    """Return the objects of an answer in S3's own form, from the parts into which `_CONTENTS` divides it, or None."""
    keys, times, etags, sizes = (parts[n::_PARTS] for n in range(1, _PARTS))
    try:
        modified = pa.array(map(bytes.decode, times), pa.string()).cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:  # times without an offset, for example
        return None
    # quotes of ETags are `&quot;` in answers of S3 and `&#34;` in those of others
    quoted = b"\n".join(etag or b"" for etag in etags).decode().replace("&quot;", '"').replace("&#34;", '"')
    texts = (unescape(quoted) if "&" in quoted else quoted).split("\n")
    decoded = [text or None for text in texts] if etags else []
    return ObjectPage(list(map(bytes.decode, keys)), list(map(int, sizes)), decoded, modified.to_pylist())


def _any_page(root: ET.Element, space: str) -> ObjectPage:
    """Return the objects of an answer of any form, which takes several times as long."""
    page = ObjectPage([], [], [], [])
    for found in root.iterfind(f"{space}Contents"):
        parts = {part.tag: part.text or "" for part in found}
        page.keys.append(parts[f"{space}Key"])
        page.sizes.append(int(parts[f"{space}Size"]))
        page.etags.append(parts.get(f"{space}ETag"))
        page.modified.append((datetime.fromisoformat(parts[f"{space}LastModified"]) - EPOCH) // _MICROSECOND)
    return page


logger = logging.getLogger(__name__)
MAX_TRIES = 5
"""Maximum number of tries of a request, and of reading a body."""
MAX_KEY_BYTES = 1024
"""Maximum length of a key."""
MAX_COPY_BYTES = 5 << 30
"""Maximum size of an object that one request copies."""
_ODD = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f]")
_IS_FOLDER = methodcaller("endswith", "/")
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_NOTHING = b"<ListBucketResult/>"
_ERROR = re.compile(rb"\s*(?:<\?[^>]*>\s*)?<Error[\s>/]")


def is_unsupported_key(key: str) -> bool:
    """Return whether obstore does not support the key."""
    return _ODD.search(key) is not None or not is_valid_key(key)


def is_valid_key(key: str) -> bool:
    """Return whether S3 allows the key."""
    return 0 < len(key.encode()) <= MAX_KEY_BYTES


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket and its botocore client. Raises botocore's errors."""

    name: str
    client: Any
    options: AwsOptions

    def object_pages(self, prefix: str, after: str, *, ordered: bool) -> Iterator[ObjectPage]:
        """Yield what `pages` yields, without folder markers; `after` is the key that the others follow in byte order.

        `ordered`: the bucket lists in that order; directory buckets do not, and list only whole folders.
        """
        listed = prefix if ordered else prefix[: prefix.rfind("/") + 1]
        for page in self.pages(listed, after if ordered else ""):
            if ordered and not any(map(_IS_FOLDER, page.keys)):
                yield page
                continue
            for key, size in zip(page.keys, page.sizes, strict=True):
                if size and key.endswith("/"):
                    text = "s3://%s/%s holds %d bytes, but its key is that of a folder; it is skipped"
                    logger.warning(text, self.name, key, size)
            is_ours = (ordered or (key > after and key.startswith(prefix)) for key in page.keys)
            yield page.select(ours and not key.endswith("/") for ours, key in zip(is_ours, page.keys, strict=True))

    def pages(self, prefix: str, after: str) -> Iterator[ObjectPage]:
        """Yield the objects whose keys begin with the prefix and follow `after`, in the service's order.

        ServiceError: the answer is not a listing, or is truncated without a continuation token.
        """
        return (answer["Page"][0] for answer in self._answers(prefix, {"StartAfter": after} if after else {}))

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield what begins with the prefix and ends with the first slash behind it, without listing what is below."""
        return (key for answer in self._answers(prefix, {}, Delimiter="/") for key in answer.get("Folders", ()))

    def _answers(self, prefix: str, position: Mapping[str, str], **more: str) -> Iterator[Mapping[str, Any]]:
        while True:
            request = {"Prefix": prefix, **position, **more, **self._more()}
            try:
                answer = self.client.list_objects_v2(Bucket=self.name, **request)
            except ServiceError as error:
                raise ServiceError(f"s3://{self.name}: {error}") from None
            _, token, is_truncated = answer["Page"]
            yield answer
            if not is_truncated:
                return
            if not token or token == position.get("ContinuationToken"):
                what = "repeats its continuation token" if token else "has no continuation token"
                raise ServiceError(
                    f"s3://{self.name}: a listing of {prefix!r} is truncated and {what}, so it cannot be completed; "
                    "the service does not list as S3 does (ListObjectsV2)"
                )
            position = {"ContinuationToken": token}

    def head(self, url: Url, *, keyed: bool) -> ObjectInfo:
        """Return the metadata of an object by HEAD; `keyed`: with the customer's key."""
        answer = self.client.head_object(Bucket=self.name, Key=url.key, **self._more(keyed=keyed))
        return ObjectInfo(url, answer["ContentLength"], answer.get("ETag"), answer["LastModified"])

    def get(self, url: Url, options: Mapping[str, Any], *, keyed: bool) -> Fetched:
        """Return bytes of an object, by obstore's options `range` and `if_match`; `keyed`: with the customer's key."""
        from botocore.exceptions import HTTPClientError, IncompleteReadError

        request = self._more(keyed=keyed)
        if "if_match" in options:
            request["IfMatch"] = options["if_match"]
        if isinstance(span := options.get("range"), tuple):
            request["Range"] = f"bytes={span[0]}-{span[1] - 1}"
        elif span is not None:
            request["Range"] = f"bytes=-{span['suffix']}" if "suffix" in span else f"bytes={span['offset']}-"
        for left in reversed(range(MAX_TRIES)):  # botocore does not try again if a body breaks off
            answer = self.client.get_object(Bucket=self.name, Key=url.key, **request)
            try:
                data = answer["Body"].read()
                break
            except (HTTPClientError, IncompleteReadError):
                if not left:
                    raise
        start, size = 0, len(data)
        if found := _RANGE.match(answer.get("ContentRange", "")):
            start, size = int(found[1]), int(found[2])
        return Fetched(data, start, ObjectInfo(url, size, answer.get("ETag"), answer["LastModified"]))

    def delete(self, info: ObjectInfo) -> None:
        """Delete an object if it is this version."""
        self.client.delete_object(Bucket=self.name, Key=info.url.key, IfMatch=info.etag, **self._more())

    def copy(self, info: ObjectInfo, to: Url, *, keyed: bool) -> None:
        """Copy an object of any bucket to this one if it is this version; `keyed`: with the customer's key."""
        more = self._more(keyed=keyed)
        more |= {f"CopySource{name}": value for name, value in more.items() if name.startswith("SSE")}
        more |= {"CopySource": {"Bucket": info.url.bucket, "Key": info.url.key}, "CopySourceIfMatch": info.etag}
        answer = self.client.copy_object(Bucket=self.name, Key=to.key, **more)
        if "ETag" not in answer.get("CopyObjectResult", ()):
            raise ServiceError(f"{to}: the answer to a copy does not confirm it; try again")

    def tag(self, info: ObjectInfo, tags: Mapping[str, str], *, keyed: bool) -> None:
        """Add tags to an object if it is this version.

        S3 has no condition for that. In a bucket with versions the request names the version; in others an object that
        was replaced meanwhile loses the tags again.
        """
        target, more = {"Bucket": self.name, "Key": info.url.key}, self._more()
        head = {**target, "IfMatch": info.etag, **self._more(keyed=keyed)}
        answer = self.client.head_object(**head)
        # "null" is the one that the next write replaces, where versioning is suspended
        version = {name: v for name, v in answer.items() if name == "VersionId" and v != "null"}

        def replace(ours: Sequence[Mapping[str, str]]) -> None:
            found = self.client.get_object_tagging(**target, **version, **more)["TagSet"]
            others = [tag for tag in found if tag["Key"] not in tags]
            self.client.put_object_tagging(**target, **version, **more, Tagging={"TagSet": [*others, *ours]})

        replace([{"Key": name, "Value": value} for name, value in tags.items()])
        if not version:
            try:
                self.client.head_object(**head)
            except self.client.exceptions.ClientError:
                replace([])
                raise

    def _more(self, *, keyed: bool = False) -> dict[str, Any]:
        """Return what the options add to a request: who pays for it, and the customer's key."""
        found: dict[str, Any] = {"RequestPayer": "requester"} if self.options.requester_pays else {}
        if keyed and (key := self.options.sse_customer_key):
            found |= {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b64decode(key)}
        return found


def client(boto: AwsSession, options: AwsOptions, *, region: str | None, endpoint: str | None) -> Any:
    """Return a botocore client for the buckets of a region."""
    from botocore import UNSIGNED, handlers
    from botocore.config import Config

    made = boto.client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        config=Config(
            signature_version=UNSIGNED if options.anonymous else None,
            retries={"mode": "standard", "max_attempts": MAX_TRIES},
            connect_timeout=10,
            read_timeout=20,
            max_pool_connections=32,
            s3={"addressing_style": "path" if endpoint else "auto"},
        ),
    )
    made.meta.events.unregister("before-parse.s3.*", handlers._handle_200_error)
    made.meta.events.register("before-parse.s3.CopyObject", handlers._handle_200_error)
    made.meta.events.register("before-parse.s3.ListObjectsV2", _keep_page)
    if endpoint:  # Amazon's own endpoints redirect to the region of a bucket

        def refuse(response_dict: dict[str, Any], **_: Any) -> None:
            if error := redirect_error(endpoint, response_dict["status_code"], response_dict["headers"]):
                raise error

        made.meta.events.register_first("before-parse.s3.*", refuse)
    return made


def _keep_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Decode a listing by `page_from_xml`; botocore parses it twice, in 70 ms a page.

    A body that is cut, or an error with status 200, becomes status 500, so that botocore sends the request again.
    """
    body = response_dict["body"]
    if response_dict["status_code"] != 200:
        return
    try:
        page = None if _ERROR.match(body) else page_from_xml(body)
    except ET.ParseError:
        page = None
    if page is None:
        response_dict["status_code"] = 500
    else:
        customized_response_dict["Page"], response_dict["body"] = page, _NOTHING
        if b"<CommonPrefixes" in body:
            customized_response_dict["Folders"] = folders_from_xml(body)
