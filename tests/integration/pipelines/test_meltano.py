"""Meltano in an empty folder installs the connectors from their wheels and runs them, as docs/meltano.md shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tap_source import TapBucket
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs
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
        timeout=900,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    loads = re.findall(r"Loaded airports: ([\d,]+) rows", ran.stdout + ran.stderr)
    assert loads == ["1,458", "1,458", "0", "1,458", "0", "0"], loads
    assert "nothing was loaded, because earlier runs loaded all of its batches" in ran.stdout + ran.stderr
    assert '"last_modified"' in ran.stdout


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


class Project:
    """A project of Meltano that loads three streams of a bucket, one by each load method."""

    def __init__(self, source: TapBucket, cloud: Cloud, warehouse: Warehouse, folder: Path) -> None:
        self.source, self.warehouse, self.folder = source, warehouse, folder
        own = {"MELTANO_PROJECT_ROOT": str(folder), "XDG_STATE_HOME": str(folder / "logs"), "NO_COLOR": "1"}
        self.env = os.environ | cloud.environ() | own
        self.env["PATH"] = f"{Path(sys.executable).parent}:{self.env['PATH']}"
        self.env.pop("TARGET_BIGQUERY_DATASET")

    def write(self, *, batches: bool) -> None:
        methods = {"merged": "upsert", "appended": "append-only", "replaced": "overwrite"}
        streams = [
            {
                "name": name,
                "path": f"s3://{self.source.bucket}/in/*.csv",
                "load_method": method,
                **({"key_properties": ["id"]} if method == "upsert" else {}),
                **({"replication_method": "FULL_TABLE"} if method == "overwrite" else {}),
            }
            for name, method in methods.items()
        ]
        stage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.source.bucket}/stage"}}
        plugins = {
            "extractors": [
                {
                    "name": "tap-s3-files",
                    "namespace": "tap_s3_files",
                    "executable": "tap-s3-files",
                    "capabilities": ["catalog", "discover", "state", "about", "batch"],
                    "config": {"streams": streams, **({"batch_config": stage} if batches else {})},
                }
            ],
            "loaders": [
                {
                    "name": self.warehouse.program,
                    "namespace": self.warehouse.program.replace("-", "_"),
                    "executable": self.warehouse.program,
                    "config": self.warehouse.config,
                }
            ],
        }
        described = {"version": 1, "default_environment": "dev", "environments": [{"name": "dev"}], "plugins": plugins}
        (self.folder / "meltano.yml").write_text(yaml.safe_dump(described))

    def run(self, *options: str) -> str:
        """Run the pipe, and return its log."""
        command = ["meltano", "run", *options, "tap-s3-files", self.warehouse.program]
        ran = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
        return ran.stdout + ran.stderr

    def rows(self, table: str) -> list[tuple[int, str]]:
        return [(row["id"], row["name"]) for row in self.warehouse.table(table)]


@pytest.mark.parametrize("batches", [True, False], ids=["BATCH", "RECORD"])
def test_a_full_refresh_of_unchanged_objects(
    batches: bool, s3: Any, bucket: str, cloud: Cloud, warehouse: Warehouse, tmp_path: Path
) -> None:
    """It brings rows back by upsert and overwrite; of append-only a line names what to do."""
    source = TapBucket(s3, bucket, Programs(cloud.environ(), tmp_path))
    source.put("in/a.csv", "id,name\n1,a\n2,b\n3,c\n")
    project, all_rows = Project(source, cloud, warehouse, tmp_path), [(1, "a"), (2, "b"), (3, "c")]
    project.write(batches=batches)
    assert "comes whole" not in project.run()
    for table in ("merged", "appended", "replaced"):
        assert project.rows(table) == all_rows
        warehouse.query(f"DELETE FROM {{{table}}} WHERE id = 1")
        warehouse.query(f"UPDATE {{{table}}} SET name = 'by hand' WHERE id = 2")
    log = project.run()
    assert "comes whole" not in log
    assert project.rows("merged") == project.rows("appended") == [(2, "by hand"), (3, "c")]
    assert project.rows("replaced") == all_rows

    log = project.run("--full-refresh")
    assert project.rows("merged") == project.rows("replaced") == all_rows
    if batches:
        assert "Stream 'appended': nothing was loaded, because earlier runs loaded all of its batches (1)" in log
        assert project.rows("appended") == [(2, "by hand"), (3, "c")]
    else:
        assert "Stream 'appended' comes whole" in log
        assert sorted(project.rows("appended")) == sorted([(2, "by hand"), (3, "c"), *all_rows])
    assert log.count("comes whole") == (not batches)


def test_select_and_metadata(tmp_path: Path) -> None:
    """Of folders that are streams."""
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.csv").write_text("id,name\n1,a\n")
    streams = [{"name": "{folder}", "path": f"{tmp_path}/{{folder}}/*.csv"}]
    tap = {
        "name": "tap-s3-files",
        "namespace": "tap_s3_files",
        "executable": "tap-s3-files",
        "capabilities": ["catalog", "discover", "state"],
        "config": {"streams": streams, "metadata_columns": False},
        "select": ["x.*", "!x.name", "y.*"],
        "metadata": {"x": {"replication-method": "FULL_TABLE"}},
    }
    described = {"version": 1, "environments": [{"name": "dev"}], "plugins": {"extractors": [tap]}}
    (tmp_path / "meltano.yml").write_text(yaml.safe_dump(described))
    tools = Path(sys.executable).parent
    command = [tools / "meltano", "invoke", "tap-s3-files"]
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "MELTANO_PROJECT_ROOT": str(tmp_path)}
    ran = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    schemas = [m for m in map(json.loads, ran.stdout.splitlines()) if m["type"] == "SCHEMA"]
    assert {m["stream"]: list(m["schema"]["properties"]) for m in schemas} == {"x": ["id"], "y": ["id", "name"]}
    assert "sync of 'x' in full_table mode" in ran.stderr
    assert "sync of 'y' in incremental mode" in ran.stderr
