"""An S3 that lists any number of objects it does not hold: `python -m benchmarks.services.many_objects COUNT NEW`.

It answers ListObjectsV2 with pages of a thousand keys, HEAD and GET. The keys are in folders of 10,000; the times are
spread over 30 days in no order of the keys; NEW further objects, in a folder that is listed last, are a day younger.
Each ETag is of 16 random-looking bytes, so that nothing can be compressed better than in a real bucket.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import overload
from urllib.parse import parse_qs, quote_plus, unquote, urlsplit

from local_cloud.lifeline import Ready, end_with_parent

BUCKET = "bench"
BODY = b"id,name\n1,abc\n2,def\n"
FOLDER = 10_000
SPAN = 30 * 86400
_PAGE = 1000
START = datetime(2026, 1, 1, tzinfo=UTC)
_XML = b'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'


class Keys(Sequence[str]):
    """The keys in byte order."""

    def __init__(self, count: int, new: int) -> None:
        self.count, self.new = count, new

    def __len__(self) -> int:
        return self.count + self.new

    @overload
    def __getitem__(self, n: int) -> str: ...
    @overload
    def __getitem__(self, n: slice) -> Sequence[str]: ...
    def __getitem__(self, n: int | slice) -> str | Sequence[str]:
        if isinstance(n, slice):
            return [self[number] for number in range(*n.indices(len(self)))]
        if n >= self.count:
            return f"events/new/part-{n:09d}.csv"
        return f"events/day={n // FOLDER:05d}/region=eu-west-1/part-{n:09d}-0a1b2c3d4e5f.csv"

    def modified(self, n: int) -> datetime:
        """The time of an object."""
        return START + timedelta(seconds=SPAN + 86400 if n >= self.count else n * 7919 % SPAN)

    def find(self, key: str) -> int | None:
        """The number of a key; None if there is no such object."""
        n = bisect_left(self, key)
        return n if n < len(self) and self[n] == key else None

    def page(self, prefix: str, after: str) -> bytes:
        """The answer to ListObjectsV2."""
        first = max(bisect_left(self, prefix), bisect_right(self, after) if after else 0)
        last = min(first + _PAGE, bisect_right(self, prefix + "\U0010ffff"))
        entries = (_entry(quote_plus(self[n], safe="/"), self.modified(n), etag(n)) for n in range(first, last))
        more = last < len(self) and self[last].startswith(prefix)
        token = f"<NextContinuationToken>{self[last - 1]}</NextContinuationToken>" if more else ""
        head = f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        return b"".join([_XML, head.encode(), *entries, b"</ListBucketResult>"])


def _entry(key: str, at: datetime, etag: str) -> bytes:
    time = f"{at:%Y-%m-%dT%H:%M:%S}.000Z"
    return (
        f"<Contents><Key>{key}</Key><LastModified>{time}</LastModified><ETag>&quot;{etag}&quot;</ETag>"
        f"<Size>{len(BODY)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    ).encode()


def etag(n: int) -> str:
    """The ETag of an object, without quotes."""
    return hashlib.md5(n.to_bytes(8), usedforsecurity=False).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers of the service."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20  # an answer is sent at once
    keys = Keys(0, 0)

    def do_HEAD(self) -> None:  # the name that http.server calls
        """Answer with the head of an object or of the bucket."""
        self._answer(with_body=False)

    def do_GET(self) -> None:  # the name that http.server calls
        """Answer with an object or a page."""
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        key = unquote(url.path).lstrip("/").partition("/")[2]
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        headers, body, status = {"x-amz-bucket-region": "us-east-1"}, b"", 200
        if not key:
            after = query.get("continuation-token") or query.get("start-after", "")
            body = self.keys.page(query.get("prefix", ""), after) if "list-type" in query else b""
        elif (n := self.keys.find(key)) is None:
            status, body = 404, b"<Error><Code>NoSuchKey</Code></Error>"
        else:
            body = BODY
            headers |= {"ETag": f'"{etag(n)}"', "Last-Modified": format_datetime(self.keys.modified(n), usegmt=True)}
            if self.headers.get("Range"):  # objects are small, so it is the whole
                status = 206
                headers["Content-Range"] = f"bytes 0-{len(BODY) - 1}/{len(BODY)}"
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent is gone."""
    ready = Ready()
    Handler.keys = Keys(int(sys.argv[1]), int(sys.argv[2]))
    end_with_parent(lambda: None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.report({"url": f"http://127.0.0.1:{server.server_port}"})
    server.serve_forever()


if __name__ == "__main__":
    main()
