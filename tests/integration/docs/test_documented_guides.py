"""Commands of the guides run, with the buckets that they name and the settings beside them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import local_settings
import pytest
from documented import ROOT, block, run_script
from file_bytes import parquet_of
from lake_tables import DeltaBucket

from local_cloud import Cloud
from local_cloud.programs import Programs

STARTED = (ROOT / "docs/getting-started.md").read_text()
MONITORING = (ROOT / "docs/monitoring.md").read_text()
FOLDERS = (ROOT / "docs/many-folders.md").read_text()
LAKE = (ROOT / "docs/lake-tables.md").read_text()
QUEUES = (ROOT / "docs/sqs.md").read_text().replace("s3://source/", "s3://shop/")
TAP = (ROOT / "tap-s3-files/README.md").read_text()
ORDERS = gzip.compress(b"order_id,name\n1,a\n2,b\n")


@pytest.mark.parametrize("warehouse", ["bigquery", "redshift"])
def test_ones_own_bucket_and_warehouse(
    warehouse: str, shop: Any, cloud: Cloud, run: Programs, schema: str, tmp_path: Path
) -> None:
    section = {"bigquery": "## 2. Your bucket", "redshift": "## 3. Your bucket"}[warehouse]
    documented = json.loads(block(STARTED, "json", after=section))
    local = {"bigquery": local_settings.of_bigquery, "redshift": local_settings.of_redshift}[warehouse](cloud)
    own = {"default_target_schema": schema} if warehouse == "redshift" else {}
    name = {"bigquery": "t.json", "redshift": "r.json"}[warehouse]
    (tmp_path / name).write_text(json.dumps(documented | local | own))
    shop.put_object(Bucket="shop", Key="orders/2026/a.csv.gz", Body=ORDERS)
    streams = [{"name": "orders", "path": "s3://shop/orders/**/*.csv.gz"}]
    storage = {"encoding": {"format": "parquet"}, "storage": {"root": "s3://my-batches/orders"}}
    (tmp_path / "tap.yml").write_text(json.dumps({"streams": streams, "batch_config": storage}))
    script = block(STARTED, "sh", after=section)
    assert "Loaded orders: 2 rows" in run_script(f"exec 2>&1\n{script}", run, tmp_path)
    assert "Loaded orders: 0 rows" in run_script(f"exec 2>&1\n{script}", run, tmp_path)


def test_commands_of_the_tap(shop: Any, run: Programs, config: dict[str, Any], tmp_path: Path) -> None:
    shop.put_object(Bucket="shop", Key="orders/a.csv.gz", Body=ORDERS)
    shop.put_object(Bucket="shop", Key="orders/b.csv", Body=gzip.decompress(ORDERS))
    for year in (2024, 2025):
        shop.put_object(Bucket="shop", Key=f"clicks/{year}/a.parquet", Body=parquet_of(id=[year]))
    (tmp_path / "config.json").write_text(block(TAP, "json"))
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "target.json").write_text(json.dumps(config))
    shown = run_script(f"exec 2>&1\n{block(TAP, 'sh')}", run, tmp_path)
    for text in (
        "tap-s3-files.yml: ",
        "orders: 1 object, 2 rows shown",
        "Loaded orders: 2 rows",
        "Loaded clicks: 2 rows",
    ):
        assert text in shown


def test_many_folders(shop: Any, run: Programs, config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "tap.yml").write_text(block(FOLDERS, "yaml"))
    script = f"exec 2>&1\n{block(FOLDERS, 'sh')}"
    for tenant, kind in (("acme", "orders"), ("acme", "users"), ("globex", "orders"), ("globex", "users")):
        shop.put_object(Bucket="shop", Key=f"{tenant}/{kind}/2026/a.csv", Body=b"id,name\n1,a\n")
    shown = run_script(script, run, tmp_path)
    for text in (
        "4 folders, of which the first 3 are shown",
        "globex_orders: 1 object, 1 row",
        "Loaded globex_users: 1 row",
    ):
        assert text in shown
    shop.put_object(Bucket="shop", Key="initech/orders/a.csv", Body=b"id,name\n1,a\n")
    shown = run_script(script, run, tmp_path)
    assert "Loaded initech_orders: 1 row" in shown
    assert "Loaded acme_orders: 0 rows" in shown


def test_a_table_of_delta_lake(shop: Any, cloud: Cloud, run: Programs, tmp_path: Path) -> None:
    table = DeltaBucket(cloud, "shop", "lake/orders")
    (tmp_path / "tap.yml").write_text(block(LAKE, "yaml"))
    table.add(range(3))
    shown = run_script(f"exec 2>&1\n{block(LAKE, 'sh')}", run, tmp_path)
    for text in ("orders: 1 object, 3 rows shown", "Loaded orders: 3 rows", "Loaded orders: 0 rows"):
        assert text in shown


def test_reports_of_many_runs(s3: Any, bucket: str, run: Programs, tmp_path: Path) -> None:
    settings = json.loads(block(MONITORING, "json", after="## Reports").replace("s3://bucket", f"s3://{bucket}"))
    (tmp_path / "a.csv").write_text("id\n1\n")
    streams = [{"name": "rows", "path": str(tmp_path / "a.csv")}]
    run("tap-s3-files", config=settings | {"streams": streams}).check()
    shown = run_script(block(MONITORING, "sh", after="### Many runs").replace("bucket", bucket), run, tmp_path)
    assert shown == f"s3://{bucket}/reports/index.html\n"
    page = s3.get_object(Bucket=bucket, Key="reports/index.html")["Body"].read().decode()
    assert "1 run," in page


def test_a_queue_for_events(shop: Any, run: Programs, tmp_path: Path) -> None:
    shown = run_script(block(QUEUES, "sh"), run, tmp_path)
    assert '"queue_url"' in shown
    made = shop.get_bucket_notification_configuration(Bucket="shop")["QueueConfigurations"]
    assert made[0]["QueueArn"].endswith(":shop-events")
