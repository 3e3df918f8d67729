"""Paths and options of the command line load a table without a file of settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from local_cloud.programs import Programs


def test_a_path_and_a_dataset_are_enough(run: Programs, bq: object, dataset: str, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,name\n1,a\n2,b\n")
    sent = run("tap-s3-files", f"{tmp_path}/orders.csv", "--batch-root", f"file://{tmp_path}/batches").check()
    assert {m.get("stream") for m in sent.of_type("BATCH")} == {"orders"}
    run("target-bigquery", "--config=ENV", "--dataset", dataset, stdin=sent.stdout).check()
    (row,) = bq.query(f"SELECT COUNT(*) AS n FROM `{dataset}.orders`").result()  # type: ignore[attr-defined]
    assert row["n"] == 2


@pytest.mark.parametrize(
    ("program", "example"),
    [
        ("tap-s3-files", '{"streams": [{"name": "orders", "path": "s3://bucket/orders/**/*.csv"}]}'),
        ("tap-flight-sql", '{"uri": "grpc+tls://host:443"}'),
        ("target-bigquery", '{"project": "my-project"}'),
        ("target-redshift", '{"dbname": "dev"}'),
    ],
)
@pytest.mark.smoke
def test_without_settings_an_error_has_an_example(run: Programs, program: str, example: str) -> None:
    ran = run(program)
    assert ran.code == 1
    assert ran.stderr.endswith(f", for example {example} [config]\n"), ran.stderr


def test_help_names_the_other_commands(run: Programs) -> None:
    shown = run("tap-s3-files", "--help").check().stdout
    assert "tap-s3-files init URL...  " in shown
    assert "tap-s3-files setup-queue PATH...  " in shown


@pytest.mark.smoke
def test_options_replace_settings_also_when_discovery_comes_first(run: Programs, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id\n1\n")
    found = run("tap-s3-files", "--discover", f"{tmp_path}/orders.csv").check()
    assert [s["tap_stream_id"] for s in json.loads(found.stdout)["streams"]] == ["orders"]


@pytest.mark.smoke
def test_what_init_writes_runs_as_it_is(
    run: Programs, bq: object, dataset: str, s3: Any, bucket: str, tmp_path: Path
) -> None:
    for day in (1, 2):
        s3.put_object(Bucket=bucket, Key=f"orders/day=2024-01-0{day}/a.csv", Body=f"order_id,name\n{day},a\n".encode())
    s3.put_object(Bucket=bucket, Key="customers/c.jsonl", Body=b'{"id": 1}\n{"id": 2}\n')
    file = tmp_path / "tap.yml"
    written = run("tap-s3-files", "init", f"s3://{bucket}", "--output", file, "--batch-root", "s3://stage/init").check()
    assert written.stdout == f"{file}: 2 streams: customers, orders\n"
    shown = run("tap-s3-files", "--config", file, "--preview").check()
    assert "order_id  name    day" in shown.stdout
    sent = run("tap-s3-files", "--config", file).check()
    schemas = {m["stream"]: m["key_properties"] for m in sent.of_type("SCHEMA")}
    assert schemas == {"customers": ["id"], "orders": ["order_id"]}
    run("target-bigquery", "--config=ENV", "--dataset", dataset, stdin=sent.stdout).check()
    (row,) = bq.query(  # type: ignore[attr-defined]
        f"SELECT COUNT(*) AS n, COUNT(DISTINCT day) AS days FROM `{dataset}.orders`"
    ).result()
    assert (row["n"], row["days"]) == (2, 2)
    again = run("tap-s3-files", "init", f"s3://{bucket}", "--output", file)
    assert again.code == 1
    assert f"{file} exists already" in again.stderr


@pytest.mark.smoke
def test_the_meltano_yml_of_init_runs_as_it_is(
    run: Programs, bq: object, dataset: str, s3: Any, bucket: str, tmp_path: Path
) -> None:
    s3.put_object(Bucket=bucket, Key="orders/a.csv", Body=b"order_id,name\n1,a\n2,b\n")
    file = tmp_path / "meltano.yml"
    run("tap-s3-files", "init", f"s3://{bucket}", "--meltano", "--output", file).check()
    meltano = ["meltano", "--cwd", tmp_path, "run", "tap-s3-files", "target-bigquery"]
    run(*meltano, env={"TARGET_BIGQUERY_DATASET": dataset, "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false"}).check()
    (row,) = bq.query(f"SELECT COUNT(*) AS n FROM `{dataset}.orders`").result()  # type: ignore[attr-defined]
    assert row["n"] == 2


@pytest.mark.smoke
def test_the_pipeline_of_init_runs_as_it_is(
    run: Programs, bq: object, dataset: str, s3: Any, bucket: str, tmp_path: Path
) -> None:
    s3.put_object(Bucket=bucket, Key="orders/a.csv", Body=b"order_id,name\n1,a\n2,b\n")
    file = tmp_path / "pipeline.yml"
    root = f"s3://{bucket}/batches"
    run("tap-s3-files", "init", f"s3://{bucket}", "--pipeline", "--batch-root", root, "--output", file).check()
    run("singer-arrow", "run", file, env={"TARGET_BIGQUERY_DATASET": dataset}).check()
    (row,) = bq.query(f"SELECT COUNT(*) AS n FROM `{dataset}.orders`").result()  # type: ignore[attr-defined]
    assert row["n"] == 2
    assert "orders: 0 rows" in run("singer-arrow", "run", file, env={"TARGET_BIGQUERY_DATASET": dataset}).check().stderr


def test_a_plan_shows_what_targets_need_and_columns_of_a_catalog(run: Programs, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id,name\n1,a\n")
    found = run("tap-s3-files", f"{tmp_path}/orders.csv", "--discover").check()
    shown = run(
        "tap-s3-files",
        f"{tmp_path}/orders.csv",
        "--plan",
        "--target",
        "bigquery",
        "--target",
        "redshift",
        catalog=json.loads(found.stdout),
    ).check()
    assert re.search(r"^orders +1 +12 +1 +0 +csv +7 +20\d\d-", shown.stdout, re.MULTILINE)
    assert re.search(r"^orders: id integer, name string, _sdc_", shown.stdout, re.MULTILINE)
    assert re.search(r"^orders +1 +12 +0\.1%$", shown.stdout, re.MULTILINE)
    assert re.search(r"target-redshift:\ntable +COPYs.*\norders +1 +12$", shown.stdout, re.MULTILINE)


def test_a_test_of_the_connection_ends_without_an_error(run: Programs, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text("id\n1\n2\n3\n")
    for option in ("--test", "--test=all", "--test=schema"):
        tested = run("tap-s3-files", f"{tmp_path}/orders.csv", option).check()
        assert "ERROR" not in tested.stderr
        assert len(tested.of_type("SCHEMA")) == 1
    (tmp_path / "orders.csv").write_text("id,name\n1\n")
    failed = run("tap-s3-files", f"{tmp_path}/orders.csv", "--test=all")
    assert failed.code == 1
    assert failed.stderr.endswith(" [bad-row]\n")
