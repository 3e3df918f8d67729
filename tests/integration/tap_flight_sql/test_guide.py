"""Each configuration that the guide shows is accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms

from local_cloud.certificates import write_certificates

ROOT = Path(__file__).parents[3]
CONFIG = re.compile(r"^### (.+?)$.*?^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {"ca_file": "ca.pem", "cert_file": "client.pem", "key_file": "client.key"}
SHOWN = dict(CONFIG.findall((ROOT / "docs/flight-sql.md").read_text()))


def test_all_servers_are_shown() -> None:
    assert list(SHOWN) == ["Apache Doris", "StarRocks", "Dremio", "InfluxDB 3", "GizmoSQL", "ROAPI"]


@pytest.mark.parametrize("server", SHOWN)
def test_the_configuration_is_accepted(server: str, tmp_path: Path) -> None:
    """The only thing that is wrong is the address, where no server answers."""
    config: dict[str, Any] = json.loads(SHOWN[server])
    tls = config.get("tls")
    write_certificates(tmp_path)
    for name in tls or ():
        tls[name] = str(tmp_path / FILES[name])
    config["uri"] = re.sub(r"//.*", "//127.0.0.1:1", config["uri"])
    tap = Tap(ForkedPrograms({}, tmp_path), tmp_path / "batches")
    ran = tap.run("tap-flight-sql", config=[config], discover=True)
    assert ran.code == 1
    assert "connection refused" in ran.stderr.splitlines()[-1]
