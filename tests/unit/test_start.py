"""Imports at the start of a connector: no library that only some runs need."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

RARE = [
    "asyncio",
    "botocore",
    "dotenv",
    "fastavro",
    "fastexcel",
    "fsspec",
    "google.auth",
    "google.cloud.bigquery",
    "jinja2",
    "joblib",
    "obstore",
    "packaging.specifiers",
    "polars",
    "redshift_connector",
    "requests",
    "tarfile",
    "urllib3",
]
CODE = """
import sys
from importlib import import_module
from singer_arrow.sdk.cli import import_sdk
import_sdk()
import_module(sys.argv[1])
found = [name for name in sys.argv[2:] if name in sys.modules]
sys.exit(f"imported already: {', '.join(found)}" if found else 0)
"""


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("tap_s3_files.tap", ["pyarrow.compute", "pyarrow.parquet", "singer_arrow.formats.csv_read"]),
        ("target_bigquery.target", ["pyarrow.parquet"]),
        ("target_redshift.target", []),
    ],
)
def test_what_is_seldom_needed_is_not_imported_at_the_start(module: str, more: list[str]) -> None:
    argv = [sys.executable, "-c", CODE, module, *RARE, *more]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr


DRIVER = """
import sys
from singer_arrow.sdk.cli import import_sdk
import_sdk()
from target_redshift.connection import _driver
driver = _driver()
assert callable(driver.connect)
assert not [name for name in ("boto3", "botocore", "urllib3") if name in sys.modules]
plugin = driver.plugin.IdpTokenAuthPlugin()
from redshift_connector.plugin.idp_token_auth_plugin import IdpTokenAuthPlugin
assert type(plugin) is IdpTokenAuthPlugin
"""


def test_redshifts_driver_is_imported_without_boto3_and_its_plugins_work() -> None:
    ran = subprocess.run([sys.executable, "-c", DRIVER], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr


ZIP = """
import sys
from singer_arrow.formats import FORMATS
assert FORMATS["csv"] and "tarfile" not in sys.modules
"""


def test_a_format_is_imported_without_tar() -> None:
    ran = subprocess.run([sys.executable, "-c", ZIP], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr


SIGNALLED = """
import os, sys
from importlib import import_module

class Finder:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            os.kill(os.getpid(), int(sys.argv[3]))

sys.meta_path.insert(0, Finder())
import_module(f"{sys.argv[1]}.__main__").main()
"""


@pytest.mark.parametrize("package", ["tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift"])
@pytest.mark.parametrize("module", ["logging", "singer_sdk.plugin_base"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_connector_is_imported_is_one_line(package: str, module: str, number: signal.Signals) -> None:
    argv = [sys.executable, "-c", SIGNALLED, package, module, str(int(number))]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    line = f"{package.replace('_', '-')}: Interrupted ({number.name})\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (128 + number, "", line)
