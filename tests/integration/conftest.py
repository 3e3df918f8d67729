"""Fixtures of the integration tests."""

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_settings
import pytest
from forked_programs import ForkedPrograms
from google.cloud import bigquery
from redshift_lines import Loads, Open, RedshiftBatches
from warehouses import without_ranks

from local_cloud import Cloud
from local_cloud.programs import Programs
from singer_arrow.runtime.threads import Waiting
from target_redshift import tables
from target_redshift.client import Redshift
from target_redshift.settings import Settings


@pytest.fixture
def tap(cloud: Cloud, tmp_path: Path) -> Programs:
    """Runs the tap in the local cloud."""
    return ForkedPrograms(cloud.environ(), tmp_path)


@pytest.fixture
def config(cloud: Cloud, dataset: str) -> dict[str, Any]:
    """Return settings of target-bigquery for the local BigQuery; `redshift.config` is for target-redshift."""
    return local_settings.of_bigquery(cloud, dataset=dataset)


@pytest.fixture
def table(bq: Any, dataset: str) -> Callable[..., list[dict[str, Any]]]:
    """Reads a BigQuery table without ranks, by default `rows`, ordered by a column, by default `id`."""

    def read(name: str = "rows", order: str = "id") -> list[dict[str, Any]]:
        found = bq.query(f"SELECT * FROM `{dataset}.{name}` ORDER BY {order}").result()
        return without_ranks(dict(r) for r in found)

    return read


@pytest.fixture
def ids(bq: Any, dataset: str) -> Callable[[], list[int]]:
    """Returns the ids in the BigQuery table `rows`, sorted."""
    return lambda: [r["id"] for r in bq.query(f"SELECT id FROM `{dataset}.rows` ORDER BY id").result()]


@pytest.fixture
def here(bq: Any, dataset: str) -> str:
    """Create the BigQuery dataset of this test."""
    bq.create_dataset(dataset)
    return dataset


@pytest.fixture
def load_bytes(bq: Any, here: str) -> Callable[..., Any]:
    """Loads bytes into a BigQuery table with the public client, and returns the finished job."""

    def run(table: str, source_format: str, data: bytes, *, job: dict[str, Any] | None = None, **config: Any) -> Any:
        settings = bigquery.LoadJobConfig(source_format=source_format, **config)
        started = bq.load_table_from_file(
            io.BytesIO(data), f"{here}.{table}", job_config=settings, size=len(data), **(job or {})
        )
        return started.result()

    return run


@pytest.fixture
def tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test when a target in this process retries a call."""
    monkeypatch.setattr(Waiting, "before_again", lambda _, __, why: pytest.fail(f"tried again: {why}"))


@pytest.fixture
def redshift(
    cloud: Cloud, rs: Any, schema: str, s3: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Loads:
    """target-redshift in this process: `redshift.run(messages)`, and access to its tables."""
    for name, value in cloud.env.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return Loads(cloud, rs, schema, RedshiftBatches(s3, bucket, tmp_path))


@pytest.fixture
def open_client(cloud: Cloud, schema: str) -> Iterator[Open]:
    """Opens clients of target-redshift with given settings; faults that a test sets end with the fixture."""
    clients: list[Redshift] = []

    def begin(**settings: Any) -> Redshift:
        config = local_settings.of_redshift(cloud, default_target_schema=schema, s3_stage="s3://stage/redshift")
        clients.append(Redshift(Settings.from_config(config | settings)))
        return clients[-1]

    yield begin
    cloud.redshift_faults()
    for client in clients:
        client.close()


@pytest.fixture
def client(open_client: Open) -> Redshift:
    """Return a client of target-redshift whose schema and ledger exist."""
    client = open_client()
    tables.prepare_schema(client)
    return client
