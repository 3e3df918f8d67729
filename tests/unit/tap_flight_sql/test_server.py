"""The driver is imported without what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from singer_arrow.errors import ServiceError
from tap_flight_sql.server import Server
from tap_flight_sql.settings import ServerSettings
try:
    Server(ServerSettings(uri="grpc://127.0.0.1:1")).schema("SELECT 1")
except ServiceError:
    assert "adbc_driver_manager.dbapi" in sys.modules
    assert "polars" not in sys.modules
    import polars
    assert polars.DataFrame({"a": [1]}).height == 1
else:
    raise AssertionError
"""


@pytest.mark.full
def test_the_driver_does_not_import_polars() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
