"""Google Cloud Storage's XML API, as obstore uses it, on a free port of 127.0.0.1. Any credentials are accepted."""

import re
import threading
from collections.abc import Iterator
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from local_cloud.gcs.objects import Objects, StorageError, Stored
from local_cloud.loopback import LoopbackServer

_KEPT = re.compile(r"x-goog-meta-|x-goog-custom-time$|content-type$")
_PAGE = 1000
_CHUNK = 1 << 20
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    objects: ClassVar[Objects]

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        self._bucket, self._key = unquote(bucket), unquote(key)
        self._query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        try:
            getattr(self, f"_{self.command.lower()}")()
        except StorageError as error:
            self._refuse(error)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815 - the base calls them so

    def _put(self) -> None:
        if not self._key:
            self._receive().unlink()
            self.objects.create_bucket(self._bucket)
            self._answer(200)
            return
        body = self._receive()
        if upload := self._query.get("uploadId"):
            etag = self.objects.put_part(upload, int(self._query["partNumber"]), body)
            self._answer(200, {"ETag": f'"{etag}"'})
            return
        if "x-goog-copy-source" in self.headers:
            body.unlink()
            raise StorageError(501, "NotImplemented", "the local Google Cloud Storage does not copy")
        match = self.headers.get("x-goog-if-generation-match")
        number = None if match is None else int(match)
        stored = self.objects.put(self._bucket, self._key, body, self._kept(), match=number)
        self._answer(200, _headers(stored))

    def _post(self) -> None:
        body = self._receive()
        text = body.read_text()
        body.unlink()
        if "uploads" in self._query:
            upload = self.objects.begin(self._bucket, self._key, self._kept())
            self._answer(200, body=_xml("InitiateMultipartUploadResult", self._names({"UploadId": upload})))
        elif upload := self._query.get("uploadId", ""):
            numbers = [int(n) for n in re.findall(r"<PartNumber>(\d+)</PartNumber>", text)]
            stored = self.objects.complete(upload, numbers)
            answer = self._names({"ETag": f'"{stored.etag}"', "Location": self.path})
            self._answer(
                200, {"x-goog-generation": str(stored.generation)}, _xml("CompleteMultipartUploadResult", answer)
            )
        else:
            raise StorageError(501, "NotImplemented", "the local Google Cloud Storage has no such POST")

    def _delete(self) -> None:
        if upload := self._query.get("uploadId"):
            self.objects.abort(upload)
        elif self._key:
            self.objects.delete(self._bucket, self._key)
        else:
            self.objects.delete_bucket(self._bucket)
        self._answer(204)

    def _head(self) -> None:
        stored, file = self.objects.get(self._bucket, self._key)
        file.close()
        self._answer(200, _headers(stored) | {"Content-Length": str(stored.size)})

    def _get(self) -> None:
        if not self._key:
            self._list()
            return
        stored, file = self.objects.get(self._bucket, self._key)
        with file:
            if (expected := self.headers.get("if-match")) and expected.strip('"') != stored.etag:
                raise StorageError(412, "PreconditionFailed", "At least one of the pre-conditions did not hold.")
            start, end = self._range(stored.size)
            headers = _headers(stored) | {"Content-Length": str(end - start)}
            if self.headers.get("range"):
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{stored.size}"
            self._answer(206 if self.headers.get("range") else 200, headers)
            file.seek(start)
            while start < end:
                chunk = file.read(min(_CHUNK, end - start))
                self.wfile.write(chunk)
                start += len(chunk)

    def _range(self, size: int) -> tuple[int, int]:
        found = _RANGE.fullmatch(self.headers.get("range") or "bytes=0-")
        if found is None or not any(found.groups()):
            raise StorageError(501, "NotImplemented", "the local Google Cloud Storage takes one range")
        if not found[1]:
            start, end = max(0, size - int(found[2])), size
        else:
            start, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
        if self.headers.get("range") and start >= end:
            raise StorageError(416, "InvalidRange", "The requested range cannot be satisfied.")
        return start, end

    def _list(self) -> None:
        if "list-type" not in self._query or "delimiter" in self._query:
            raise StorageError(501, "NotImplemented", "the local Google Cloud Storage lists without a delimiter")
        after = max(self._query.get("start-after", ""), self._query.get("continuation-token", ""))
        found = self.objects.list(self._bucket, self._query.get("prefix", ""), after)
        page = found[: int(self._query.get("max-keys", _PAGE))]
        more = [_xml_field("NextContinuationToken", page[-1].key)] if len(page) < len(found) else []
        contents = "".join(f"<Contents>{''.join(_listed(stored))}</Contents>" for stored in page)
        self._answer(200, body=_xml("ListBucketResult", "".join(more) + contents))

    def _names(self, more: dict[str, str]) -> str:
        return "".join(_xml_field(k, v) for k, v in {"Bucket": self._bucket, "Key": self._key, **more}.items())

    def _kept(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items() if _KEPT.match(name.lower())}

    def _receive(self) -> Any:
        return self.objects.received(self.rfile, int(self.headers.get("content-length") or 0))

    def _answer(self, status: int, headers: dict[str, str] | None = None, body: str = "") -> None:
        data = body.encode()
        self.send_response(status)
        for name, value in ({} if status == 204 else {"Content-Length": str(len(data))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if data and self.command != "HEAD":
            self.wfile.write(data)

    def _refuse(self, error: StorageError) -> None:
        self._answer(
            error.status, body=_xml("Error", _xml_field("Code", error.code) + _xml_field("Message", str(error)))
        )


def _headers(stored: Stored) -> dict[str, str]:
    own = {"ETag": f'"{stored.etag}"', "x-goog-generation": str(stored.generation)}
    return {**stored.headers, **own, "Last-Modified": format_datetime(stored.modified, usegmt=True)}


def _listed(stored: Stored) -> Iterator[str]:
    yield _xml_field("Key", stored.key)
    yield _xml_field("Generation", str(stored.generation))
    yield _xml_field("LastModified", stored.modified.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    yield _xml_field("ETag", f'"{stored.etag}"')
    yield _xml_field("Size", str(stored.size))


def _xml_field(name: str, value: str) -> str:
    return f"<{name}>{escape(value)}</{name}>"


def _xml(name: str, inner: str) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?><{name}>{inner}</{name}>'


def start(objects: Objects) -> LoopbackServer:
    """Serve the objects from a thread, until the server is shut down or the process ends."""
    handler = type("Handler", (_Handler,), {"objects": objects})
    server = LoopbackServer(handler)
    threading.Thread(target=server.serve_forever, name="gcs", daemon=True).start()
    return server
