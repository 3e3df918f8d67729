"""Meltano in an empty folder installs the connectors from their wheels and runs them, as docs/meltano.md shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from singer_arrow.sdk.settings import config_input
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.warehouse.settings import LoadSettings
from target_bigquery.settings import Settings as BigQuerySettings
from target_bigquery.target import TargetBigQuery
from target_redshift.settings import Settings as RedshiftSettings
from target_redshift.target import TargetRedshift

ROOT = Path(__file__).parents[3]
PACKAGES = ("singer-arrow", "tap-s3-files", "target-bigquery", "target-redshift")
COMMANDS = re.compile(r"^<!-- tested -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.soak
def test_the_commands_of_the_page_run_as_they_are(tmp_path: Path) -> None:
    uv = shutil.which("uv") or ROOT / ".uv/bin/uv"
    for package in PACKAGES:
        subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", ROOT / package], check=True)
    script = tmp_path / "commands.sh"
    script.write_text("set -ex\n" + "".join(COMMANDS.findall((ROOT / "docs/meltano.md").read_text())))
    tools = Path(sys.executable).parent
    variables = {
        "PATH": f"{tools}:{Path(uv).parent}:{os.environ['PATH']}",
        "PLUGINS": str(ROOT / "plugins"),
        "UV_FIND_LINKS": str(tmp_path / "dist"),
        "PIP_FIND_LINKS": str(tmp_path / "dist"),
    }
    ran = subprocess.run(
        [tools / "local-cloud", "run", "--service", "s3,bigquery,redshift", "--seed", "--", "bash", script],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    loads = re.findall(r"Loaded airports: ([\d,]+) rows", ran.stdout + ran.stderr)
    assert loads == ["1,458", "0", "1,458", "0"], loads
    assert '"watermark"' in ran.stdout


def test_settings_of_streams_are_those_that_meltano_writes(tmp_path: Path) -> None:
    """By its commands, which write text within objects, and by hand in meltano.yml."""
    tools = Path(sys.executable).parent

    def meltano(*arguments: str) -> str:
        command = [tools / "meltano", "--log-level=error", *arguments]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def settings_of(target: type[WarehouseTarget]) -> LoadSettings:
        path = tmp_path / f"{target.name}.json"
        path.write_text(meltano("config", "print", target.name))
        return target(config=config_input(target, [str(path)]).config).run.settings

    meltano("init", ".", "--no-usage-stats")
    given = {
        TargetBigQuery: {
            "project": "p",
            "dataset": "d",
            "streams.orders.load_method": "upsert",
            "streams.orders.hard_delete": "true",
            "streams.orders.max_bad_rows": "5",
            "streams.orders.cluster_by": '["a", "b"]',
            "streams.log_*.key_properties": "[]",
            "partition_by": '{"orders": "at:month"}',
            "cluster_by": '{"events_*": ["c"]}',
            "keys_stay_in_partition": '{"orders": true}',
        },
        TargetRedshift: {
            "dist_key": '{"orders": "id"}',
            "sort_keys": '["a", "b"]',
            "streams": '{"orders": {"long_text": "rescue", "sort_keys": ["c"]}}',
        },
    }
    for target, settings in given.items():
        definition = str(ROOT / "plugins" / "loaders" / f"{target.name}.yml")
        meltano("add", "--no-install", "--plugin-type", "loader", "--from-ref", definition, target.name)
        for name, value in settings.items():
            meltano("config", "set", target.name, name, value)
    file = tmp_path / "meltano.yml"
    described = yaml.safe_load(file.read_text())
    by_hand = {"dbname": "dev", "user": "u", "password": "p", "host": "h", "s3_stage": "s3://b/p"}
    described["plugins"]["loaders"][1]["config"] |= by_hand | {"default_target_schema": "raw", "dist_key": {"a": "b"}}
    file.write_text(yaml.safe_dump(described))

    bigquery = settings_of(TargetBigQuery)
    assert isinstance(bigquery, BigQuerySettings)
    orders, events = bigquery.of_stream("orders"), bigquery.of_stream("events_1")
    assert (orders.load_method, orders.hard_delete, orders.max_bad_rows) == ("upsert", True, 5)
    assert (orders.partitioning("orders"), orders.clustering("orders")) == (("at", "MONTH"), ["a", "b"])
    assert (orders.keys_stay("orders"), events.keys_stay("events_1"), events.clustering("events_1")) == (
        True,
        False,
        ["c"],
    )
    assert bigquery.of_stream("log_a").key_properties == ()
    redshift = settings_of(TargetRedshift)
    assert isinstance(redshift, RedshiftSettings)
    assert (redshift.distribution("a"), redshift.sorting("a")) == ("b", ["a", "b"])
    own = redshift.of_stream("orders")
    assert (own.long_text, own.sorting("orders")) == ("rescue", ["c"])
