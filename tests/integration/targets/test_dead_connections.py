"""Connections to the warehouses end when the peer disappears: the TCP timeouts that are set."""

from __future__ import annotations

import os
import socket
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from local_settings import of_bigquery, of_redshift
from small_network import Recorder

from local_cloud import Cloud
from singer_arrow.runtime.process import DEAD_AFTER_SECONDS, user_timeout
from target_bigquery import settings as bigquery_config
from target_bigquery.connection import Connection
from target_bigquery.storage_write.client import PING_SECONDS, WriteApi, WriteError
from target_redshift import settings as redshift_config
from target_redshift.client import Redshift

needs_linux = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has TCP_USER_TIMEOUT")


def user_timeouts(port: int) -> list[int]:
    """Return TCP_USER_TIMEOUT in milliseconds of each connection of this process to a local port."""
    found = []
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208 - which closes its own
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as one:
            if one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername()[1] == port:
                found.append(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    return found


@needs_linux
def test_redshift(cloud: Cloud, schema: str) -> None:
    settings = redshift_config.Settings.from_config(of_redshift(cloud, default_target_schema=schema))
    redshift, before = Redshift(settings), user_timeouts(settings.port)
    try:
        redshift.slices()
        assert Counter(user_timeouts(settings.port)) - Counter(before) == {DEAD_AFTER_SECONDS * 1000: 1}
    finally:
        redshift.close()


@needs_linux
def test_bigquery(cloud: Cloud) -> None:
    settings = bigquery_config.Settings.from_config(of_bigquery(cloud, dataset="any"))
    bigquery, before = Connection(settings), user_timeouts(port_of(settings.api_endpoint))
    try:
        bigquery.call("Listing", lambda: list(bigquery.client.list_datasets(max_results=1)))
        new = Counter(user_timeouts(port_of(settings.api_endpoint))) - Counter(before)
        assert new == {DEAD_AFTER_SECONDS * 1000: 1}
    finally:
        bigquery.close()


@needs_linux
def test_the_storage_write_api(cloud: Cloud) -> None:
    settings = bigquery_config.Settings.from_config(of_bigquery(cloud, dataset="any"))
    writes = WriteApi(Connection(settings))
    try:
        with pytest.raises(WriteError, match="does-not-exist"):
            writes.create("does-not-exist")
        assert (DEAD_AFTER_SECONDS - PING_SECONDS) * 1000 in user_timeouts(port_of(settings.storage_write_endpoint))
    finally:
        writes.close()


@needs_linux
def test_bigquery_through_a_proxy(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = bigquery_config.Settings.from_config(of_bigquery(cloud, dataset="any"))
    with Recorder(settings.api_endpoint or "") as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        bigquery = Connection(settings)
        try:
            bigquery.call("Listing", lambda: list(bigquery.client.list_datasets(max_results=1)))
            assert proxy.requests
            assert user_timeouts(port_of(proxy.url)) == [DEAD_AFTER_SECONDS * 1000]
        finally:
            bigquery.close()


def port_of(url: str | None) -> int:
    port = urlsplit(url or "").port
    assert port
    return port


def test_other_systems_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT", raising=False)
    assert user_timeout() == ()
