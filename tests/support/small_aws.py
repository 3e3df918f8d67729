"""Small S3 and credential services that record the signer of each request, with optional checks.

Covers what moto lacks: keys with line breaks, customer-provided encryption keys (SSE-C), TLS, credentials that last
seconds.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import md5
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, parse_qsl, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape

from small_network import Serving

from local_cloud.loopback import LoopbackServer

BUCKET = "shop"
CHANGED = datetime(2024, 5, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Request:
    """A request to S3.

    Attributes:
        key: Empty in a listing.
        signer: The access key that signed the request.
    """

    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def signer(self) -> str:
        found = re.search(r"Credential=([^/]+)/", self.headers.get("authorization", ""))
        return found[1] if found else ""


Refusal = tuple[int, str, str]
"""Status, code and message of an error."""
FAILED: Refusal = (412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")


@dataclass
class SmallAws(Serving):
    """A running server: S3 with one bucket, STS, the SSO portal at /federation, container credentials at /role.

    There are queues too, all of them empty. `changed` returns the time of change of objects, by default `CHANGED`.
    `instead` returns the status and body of an answer that replaces the usual one; None: the usual one. `requests` are
    those to S3 and SQS; `asked` contains the parameters of each request for credentials, which last `lifetime` seconds.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    refuse: Callable[[Request], Refusal | None] = lambda _: None
    instead: Callable[[Request], tuple[int, bytes] | None] = lambda _: None
    lifetime: float = 3600
    page: int = 1000
    changed: dict[str, datetime] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = LoopbackServer(type("Handler", (_Handler,), {"aws": self}))
        if self.tls:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        return super().__enter__()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def signers(self) -> set[str]:
        """The access keys that signed requests to S3."""
        return {r.signer for r in self.requests}

    def keys(self, name: str, **asked: str) -> dict[str, str]:
        """Return new credentials by AWS's names; the access key encodes the role and a number."""
        self.asked.append(asked)
        ends = datetime.now(UTC) + timedelta(seconds=self.lifetime)
        return {
            "AccessKeyId": f"{name}-{len(self.asked)}",
            "SecretAccessKey": "secret",
            "SessionToken": f"token-{len(self.asked)}",
            "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    aws: SmallAws

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if url.path == "/role":
            known = self.aws.keys("container", authorization=self.headers.get("Authorization", ""))
            known["Token"] = known.pop("SessionToken")
            return self._answer(200, json.dumps(known).encode())
        if url.path == "/federation/credentials":
            keys = self.aws.keys(
                "sso", token=self.headers.get("x-amz-sso_bearer_token", ""), **dict(parse_qsl(url.query))
            )
            ends = datetime.fromisoformat(keys["Expiration"]).timestamp()
            credentials = {
                "accessKeyId": keys["AccessKeyId"],
                "secretAccessKey": keys["SecretAccessKey"],
                "sessionToken": keys["SessionToken"],
                "expiration": int(ends * 1000),
            }
            return self._answer(200, json.dumps({"roleCredentials": credentials}).encode())
        bucket, _, key = unquote(url.path.lstrip("/") if not url.path.startswith("//") else url.path[1:]).partition("/")
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        request = Request(self.command, key, query, {k.lower(): v for k, v in self.headers.items()})
        if request.headers.get("range") == "bytes=0-0" and not request.signer:  # it only looks for a redirect
            return self._refuse((403, "AccessDenied", "Access Denied"))
        self.aws.requests.append(request)
        if bucket != BUCKET:
            return self._refuse((404, "NoSuchBucket", "The specified bucket does not exist"))
        if refusal := self.aws.refuse(request):
            return self._refuse(refusal)
        if instead := self.aws.instead(request):
            return self._answer(*instead)
        if self.command == "PUT":
            return self._put(request)
        return self._object(request) if key else self._list(query)

    def do_PUT(self) -> None:
        self.body = self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "x-amz-target" in self.headers:
            self.aws.requests.append(Request("POST", "", {}, {k.lower(): v for k, v in self.headers.items()}))
            return self._answer(200, b"{}")
        form = dict(parse_qsl(body))
        action = form["Action"]
        keys = self.aws.keys("web" if "WebIdentity" in action else "role", **form)
        elements = "".join(f"<{name}>{text}</{name}>" for name, text in keys.items())
        answer = (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<Credentials>{elements}</Credentials></{action}Result></{action}Response>"
        )
        return self._answer(200, answer.encode())

    def _object(self, request: Request) -> None:
        data = self.aws.objects.get(request.key)
        if data is None:
            return self._refuse((404, "NoSuchKey", "The specified key does not exist."))
        tag = f'"{md5(data).hexdigest()}"'
        if request.headers.get("if-match", tag) != tag:
            return self._refuse(FAILED)
        headers = {
            "ETag": tag,
            "Last-Modified": self.aws.changed.get(request.key, CHANGED).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        }
        if found := re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", "")):
            first = int(found[1]) if found[1] else max(0, len(data) - int(found[2]))
            last = min(len(data), int(found[2]) + 1) if found[1] and found[2] else len(data)
            headers["Content-Range"] = f"bytes {first}-{last - 1}/{len(data)}"
            return self._answer(206, data[first:last], headers)
        return self._answer(200, data, headers)

    def _put(self, request: Request) -> None:
        is_new = request.headers.get("if-none-match") == "*" or request.headers.get("x-goog-if-generation-match") == "0"
        if is_new and request.key in self.aws.objects:
            return self._refuse(FAILED)
        self.aws.objects[request.key] = self.body
        return self._answer(200, b"", {"ETag": f'"{md5(self.body).hexdigest()}"'})

    def _list(self, query: dict[str, str]) -> None:
        if "list-type" not in query:
            return self._answer(403, b"", {"x-amz-bucket-region": "eu-west-3"})  # a refused lookup of the region
        after = query.get("continuation-token", query.get("start-after", ""))
        keys = sorted(k for k in self.aws.objects if k.startswith(query.get("prefix", "")) and k > after)
        found = "".join(self._entry(key) for key in keys[: self.aws.page])
        more = (
            f"<NextContinuationToken>{escape(keys[self.aws.page - 1])}</NextContinuationToken>"
            if keys[self.aws.page :]
            else ""
        )
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<EncodingType>url</EncodingType><IsTruncated>{str(bool(more)).lower()}</IsTruncated>{more}{found}"
            "</ListBucketResult>"
        )
        return self._answer(200, body.encode(), {"Content-Type": "application/xml"})

    def _entry(self, key: str) -> str:
        data = self.aws.objects[key]
        at = f"{self.aws.changed.get(key, CHANGED):%Y-%m-%dT%H:%M:%S.000Z}"
        return (
            f"<Contents><Key>{quote_plus(key, safe='/')}</Key><LastModified>{at}</LastModified>"
            f"<ETag>&quot;{md5(data).hexdigest()}&quot;</ETag><Size>{len(data)}</Size></Contents>"
        )

    def _refuse(self, refusal: Refusal) -> None:
        status, code, message = refusal
        self._answer(status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode())

    def _answer(self, status: int, body: bytes, headers: dict[str, Any] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
