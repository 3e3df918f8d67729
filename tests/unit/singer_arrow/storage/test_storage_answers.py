"""Answers of services that a storage must not misinterpret: conflicts, and pages that are no listing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import AzureStore
from small_aws import BUCKET, Refusal, Request, SmallAws

from singer_arrow.errors import ConfigError, ConflictError, ServiceError
from singer_arrow.storage import errors, store
from singer_arrow.storage import listing as s3
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url

CONFLICT: Refusal = (409, "ConditionalRequestConflict", "The conditional request cannot succeed")
ABORTED: Refusal = (409, "OperationAborted", "A conflicting conditional operation is currently in progress")
ERROR = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>Try again</Message></Error>'
CUT = b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"
KEYS = [f"many/{number}" for number in range(5)]


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "FIRST_PAUSE", 0.0)


@pytest.fixture
def server() -> Iterator[SmallAws]:
    with SmallAws(dict.fromkeys(KEYS, b"x"), page=2) as started:
        yield started


@pytest.fixture(params=["s3", "gs"])
def root(request: pytest.FixtureRequest, server: SmallAws, monkeypatch: pytest.MonkeyPatch) -> Url:
    """Return a bucket URL of each service that the server imitates."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    return Url(request.param, BUCKET, "")


def opened(server: SmallAws) -> Storage:
    return Storage(AwsOptions(endpoint_url=server.url, anonymous=True))


def refusing(server: SmallAws, *refusals: Refusal) -> list[Request]:
    """Refuse writes for two reasons in turn; return the requests."""
    left, refused = list(refusals), list[Request]()

    def refuse(request: Request) -> Refusal | None:
        if request.method != "PUT" or not left:
            return None
        refused.append(request)
        return left.pop(0)

    server.refuse = refuse
    return refused


@pytest.mark.parametrize("if_absent", [True, False])
@pytest.mark.parametrize("refusal", [CONFLICT, ABORTED])
@pytest.mark.full
def test_a_write_that_meets_another_is_repeated(server: SmallAws, root: Url, if_absent: bool, refusal: Refusal) -> None:
    refused = refusing(server, refusal, refusal)
    assert opened(server).put(root.join("new"), b"data", if_absent=if_absent) is True
    assert len(refused) == 2
    assert server.objects["new"] == b"data"


@pytest.mark.full
def test_a_file_whose_move_meets_another_write_is_there_in_the_end(server: SmallAws, root: Url, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"data")
    refusing(server, ABORTED)
    assert opened(server).put_file(root.join("new"), tmp_path / "file") == 4
    assert server.objects["new"] == b"data"


@pytest.mark.parametrize("if_absent", [True, False])
@pytest.mark.full
def test_a_write_that_always_meets_another_is_an_error(server: SmallAws, root: Url, if_absent: bool) -> None:
    refused = refusing(server, *[CONFLICT] * 20)
    with pytest.raises(ConflictError, match=r"new cannot be written while something else writes it \(Conditional"):
        opened(server).put(root.join("new"), b"data", if_absent=if_absent)
    assert len(refused) == errors.MAX_TRIES
    assert "new" not in server.objects


@pytest.mark.full
def test_only_an_object_that_exists_is_not_written(server: SmallAws, root: Url) -> None:
    refused = refusing(server, CONFLICT)
    assert opened(server).put(root.join(KEYS[0]), b"data", if_absent=True) is False
    assert len(refused) == 1
    assert server.objects[KEYS[0]] == b"x"


@pytest.mark.full
def test_a_write_whose_answer_was_lost_is_not_written_again(server: SmallAws, root: Url) -> None:
    """See the docstring of `put`: only the object's content shows who wrote it."""

    def lose_once(request: Request) -> Refusal | None:
        if request.method == "PUT" and "new" not in server.objects:
            server.objects["new"] = b"data"
            return 500, "InternalError", "Written, but the answer is an error"
        return None

    server.refuse = lose_once
    assert opened(server).put(root.join("new"), b"data", if_absent=True) is False
    assert server.objects["new"] == b"data"


@pytest.mark.parametrize(("code", "exists"), [("BlobAlreadyExists", True), ("ContainerBeingDeleted", False)])
@pytest.mark.full
def test_azure_answers_409_for_an_object_that_exists_too(
    server: SmallAws, monkeypatch: pytest.MonkeyPatch, code: str, exists: bool
) -> None:
    refused = refusing(server, *[(409, code, "No")] * (1 if exists else errors.MAX_TRIES))
    azure = AzureStore(
        BUCKET,
        config={"account_name": "account", "endpoint": server.url, "skip_signature": True},
        client_options={"allow_http": True},
    )
    monkeypatch.setattr(store, "open_store", lambda *_, **__: azure)
    url = Url("az", BUCKET, "new")
    if exists:
        assert opened(server).put(url, b"data", if_absent=True) is False
    else:
        with pytest.raises(ConflictError, match="ContainerBeingDeleted"):
            opened(server).put(url, b"data", if_absent=True)
    assert not refusing(server)
    assert len(refused) == (1 if exists else errors.MAX_TRIES)


@pytest.mark.parametrize("wrong", [ERROR, CUT, b"<html><body>Log in</body></html>"], ids=["error", "cut", "html"])
@pytest.mark.parametrize("page", [0, 1, 2])
@pytest.mark.full
def test_a_page_that_is_no_listing_is_not_the_end(server: SmallAws, root: Url, wrong: bytes, page: int) -> None:
    answer_wrongly(server, wrong, range(page, page + 1))
    listing = opened(server).list(Url(root.scheme, BUCKET, "many/"))
    if root.scheme == "s3" and wrong is not ERROR:  # which botocore retries
        with pytest.raises(ServiceError, match="answer to a listing is <html>|has no continuation token"):
            list(listing)
    else:
        assert [info.url.key for info in listing] == KEYS


@pytest.mark.parametrize("page", [0, 1, 2])
@pytest.mark.full
def test_s3_is_not_listed_where_it_always_answers_with_an_error(
    server: SmallAws, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(s3, "MAX_TRIES", 2)
    answer_wrongly(server, ERROR, range(page, 100))
    with pytest.raises(ServiceError, match=r"did not answer as it should \(InternalError"):
        list(opened(server).list(Url("s3", BUCKET, "many/")))


def answer_wrongly(server: SmallAws, wrong: bytes, pages: range) -> None:
    """Answer these listing requests, by number, with `200` and something else."""
    numbers = itertools.count()
    server.instead = lambda request: (200, wrong) if not request.key and next(numbers) in pages else None


@pytest.mark.parametrize("keys", [[], KEYS, KEYS[:1]])
@pytest.mark.full
def test_a_listing_names_each_object_once(server: SmallAws, root: Url, keys: list[str]) -> None:
    server.objects = dict.fromkeys([*keys, "many.csv", "others/1"], b"x")
    assert sorted(info.url.key for info in opened(server).list(Url(root.scheme, BUCKET, "many/"))) == keys
    after = [info.url.key for info in opened(server).list(Url(root.scheme, BUCKET, "many/"), after="many/2")]
    assert after == [key for key in keys if key > "many/2"]


def test_an_endpoint_that_is_no_url_is_one_line() -> None:
    options = AwsOptions(endpoint_url="http://local host:9", access_key_id="a", secret_access_key="b", region="r")
    with pytest.raises(ConfigError, match="'http://local host:9', which is no URL"):
        Storage(options).read(Url.parse("s3://b/state.json"))
