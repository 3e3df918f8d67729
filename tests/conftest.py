"""Fixtures for all tests. Services are started on first use, once for each process that runs tests."""

import faulthandler
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms
from hypothesis import HealthCheck, Phase, settings
from local_settings import LOCAL_BATCHES
from redshift_client import Client, Lost, Open, opener
from singer_lines import Batches
from tiers import Cost, add_tiers
from warehouses import WAREHOUSES, Warehouse

from local_cloud import Cloud
from local_cloud.faults.client import FaultProxy
from local_cloud.flightsql.client import FlightSql
from local_cloud.programs import Programs
from local_cloud.s3 import setup

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise each process that a test starts compiles its imports

# A busy machine is slow, and the first example imports half of Arrow.
patient: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "phases": [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
}
settings.register_profile("quick", max_examples=10, **patient)
settings.register_profile("default", max_examples=50, **patient)
settings.register_profile("deep", max_examples=1000, **patient)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

_temporary = pytest.StashKey[str]()
_cost = pytest.StashKey[Cost]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its tier, before tests are chosen by marks."""
    add_tiers(items, Path(__file__).parent, has_all_cases=not any("[" in given for given in config.args))


def pytest_configure(config: pytest.Config) -> None:
    """Set one folder for the temporary files of all tests and their processes, including killed ones."""
    if hasattr(config, "workerinput"):
        return  # the first process has created it and removes it
    config.stash[_cost] = Cost()
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # keeps those of failed tests
    config.stash[_temporary] = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="tests-")
    Path(os.environ["TMPDIR"]).chmod(0o755)  # PostgreSQL runs as another user if the tests run as root
    os.environ["XDG_STATE_HOME"] = os.environ["TMPDIR"] + "/state"  # Meltano's logs, instead of ~/.local/state
    tempfile.tempdir = None


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the temporary folder."""
    if folder := config.stash.get(_temporary, ""):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test that has more time than others use it."""
    mark = item.get_closest_marker("timeout")
    if mark is not None and mark.args[0] > float(item.config.getini("timeout")):
        faulthandler.cancel_dump_traceback_later()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what the run cost."""
    terminalreporter.write_line(config.stash[_cost].line())


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Return an empty folder for temporary files, separate from `tmp_path`."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def cloud() -> Iterator[Cloud]:
    """Start S3, SQS, BigQuery and Redshift on loopback, until the last test of this process."""
    with Cloud() as started:
        yield started


@pytest.fixture(scope="session")
def flight_cloud() -> Iterator[Cloud]:
    """Start Flight SQL on loopback, until the last test of this process; tests use `flight`."""
    with Cloud(["flightsql"]) as started:
        yield started


@pytest.fixture
def flight(flight_cloud: Cloud) -> Iterator[FlightSql]:
    """Return the local Flight SQL server, without tables."""
    server = flight_cloud.flightsql
    server.statements()
    yield server
    server.fail()
    for name in server.execute("SELECT table_name FROM information_schema.tables").column(0).to_pylist():
        server.execute(f'DROP TABLE "{name}"')


@pytest.fixture(scope="session")
def s3(cloud: Cloud) -> Any:
    """Return a boto3 client of S3."""
    return setup.client("s3", cloud.s3_url)


@pytest.fixture(scope="session")
def sqs(cloud: Cloud) -> Any:
    """Return a boto3 client of SQS."""
    return setup.client("sqs", cloud.s3_url)


@pytest.fixture
def bucket(s3: Any) -> Iterator[str]:
    """Create an empty bucket for this test, and return its name."""
    name = f"source-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        if keys := [{"Key": found["Key"]} for found in page.get("Contents", [])]:
            s3.delete_objects(Bucket=name, Delete={"Objects": keys})
    s3.delete_bucket(Bucket=name)


@pytest.fixture
def gcs_bucket(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Create an empty bucket in Google Cloud Storage for this test, and return its folder, also for this process."""
    folder = cloud.gcs_folder / f"bucket-{uuid.uuid4().hex[:12]}"
    folder.mkdir()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.gcs_url)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def bq(cloud: Cloud) -> Iterator[Any]:
    """Return a google-cloud-bigquery client."""
    client = cloud.bigquery_client()
    yield client
    client.close()


@pytest.fixture
def dataset(bq: Any) -> Iterator[str]:
    """Return the name of a dataset for this test, which does not exist yet."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    bq.delete_dataset(name, delete_contents=True, not_found_ok=True)


@pytest.fixture
def rs(cloud: Cloud) -> Iterator[Any]:
    """Return a psycopg connection to Redshift, in autocommit mode."""
    with cloud.redshift_connection() as connection:
        yield connection


@pytest.fixture
def schema(cloud: Cloud) -> Iterator[str]:
    """Return the name of a Redshift schema for this test, which does not exist yet."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    with cloud.redshift_connection() as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def cold(cloud: Cloud, dataset: str, schema: str, tmp_path: Path) -> Programs:
    """Runs the executables themselves in the environment of the local cloud, with this test's dataset and schema."""
    own = {"TARGET_BIGQUERY_DATASET": dataset, "TARGET_REDSHIFT_DEFAULT_TARGET_SCHEMA": schema}
    local = json.dumps(LOCAL_BATCHES)
    own |= {"TARGET_BIGQUERY_BATCH_CONFIG": local, "TARGET_REDSHIFT_BATCH_CONFIG": local}
    return Programs(cloud.environ() | own, tmp_path)


@pytest.fixture
def run(cold: Programs, tmp_path: Path) -> Programs:
    """Runs our executables as `cold` does, in processes that are forked instead of started; see `ForkedPrograms`."""
    return ForkedPrograms(cold.env, tmp_path)


@pytest.fixture(params=WAREHOUSES)
def warehouse(request: pytest.FixtureRequest, cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Return each warehouse in turn, with a schema for this test; `run` uses the same one."""
    for name, value in cloud.environ().items():
        if name.startswith("AWS_") or name == "STORAGE_EMULATOR_HOST":
            monkeypatch.setenv(name, value)
    fixtures = {"bigquery": ("bq", "dataset"), "redshift": ("rs", "schema")}[request.param]
    client, schema = map(request.getfixturevalue, fixtures)
    return WAREHOUSES[request.param](cloud, client, schema)


@pytest.fixture
def batch(tmp_path: Path) -> Batches:
    """Writes batch files, and returns their messages."""
    return Batches(tmp_path)


@pytest.fixture(scope="session")
def s3_proxy(cloud: Cloud) -> FaultProxy:
    """A fault proxy in front of S3, shared by the tests of this process; tests use `s3_faults`."""
    return cloud.fault_proxy(cloud.s3_url)


@pytest.fixture
def s3_faults(s3_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """A fault proxy for S3: `s3_faults.set({...})`, with `env={"AWS_ENDPOINT_URL": s3_faults.url}` for programs."""
    s3_proxy.clear()
    yield s3_proxy
    s3_proxy.clear()


@pytest.fixture(scope="session")
def bq_proxy(cloud: Cloud) -> FaultProxy:
    """A fault proxy in front of BigQuery, shared by the tests of this process; tests use `bq_faults`."""
    return cloud.fault_proxy(cloud.bigquery_url)


@pytest.fixture
def bq_faults(bq_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """A fault proxy in front of BigQuery, for `env={"TARGET_BIGQUERY_API_ENDPOINT": bq_faults.url}`."""
    bq_proxy.clear()
    yield bq_proxy
    bq_proxy.clear()


@pytest.fixture
def fail_jobs(cloud: Cloud) -> Iterator[Callable[..., object]]:
    """Makes BigQuery jobs slow or fail; see `Cloud.fail_jobs`."""
    yield cloud.fail_jobs
    cloud.fail_jobs()


@pytest.fixture
def fail_writes(cloud: Cloud) -> Iterator[Callable[..., object]]:
    """Makes calls of BigQuery's Storage Write API slow or fail; see `Cloud.fail_writes`."""
    yield cloud.fail_writes
    cloud.fail_writes()


@pytest.fixture
def redshift_faults(cloud: Cloud) -> Iterator[Callable[..., None]]:
    """Makes Redshift statements fail, wait or lose their connection; see `Cloud.redshift_faults`."""
    yield cloud.redshift_faults
    cloud.redshift_faults()


@pytest.fixture(params=["psycopg", "redshift_connector"])
def connect(request: pytest.FixtureRequest, cloud: Cloud) -> Iterator[Open]:
    """Opens connections to Redshift in autocommit mode, once for each driver."""
    opened: list[Client] = []
    begin = opener(cloud, request.param)

    def tracked(**options: Any) -> Client:
        opened.append(begin(**options))
        return opened[-1]

    yield tracked
    for client in opened:
        try:
            client.close()
        except Lost:
            continue  # a test has closed it


@pytest.fixture
def sql(connect: Open, schema: str) -> Client:
    """Return a connection of `connect` whose first schema is this test's, which is created."""
    client = connect()
    client(f"create schema {schema}")
    client(f"set search_path to {schema}")
    return client
