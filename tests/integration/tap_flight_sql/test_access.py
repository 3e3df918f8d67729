"""TLS with an authority of one's own, client certificates, tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms

from local_cloud import Cloud
from local_cloud.certificates import write_certificates
from local_cloud.environment import FLIGHTSQL_PASSWORD

STREAM = {"name": "rows", "query": "SELECT 1 AS id"}


@pytest.fixture(scope="module", params=["server", "mutual"])
def tls_cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Start a server with TLS, and one that asks for certificates of clients."""
    with Cloud(["flightsql"], flightsql_tls=request.param, flightsql_endpoints=2) as started:
        yield started


@pytest.fixture
def tls(tls_cloud: Cloud) -> dict[str, Any]:
    """Return the setting `tls` that the server needs."""
    folder = tls_cloud.flightsql.certificates
    setting = {"ca_file": str(folder / "ca.pem")}
    if tls_cloud.flightsql.is_mutual:
        setting |= {"cert_file": str(folder / "client.pem"), "key_file": str(folder / "client.key")}
    return setting


@pytest.fixture
def secure_tap(tls_cloud: Cloud, tmp_path: Path) -> Tap:
    return Tap(ForkedPrograms(tls_cloud.environ(), tmp_path), tmp_path / "batches")


def test_the_own_authority(secure_tap: Tap, tls: dict[str, Any]) -> None:
    assert secure_tap.ids(secure_tap(STREAM, tls=tls).check()) == [1]


def test_an_unknown_authority(secure_tap: Tap, tls: dict[str, Any], tmp_path: Path) -> None:
    write_certificates(tmp_path)
    for given in ({**tls, "ca_file": str(tmp_path / "ca.pem")}, {k: v for k, v in tls.items() if k != "ca_file"}):
        ran = secure_tap(STREAM, tls=given)
        assert ran.code == 1
        assert "certificate signed by unknown authority" in ran.stderr.splitlines()[-1]
        assert "; set tls.ca_file" in ran.stderr.splitlines()[-1]
    if "cert_file" not in tls:
        assert secure_tap.ids(secure_tap(STREAM, tls={"skip_verify": True}).check()) == [1]


def test_a_client_without_a_certificate(tls_cloud: Cloud, secure_tap: Tap, tls: dict[str, Any]) -> None:
    ran = secure_tap(STREAM, tls={"ca_file": tls["ca_file"]})
    assert (ran.code == 0) is not tls_cloud.flightsql.is_mutual
    assert "Traceback" not in ran.stderr
    if tls_cloud.flightsql.is_mutual:
        assert "tls.cert_file" in ran.stderr.splitlines()[-1]


def test_a_certificate_of_another_authority(
    tls_cloud: Cloud, secure_tap: Tap, tls: dict[str, Any], tmp_path: Path
) -> None:
    write_certificates(tmp_path)
    given = {"cert_file": str(tmp_path / "client.pem"), "key_file": str(tmp_path / "client.key")}
    ran = secure_tap(STREAM, tls={**tls, **given})
    assert (ran.code == 0) is not tls_cloud.flightsql.is_mutual
    assert "Traceback" not in ran.stderr
    if tls_cloud.flightsql.is_mutual:
        assert "tls.cert_file" in ran.stderr.splitlines()[-1]


def test_a_token(tls_cloud: Cloud, tls: dict[str, Any], tmp_path: Path) -> None:
    kept = {name: value for name, value in tls_cloud.environ().items() if not name.startswith("TAP_FLIGHT_SQL")}
    tap = Tap(ForkedPrograms(kept, tmp_path), tmp_path / "batches")
    server = tls_cloud.flightsql
    options: dict[str, Any] = {"uri": server.uri, "tls": tls}
    assert tap.ids(tap(STREAM, token=server.token, **options).check()) == [1]
    ran = tap(STREAM, token="a-wrong-token", **options)
    assert ran.code == 1
    assert "correct username and password, or token" in ran.stderr.splitlines()[-1]
    assert "a-wrong-token" not in ran.stderr
    assert FLIGHTSQL_PASSWORD not in ran.stderr
