"""Settings of the tap: what is accepted, and what is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from singer_arrow.errors import ConfigError
from tap_flight_sql.settings import Settings, StreamSettings

PLAIN = {"uri": "grpc://host:1", "tls": False}


def test_defaults() -> None:
    settings = Settings.from_config({"uri": "grpc+tls://host:1", "streams": [{"name": "a", "query": "SELECT 1; "}]})
    assert settings.streams == (StreamSettings("a", "SELECT 1"),)
    assert settings.batch is None
    assert settings.plan_root is None
    assert settings.server.message_bytes == 1 << 30


def test_a_table_is_read_whole() -> None:
    settings = Settings.from_config({**PLAIN, "streams": [{"name": "a", "table": "shop.orders"}]})
    assert settings.streams[0].query == "SELECT * FROM shop.orders"


def test_files_of_certificates(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    settings = Settings.from_config({"uri": "grpc+tls://host:1", "tls": {"ca_file": str(tmp_path / "ca.pem")}})
    assert settings.server.ca == "PEM"
    with pytest.raises(ConfigError, match=r"'tls.ca_file': .*nowhere.pem cannot be read: No such file"):
        Settings.from_config({"uri": "grpc+tls://host:1", "tls": {"ca_file": str(tmp_path / "nowhere.pem")}})


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"uri": "host:1"}, "must be an address like grpc"),
        ({"uri": "grpc://host:1"}, "which is not encrypted; use grpc"),
        ({"uri": "grpc+tls://host:1", "tls": False}, "'tls' is false, and 'uri' is"),
        ({"uri": "grpc+tls://host:1", "tls": {"cert_file": "a"}}, "'tls.cert_file' and 'tls.key_file' belong together"),
        ({**PLAIN, "token": "t", "username": "u"}, "'token' and 'username' exclude each other"),
        ({**PLAIN, "username": "u"}, "'username' and 'password' belong together"),
        ({**PLAIN, "streams": [{"name": "a"}]}, r"'streams\[0\]' needs either 'query' or 'table'"),
        ({**PLAIN, "streams": [{"name": "a", "query": "x", "table": "y"}]}, "either 'query' or 'table'"),
        ({**PLAIN, "streams": [{"name": "", "query": "x"}]}, r"'streams\[0\].name' must not be empty"),
        ({**PLAIN, "streams": [{"name": "a", "query": "x"}] * 2}, "two streams named 'a'"),
    ],
    ids=str,
)
def test_what_makes_no_sense(config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Settings.from_config(config)
