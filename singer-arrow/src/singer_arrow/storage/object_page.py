"""A page of a listing in columns, and the pages of S3's listings decoded. Pure.

A listing of ten million objects has ten thousand pages, so a page is decoded by one regular expression, and no Python
object is made for each of its objects.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from itertools import compress
from typing import NamedTuple
from urllib.parse import unquote_plus

import pyarrow as pa

from singer_arrow.errors import ServiceError
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TAG = "ListBucketResult"
_CONTENTS = re.compile(
    rb"<Contents><Key>([^<&]*)</Key><LastModified>([^<]*)</LastModified>(?:<ETag>([^<]*)</ETag>)?"
    rb"(?:<Checksum\w+>[^<]*</Checksum\w+>)*<Size>(\d+)</Size>(?:<(?!/?Contents>)[^<]*)*</Contents>"
)
_PARTS = _CONTENTS.groups + 1
_FREQUENT = {"%3D": "=", "%3A": ":"}
"""Codes of the characters in folders of partitions, which are decoded first."""


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
