"""S3 by botocore, for what obstore cannot do: listings by an exact prefix with exact keys, and objects with odd keys.

obstore takes keys for paths. It refuses those with an empty part, `.`, `..` or a control character, drops slashes at
their ends, and lists whole folders. Here keys are what they are for S3: up to 1,024 bytes of any kind.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from singer_arrow.errors import ServiceError

if TYPE_CHECKING:
    from singer_arrow.storage.aws import AwsOptions, Session

TRIES = 5
"""How often a request, or the body of an answer, is asked for."""
LONGEST = 1024
"""Bytes of a key at most."""
_ODD = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)|[\x00-\x1f\x7f]")
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_NOTHING = b"<ListBucketResult/>"


@dataclass(frozen=True, slots=True)
class Told:
    """What S3 tells of an object, and where `data` begins in it, if it was asked for."""

    key: str
    size: int
    etag: str | None
    modified: datetime
    data: bytes = field(default=b"", repr=False)
    start: int = 0


def is_odd(key: str) -> bool:
    """Whether obstore cannot name an object of this key."""
    return _ODD.search(key) is not None or not is_key(key)


def is_key(key: str) -> bool:
    """Whether there can be an object of this key."""
    return 0 < len(key.encode()) <= LONGEST


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, and the client that asks for what is in it. Its errors are botocore's."""

    name: str
    client: Any
    options: AwsOptions

    def list(self, prefix: str, after: str) -> Iterator[Told]:
        """Every object whose key begins with the prefix and comes after `after`, in the order in which S3 lists.

        Raises:
            ServiceError: The answer is no listing, or does not tell where it goes on.
        """
        place: dict[str, str] = {"StartAfter": after} if after else {}
        while True:
            answer = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix, **place, **self._payer())
            page = ET.fromstring(answer["Page"])  # noqa: S314 - S3's own answer; expat bounds what entities expand to
            if page.tag.rpartition("}")[2] != "ListBucketResult":  # a page of a proxy, say
                msg = f"s3://{self.name}: the answer to a listing is <{page.tag}>, which is none of S3; try again"
                raise ServiceError(msg)
            space = page.tag.rpartition("}")[0] + "}" if "}" in page.tag else ""
            coded = page.findtext(f"{space}EncodingType") == "url"
            for found in page.iterfind(f"{space}Contents"):
                told = {part.tag: part.text or "" for part in found}
                key = told[f"{space}Key"]
                yield Told(
                    unquote_plus(key) if coded else key,
                    int(told[f"{space}Size"]),
                    told.get(f"{space}ETag"),
                    datetime.fromisoformat(told[f"{space}LastModified"]),
                )
            if page.findtext(f"{space}IsTruncated") != "true":
                return
            token = page.findtext(f"{space}NextContinuationToken")
            if not token or token == place.get("ContinuationToken"):
                what = "where it was asked from already" if token else "nowhere"
                msg = (
                    f"s3://{self.name}: a listing of {prefix!r} is cut and goes on {what}, so the rest cannot be asked "
                    "for; the service does not list as S3 does (ListObjectsV2)"
                )
                raise ServiceError(msg)
            place = {"ContinuationToken": token}

    def head(self, key: str, *, keyed: bool) -> Told:
        """What a HEAD tells of an object; `keyed`: with the customer's key."""
        answer = self.client.head_object(Bucket=self.name, Key=key, **self._payer(), **self._key(keyed=keyed))
        return Told(key, answer["ContentLength"], answer.get("ETag"), answer["LastModified"])

    def get(self, key: str, options: Mapping[str, Any], *, keyed: bool) -> Told:
        """Bytes of an object.

        Args:
            key: Of the object.
            options: Which bytes (`range`) of which version (`if_match`), in obstore's words.
            keyed: With the customer's key.
        """
        asked = {
            **({"Range": _header(options["range"])} if "range" in options else {}),
            **({"IfMatch": options["if_match"]} if "if_match" in options else {}),
            **self._payer(),
            **self._key(keyed=keyed),
        }
        answer, data = _whole(lambda: self.client.get_object(Bucket=self.name, Key=key, **asked))
        start, size = 0, len(data)
        if found := _RANGE.match(answer.get("ContentRange", "")):
            start, size = int(found[1]), int(found[2])
        return Told(key, size, answer.get("ETag"), answer["LastModified"], data, start)

    def _payer(self) -> dict[str, str]:
        return {"RequestPayer": "requester"} if self.options.requester_pays else {}

    def _key(self, *, keyed: bool) -> dict[str, Any]:
        key = self.options.sse_customer_key
        return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": b64decode(key)} if keyed and key else {}


def client(boto: Session, options: AwsOptions, *, region: str, endpoint: str | None) -> Any:
    """A client for the buckets of a region, reached as the options say."""
    from botocore import UNSIGNED
    from botocore.config import Config

    made = boto.client(
        "s3",
        region_name=region,
        endpoint_url=endpoint,
        config=Config(
            signature_version=UNSIGNED if options.anonymous else None,
            retries={"mode": "standard", "max_attempts": TRIES},
            connect_timeout=10,
            read_timeout=20,
            max_pool_connections=32,
            s3={"addressing_style": "path" if endpoint else "auto"},
        ),
    )
    made.meta.events.register("before-parse.s3.ListObjectsV2", _keep_page)
    return made


def _keep_page(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """botocore takes 60 ms to read a page of a thousand keys; reading it ourselves takes 8."""
    if response_dict["status_code"] == 200:
        customized_response_dict["Page"], response_dict["body"] = response_dict["body"], _NOTHING


def _header(asked: Any) -> str:
    """What the header Range says, of a range in obstore's words."""
    if isinstance(asked, tuple):
        return f"bytes={asked[0]}-{asked[1] - 1}"
    return f"bytes=-{asked['suffix']}" if "suffix" in asked else f"bytes={asked['offset']}-"


def _whole(ask: Callable[[], Any]) -> tuple[Any, bytes]:
    """An answer with its whole body; one that breaks off is asked for again, which botocore does not do."""
    from botocore.exceptions import HTTPClientError, IncompleteReadError

    for _ in range(TRIES - 1):
        answer = ask()
        try:
            return answer, answer["Body"].read()
        except (HTTPClientError, IncompleteReadError):
            continue
    answer = ask()
    return answer, answer["Body"].read()
