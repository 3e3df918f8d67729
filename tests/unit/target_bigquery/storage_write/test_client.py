"""The endpoint of the Storage Write API, and the text of its errors."""

from __future__ import annotations

from typing import Any

import pytest
from google.api_core import exceptions as api
from google.auth.credentials import AnonymousCredentials
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import BigQueryWriteGrpcTransport

from singer_arrow.errors import CredentialsError, LoadError
from target_bigquery.connection import Connection
from target_bigquery.settings import Settings
from target_bigquery.storage_write import client
from target_bigquery.storage_write.client import GRPC_OPTIONS, WriteApi, WriteError, WriteErrorKind

NAME = "projects/p/datasets/d/tables/t/streams/Cic2"


@pytest.fixture
def channels(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the options of each gRPC channel that is created; it is created nevertheless."""
    created, create = list[dict[str, Any]](), BigQueryWriteGrpcTransport.create_channel

    def channel(*args: Any, **options: Any) -> Any:
        created.append(options)
        return create(*args, **options)

    monkeypatch.setattr(BigQueryWriteGrpcTransport, "create_channel", channel)
    return created


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        (None, "bigquerystorage.googleapis.com:443"),
        ("bigquerystorage.europe-west3.rep.googleapis.com", "bigquerystorage.europe-west3.rep.googleapis.com:443"),
        ("https://storage.example.org:8443/", "storage.example.org:8443"),
    ],
)
def test_with_tls_it_gets_the_credentials_of_bigquery(channels: list[dict[str, Any]], endpoint: str, host: str) -> None:
    bigquery = Connection(Settings("p", "d", storage_write_endpoint=endpoint, credentials_path="key.json"))
    bigquery.__dict__["credentials"] = credentials = AnonymousCredentials()
    writes = WriteApi(bigquery)
    try:
        assert writes.client.transport.host == host
        assert writes.client is writes.client
        assert [channel["credentials"] for channel in channels] == [credentials]
    finally:
        writes.close()


@pytest.mark.parametrize(("endpoint", "is_sent"), [("eu.rep.googleapis.com", True), ("example.org:8443", False)])
def test_outside_of_google_only_credentials_that_are_set_are_sent(
    channels: list[dict[str, Any]], endpoint: str, is_sent: bool
) -> None:
    bigquery = Connection(Settings("p", "d", storage_write_endpoint=endpoint))
    bigquery.__dict__["credentials"] = credentials = AnonymousCredentials()  # as if they were the machine's own
    writes = WriteApi(bigquery)
    try:
        assert writes.client is not None
        assert [channel["credentials"] is credentials for channel in channels] == [is_sent]
    finally:
        writes.close()


def test_without_tls_it_gets_none() -> None:
    writes = WriteApi(Connection(Settings("p", "d", storage_write_endpoint="http://127.0.0.1:9")))
    try:
        assert writes.client.transport is not None
    finally:
        writes.close()


def fail(error: Exception) -> Any:
    def function() -> None:
        raise error

    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what the tests look at
        client.call_once("Writing", function)
    return caught.value


def test_errors_without_a_status_are_those_of_bigquery() -> None:
    assert isinstance(fail(api.Forbidden("no")), CredentialsError)
    assert isinstance(fail(RuntimeError("odd\nthing")), LoadError)
    assert "\n" not in str(fail(RuntimeError("odd\nthing")))


def test_errors_name_the_table_of_a_write_stream() -> None:
    assert client.short_name(NAME) == "a write stream into table p.d.t"
    error = client.write_error("Writing", "OUT_OF_RANGE", "beyond\n the end", "OFFSET_OUT_OF_RANGE")
    assert isinstance(error, WriteError)
    assert error.kind is WriteErrorKind.NEW_STREAM
    assert str(error) == "Writing: OFFSET_OUT_OF_RANGE: beyond the end"


def test_a_connection_with_tls_is_pinged(channels: list[dict[str, Any]]) -> None:
    bigquery = Connection(Settings("p", "d", credentials_path="key.json"))
    bigquery.__dict__["credentials"] = AnonymousCredentials()
    writes = WriteApi(bigquery)
    try:
        assert writes.client is not None
        options = dict(channels[0]["options"])
        assert dict(GRPC_OPTIONS).items() <= options.items()
        assert options["grpc.max_send_message_length"] == -1
    finally:
        writes.close()
