"""`local-cloud query`: within a running cloud, and on the data that an earlier one has kept."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from running import family_of, linux, running
from waiting import wait_until

from local_cloud import Cloud

LOCAL_CLOUD = Path(sys.executable).with_name("local-cloud")
CREATE = "CREATE SCHEMA IF NOT EXISTS demo"
VALUES = {
    "bigquery": "CREATE TABLE demo.places AS SELECT 'LAX' AS faa, 126 AS alt UNION ALL SELECT NULL, -7",
    "redshift": "CREATE TABLE demo.places AS SELECT 'LAX'::varchar AS faa, 126 AS alt UNION ALL SELECT NULL, -7",
}
TABLE = "faa   alt\n----  ---\nNULL   -7\nLAX   126\n(2 rows)\n"


def ask(*arguments: str | Path, folder: Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    ran = subprocess.run(
        [LOCAL_CLOUD, "query", *arguments],
        cwd=folder,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_rows_of_both_warehouses_of_a_running_cloud(cloud: Cloud, dataset: str, schema: str, tmp_path: Path) -> None:
    for warehouse, name in (("bigquery", dataset), ("redshift", schema)):
        for statement in (CREATE, VALUES[warehouse]):
            option = ["--warehouse", warehouse]
            ran = ask(*option, statement.replace("demo", name), folder=tmp_path, env=cloud.env)
            assert ran == (0, "done\n", ""), ran
        sql = f"SELECT faa, alt FROM {name}.places ORDER BY alt"
        assert ask("--warehouse", warehouse, sql, folder=tmp_path, env=cloud.env) == (0, TABLE, "")
    assert ask(f"SELECT faa, alt FROM {dataset}.places ORDER BY alt", folder=tmp_path, env=cloud.env)[1] == TABLE


def test_redshift_is_asked_where_it_is_the_only_one(cloud: Cloud, tmp_path: Path) -> None:
    env = {name: value for name, value in cloud.env.items() if not name.startswith("TARGET_BIGQUERY")}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TARGET_BIGQUERY")}
    command = [LOCAL_CLOUD, "query", "SELECT 'from Redshift' || LEN('abc') AS found"]
    found = subprocess.run(command, env=clean | env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "from Redshift3" in found.stdout
    refused = subprocess.run(
        [*command, "--warehouse", "bigquery"],
        env=clean | env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "local-cloud: this local cloud has no bigquery: start it with `--service bigquery`\n"


@pytest.mark.parametrize(
    ("warehouse", "sql", "message"),
    [
        ("bigquery", "SELECT * FROM demo.no_such", "BigQuery: Not found: "),
        ("bigquery", "SELEC 1", "BigQuery: Syntax error: "),
        ("redshift", "SELECT * FROM no_such.one", 'Redshift: relation "no_such.one" does not exist\n'),
        ("redshift", "SELEC 1", 'Redshift: syntax error at or near "SELEC"\n'),
    ],
)
def test_an_error_is_one_line(cloud: Cloud, tmp_path: Path, warehouse: str, sql: str, message: str) -> None:
    code, stdout, stderr = ask("--warehouse", warehouse, sql, folder=tmp_path, env=cloud.env)
    assert (code, stdout, stderr.count("\n")) == (1, "", 1)
    assert stderr.startswith(f"local-cloud: {message}")


@pytest.mark.parametrize("warehouse", ["bigquery", "redshift"])
def test_a_cloud_that_has_ended_is_one_line(cloud: Cloud, tmp_path: Path, warehouse: str) -> None:
    ended = {"TARGET_BIGQUERY_API_ENDPOINT": "http://127.0.0.1:9", "TARGET_REDSHIFT_PORT": "9"}
    code, stdout, stderr = ask("--warehouse", warehouse, "SELECT 1", folder=tmp_path, env=cloud.env | ended)
    assert (code, stdout, stderr.count("\n")) == (1, "", 1), stderr


@linux
@pytest.mark.parametrize("warehouse", ["bigquery", "redshift"])
def test_kept_data_is_found_from_a_folder_below(warehouse: str, tmp_path: Path, temporary: Path) -> None:
    below = tmp_path / "docs/deep"
    below.mkdir(parents=True)
    env = {**os.environ, "TMPDIR": str(temporary)}
    create = " && ".join(f'{LOCAL_CLOUD} query --warehouse {warehouse} "{sql}"' for sql in (CREATE, VALUES[warehouse]))
    run = [LOCAL_CLOUD, "run", "--service", warehouse, "--data-dir", ".demo", "--", "sh", "-c", create]
    subprocess.run(run, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=120)

    sql = "SELECT faa, alt FROM demo.places ORDER BY alt"
    for _ in range(2):  # the first one leaves the data as they are
        code, stdout, stderr = ask("--warehouse", warehouse, sql, folder=below, env={"TMPDIR": str(temporary)})
        assert (code, stdout) == (0, TABLE), stderr
        assert stderr == f"local-cloud: starting {warehouse} with the data in {tmp_path}/.demo\n"
    kept = ask("--warehouse", warehouse, "--data-dir", tmp_path / ".demo", sql, folder=Path("/"))
    assert kept[:2] == (0, TABLE)
    (tmp_path / ".demo/notes.txt").write_text("mine")
    fresh = [LOCAL_CLOUD, "run", "--service", warehouse, "--data-dir", ".demo", "--fresh", "--"]
    again = subprocess.run([*fresh, LOCAL_CLOUD, "query", sql], cwd=tmp_path, env=env, check=False, timeout=120)
    assert again.returncode == 1  # the table is gone
    assert (tmp_path / ".demo/notes.txt").exists()
    assert not list(temporary.iterdir())


@linux
def test_a_folder_in_use_is_one_line_and_kill_9_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    env = {**os.environ, "TMPDIR": str(temporary)}
    up = subprocess.Popen(
        [LOCAL_CLOUD, "up", "--service", "redshift", "--data-dir", ".demo"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stderr is not None
        assert "ready" in up.stderr.readline()
        (tmp_path / ".demo/redshift").mkdir(exist_ok=True)  # as root its data get there at the end
        code, _, stderr = ask("--warehouse", "redshift", "SELECT 1", folder=tmp_path, env=env)
        refused = f"local-cloud: another local-cloud is using {tmp_path}/.demo: stop it, or choose another"
        assert (code, stderr.splitlines()[1:]) == (1, [refused])
        family = family_of(up.pid)
    finally:
        up.kill()
        up.communicate()
    wait_until(lambda: not family & set(running()), or_else="processes outlive local-cloud")
    assert ask("--warehouse", "redshift", "SELECT 1 AS one", folder=tmp_path, env=env)[0] == 0
