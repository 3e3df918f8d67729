"""Keys that obstore cannot name, and answers to listings; real requests are in tests/integration."""

from __future__ import annotations

from typing import Any

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from singer_arrow.errors import ServiceError
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.listing import Bucket, is_unsupported_key, is_valid_key, page_from_xml
from singer_arrow.storage.urls import Url


@given(st.text(st.sampled_from("a./\\%+ ~*ä\n\t\x7f\x1f\x80"), max_size=8))
def test_what_is_not_odd_is_named_as_it_is(key: str) -> None:
    store = MemoryStore()
    try:
        obstore.put(store, key, b"")
        kept = [meta["path"] for page in obstore.list(store) for meta in page] == [key]
    except (ValueError, obstore.exceptions.BaseError):
        kept = False
    assert kept is not is_unsupported_key(key)


@pytest.mark.parametrize(
    ("key", "expected"), [("", False), ("k" * 1024, True), ("k" * 1025, False), ("ä" * 513, False)]
)
def test_how_long_a_key_may_be(key: str, expected: bool) -> None:
    assert is_valid_key(key) is expected
    assert is_unsupported_key(key) is not expected


class Client:
    """Answers listings with pages, one after the other."""

    def __init__(self, *pages: str) -> None:
        self.pages, self.asked = list(pages), list[dict[str, Any]]()

    def list_objects_v2(self, **asked: Any) -> dict[str, Any]:
        self.asked.append(asked)
        return {"Page": page_from_xml(self.pages.pop(0).encode())}


ENTRY = "<Contents><Key>{}</Key><LastModified>2024-05-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"


@pytest.mark.parametrize("space", ["", ' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'])
@pytest.mark.parametrize("coded", [True, False])
def test_pages_with_and_without_a_name_space_and_coded_keys(space: str, coded: bool) -> None:
    kind = "<EncodingType>url</EncodingType>" if coded else ""
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    client = Client(
        f"<ListBucketResult{space}>{kind}{more}{ENTRY.format('a+b%2B')}</ListBucketResult>",
        f"<ListBucketResult{space}>{kind}<IsTruncated>false</IsTruncated>{ENTRY.format('c')}</ListBucketResult>",
    )
    pages = Bucket("b", client, AwsOptions(requester_pays=True)).pages("p", "after")
    found = [o for page in pages for o in page.objects(Url("s3", "b", ""))]
    assert [o.url.key for o in found] == ["a b+" if coded else "a+b%2B", "c"]
    assert [(o.size, o.etag, o.modified.isoformat()) for o in found] == [(1, None, "2024-05-01T00:00:00+00:00")] * 2
    both = {"Bucket": "b", "Prefix": "p", "RequestPayer": "requester"}
    assert client.asked == [{**both, "StartAfter": "after"}, {**both, "ContinuationToken": "t"}]


def test_an_answer_that_is_no_listing_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ServiceError, match="the answer to a listing is <html>"):
        list(Bucket("b", Client("<html/>"), AwsOptions()).pages("", ""))


@pytest.mark.parametrize(
    ("token", "problem"),
    [("", "has no"), ("<NextContinuationToken>t</NextContinuationToken>", "repeats its")],
)
def test_a_truncated_listing_that_cannot_be_completed_is_an_error(token: str, problem: str) -> None:
    page = f"<ListBucketResult><IsTruncated>true</IsTruncated>{token}{ENTRY.format('a')}</ListBucketResult>"
    client = Client(*[page] * 5)
    with pytest.raises(ServiceError, match=f"listing of 'p' is truncated and {problem} continuation token"):
        list(Bucket("b", client, AwsOptions()).pages("p", ""))
    assert len(client.asked) == (2 if token else 1)


@pytest.mark.parametrize("quote", ["&quot;", "&#34;", '"'])
def test_an_etag_is_in_quotes_however_the_service_escapes_them(quote: str) -> None:
    entry = ENTRY.format("a").replace("<Size>", f"<ETag>{quote}0a{quote}</ETag><Size>")
    page, _, _ = page_from_xml(f"<ListBucketResult>{entry}</ListBucketResult>".encode())
    assert page.etags == ['"0a"']


def test_a_page_in_another_form_has_the_same_objects() -> None:
    usual = f"<ListBucketResult>{ENTRY.format('a')}{ENTRY.format('b')}</ListBucketResult>"
    indented = usual.replace("><", ">\n  <")
    assert page_from_xml(indented.encode()) == page_from_xml(usual.encode())
    owner = usual.replace("</Size>", "</Size><Owner><ID>x</ID></Owner><StorageClass>STANDARD</StorageClass>")
    assert page_from_xml(owner.encode()) == page_from_xml(usual.encode())
    escaped = usual.replace("<Key>a<", "<Key>a&amp;b<")
    assert page_from_xml(escaped.encode())[0].keys == ["a&b", "b"]
