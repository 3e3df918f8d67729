"""The local cloud: starts the services, builds the environment of their clients, and ends everything again."""

import json
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from local_cloud import environment
from local_cloud.bigquery import installation
from local_cloud.dask.cluster import DaskCluster
from local_cloud.errors import LocalCloudError
from local_cloud.faults.client import FaultProxy, RuleDict, open_directly
from local_cloud.faults.proxy import CONTROL
from local_cloud.flightsql.client import FlightSql
from local_cloud.lifeline import remove_tree
from local_cloud.process import Service
from local_cloud.s3 import setup

SERVICES = ("s3", "bigquery", "redshift")  # started by default
MORE_SERVICES = ("flightsql", "dask")  # started only if they are named
JOB_FAULTS = "/local-cloud/job-faults"
WRITE_FAULTS = "/local-cloud/write-faults"


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Hold the folder of kept data, so that no other local-cloud starts on it. The kernel releases it if this ends."""
    import fcntl  # not on Windows

    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        file = (data_dir / "lock").open("w")
    except OSError as error:
        raise LocalCloudError(f"cannot write to the data directory {data_dir}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LocalCloudError(f"another local-cloud is using {data_dir}: stop it, or choose another") from None
        yield


class Cloud:
    """S3, SQS, BigQuery, Cloud Storage, Redshift, Flight SQL and Dask on 127.0.0.1, for the time of a `with` block.

    Raises `LocalCloudError` if a service is unknown, cannot be installed or does not start.
    """

    def __init__(
        self,
        services: Collection[str] = SERVICES,  # also of `MORE_SERVICES`; redshift includes s3, from which it copies
        *,
        data_dir: Path | None = None,  # keeps the data between runs; by default they are temporary
        is_fresh: bool = False,  # begin without the data that earlier runs have kept there
        redshift_copies: bool = True,  # False: redshift starts without s3, sooner, and only for queries
        latency_ms: float = 0.0,  # delay of each answer of S3, by a fault proxy
        faults: Sequence[RuleDict] = (),  # rules of that fault proxy, see `local_cloud.faults.rules.Rule`
        redshift_slices: int = 2,
        redshift_tls: bool = False,  # with a certificate for localhost of an authority of its own
        flightsql_endpoints: int = 4,  # a process each
        flightsql_tls: str = "off",  # or `server`, or `mutual`: clients need a certificate too
        dask_workers: int = 2,  # a process each
    ) -> None:
        if unknown := set(services) - {*SERVICES, *MORE_SERVICES}:
            known = ", ".join((*SERVICES, *MORE_SERVICES))
            raise LocalCloudError(f"unknown service {', '.join(sorted(unknown))}; there are {known}")
        self._services = frozenset(services) | ({"s3"} if "redshift" in services and redshift_copies else set())
        self._redshift_slices = redshift_slices
        self._redshift_tls = redshift_tls
        self._flightsql_endpoints, self._flightsql_tls = flightsql_endpoints, flightsql_tls
        self._dask_workers = dask_workers
        self._data_dir, self._is_fresh = data_dir, is_fresh
        self._rules: list[RuleDict] = [*faults, *([{"delay_ms": latency_ms}] if latency_ms else [])]
        self._run_dir: Path | None = None
        self._proxies = 0
        self._stack = ExitStack()
        self.services: dict[str, Service] = {}  # the child processes by name
        self.env: dict[str, str] = {}  # variables of clients, see the README
        self.faults: FaultProxy | None = None  # in front of S3, if `latency_ms` or `faults` asks for one
        self.dask: DaskCluster | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def environ(self, **variables: str) -> dict[str, str]:
        """Return this process's environment with the cloud's variables and the given ones, without misleading ones."""
        return environment.merged(os.environ, self.env | variables)

    def fault_proxy(self, upstream: str) -> FaultProxy:
        """Start a fault proxy in front of a service, given by its address. It ends with the cloud at the latest.

        Clients use it by `environ(AWS_ENDPOINT_URL=proxy.url)` or `environ(TARGET_BIGQUERY_API_ENDPOINT=proxy.url)`.
        """
        assert self._run_dir is not None, "the cloud is not running"
        self._proxies += 1
        proxy = FaultProxy(upstream, log=self._run_dir / f"faults-{self._proxies}.log")
        self._stack.callback(proxy.stop)
        return proxy

    @property
    def s3_url(self) -> str:
        """The endpoint of S3 and SQS."""
        return str(self.services["s3"].facts["url"])

    @property
    def bigquery_url(self) -> str:
        """The endpoint of BigQuery's REST API."""
        return str(self.services["bigquery"].facts["url"])

    @property
    def bigquery_grpc(self) -> str:
        """host:port of BigQuery's Storage API (gRPC, not encrypted)."""
        return str(self.services["bigquery"].facts["grpc"])

    @property
    def gcs_url(self) -> str:
        """The endpoint of Google Cloud Storage, which comes with BigQuery."""
        return str(self.services["bigquery"].facts["gcs"])

    @property
    def gcs_folder(self) -> Path:
        """The folder of Google Cloud Storage: a subfolder for each bucket, with the objects as files."""
        return Path(self.services["bigquery"].facts["gcs_folder"])

    @property
    def redshift_dsn(self) -> str:
        """The connection string of Redshift for libpq and psycopg, as the first user."""
        facts = self.services["redshift"].facts
        where = " ".join(f"{name}={facts[name]}" for name in ("host", "port", "user", "dbname"))
        return f"{where} password={environment.REDSHIFT_PASSWORD}"

    def redshift_connection(self, **options: Any) -> Any:
        """Return a psycopg connection to Redshift in autocommit mode. The caller closes it."""
        import psycopg

        return psycopg.connect(self.redshift_dsn, **{"autocommit": True} | options)

    def redshift_faults(self, *rules: RuleDict) -> list[int]:
        """Replace the faults (`redshift.faults.Rule`) of Redshift; return how often each former one applied."""
        text = json.dumps(rules).replace("\\", "\\\\").replace("'", "''")
        with self.redshift_connection() as connection:
            done = connection.execute(f"LOCAL CLOUD FAULTS '{text}'").statusmessage
            return [int(count) for count in done.split()[1:]]

    def redshift_statements(self) -> list[str]:
        """Return the statements that clients sent to Redshift, the newest last, without credentials."""
        with self.redshift_connection() as connection:
            return [text for (text,) in connection.execute("LOCAL CLOUD STATEMENTS")]

    @property
    def flightsql(self) -> FlightSql:
        """The Flight SQL server: its address, its data, its faults."""
        return FlightSql(**self.services["flightsql"].facts, is_mutual=self._flightsql_tls == "mutual")

    def fail_jobs(self, *faults: RuleDict) -> list[dict[str, Any]]:
        """Replace the faults of BigQuery jobs; return those now in force, with counts. The first that matches applies.

        Keys: `job` (load, copy, query), `match` (regular expression, searched for in project.dataset.table or in the
        text of a query), `holds` (only load jobs whose file has a value equal to this text, as for a row that BigQuery
        refuses), `reason` and `message` of the failure (absent: the job is only delayed), `delay_s` (seconds in state
        RUNNING before, at most until faults are set again), `skip` (number of matching jobs that pass first), `times`
        (maximum number of failures). `LocalCloudError`: a fault has an unknown key or reason.
        """
        return self._set_faults(JOB_FAULTS, faults)

    def fail_writes(self, *faults: RuleDict) -> list[dict[str, Any]]:
        """Replace the faults of calls of BigQuery's Storage Write API. The first that matches a call applies.

        Keys: `call` (create, append, finalize, commit, get; each request of an append is a call), `match` (regular
        expression, searched for in project.dataset.table), `status` (gRPC's name, such as UNAVAILABLE; absent: the call
        is only delayed), `code` (BigQuery's code in the details, such as STREAM_FINALIZED), `message`, `after` (the
        call takes effect, and its answer is lost), `in_band` (an append is answered with the error, and its connection
        stays open), `delay_s` (at most until faults are set again), `skip` (number of matching calls that pass first),
        `times` (maximum number of failures). `LocalCloudError`: a fault has an unknown key or value.
        """
        return self._set_faults(WRITE_FAULTS, faults)

    def write_faults(self) -> list[dict[str, Any]]:
        """Return the faults of `fail_writes` with counts (`fired`), and replaced ones that still affect a call."""
        with open_directly(urllib.request.Request(self.bigquery_url + WRITE_FAULTS), timeout=10) as response:  # noqa: S310 - our own
            found: list[dict[str, Any]] = json.load(response)
        return found

    def _set_faults(self, path: str, faults: Sequence[RuleDict]) -> list[dict[str, Any]]:
        body = json.dumps(faults).encode()
        request = urllib.request.Request(self.bigquery_url + path, data=body, method="PUT")  # noqa: S310 - our own
        try:
            with open_directly(request, timeout=10) as response:
                set_now: list[dict[str, Any]] = json.load(response)
        except urllib.error.HTTPError as error:
            raise LocalCloudError(json.load(error)["error"]) from None
        return set_now

    def bigquery_client(self, url: str = "") -> Any:
        """Return a google-cloud-bigquery client of the local BigQuery, or of a proxy. The caller closes it."""
        from google.api_core.client_options import ClientOptions
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import bigquery

        return bigquery.Client(
            project=environment.PROJECT,
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
            client_options=ClientOptions(api_endpoint=url or self.bigquery_url),
        )

    def _start(self) -> None:
        # First, because it may take long; a kill meanwhile must not leave a directory that no child removes.
        python = installation.ensure() if "bigquery" in self._services else None
        if self._data_dir is not None:
            self._stack.enter_context(_locked(self._data_dir))
            for name in SERVICES if self._is_fresh else ():
                shutil.rmtree(self._data_dir / name, ignore_errors=True)
        self._run_dir = run_dir = Path(tempfile.mkdtemp(prefix="local-cloud-"))
        self._stack.callback(remove_tree, run_dir)
        self.env.update(environment.without_proxy(os.environ))
        if python is not None:  # it starts while the others do
            self._keep(self._start_bigquery(run_dir, python))
        if "s3" in self._services:
            self._start_child("s3", run_dir)
            queue_url = setup.create(self.s3_url)
            self.env.update(environment.aws(self.s3_url, queue_url))
            if self._rules:
                self.faults = self.fault_proxy(self.s3_url)
                self.faults.set(*self._rules)
                queue_url = queue_url.replace(self.s3_url, self.faults.url)
                self.env.update(environment.aws(self.faults.url, queue_url))
                self.env["LOCAL_CLOUD_FAULTS_URL"] = self.faults.url + CONTROL
        if "redshift" in self._services:
            self._start_child(
                "redshift",
                run_dir,
                # Never through a fault proxy, which is for clients only.
                AWS_ENDPOINT_URL=self.s3_url if "s3" in self.services else "http://127.0.0.1:9",
                LOCAL_CLOUD_REDSHIFT_PASSWORD=environment.REDSHIFT_PASSWORD,
                LOCAL_CLOUD_REDSHIFT_SLICES=str(self._redshift_slices),
                LOCAL_CLOUD_REDSHIFT_TLS=str(int(self._redshift_tls)),
            )
            self.env.update(environment.redshift(**self.services["redshift"].facts, tls=self._redshift_tls))
        if "flightsql" in self._services:
            self._start_child(
                "flightsql",
                run_dir,
                LOCAL_CLOUD_FLIGHTSQL_PASSWORD=environment.FLIGHTSQL_PASSWORD,
                LOCAL_CLOUD_FLIGHTSQL_ENDPOINTS=str(self._flightsql_endpoints),
                LOCAL_CLOUD_FLIGHTSQL_TLS=self._flightsql_tls,
            )
            self.env.update(environment.flightsql(self.flightsql.uri, self.flightsql.username))
        if "dask" in self._services:
            self.dask = DaskCluster(run_dir / "dask", env=self.environ())
            self._stack.callback(self.dask.stop)
            self.dask.start(self._dask_workers)
            self.env.update(environment.dask(self.dask.address, self.dask.tls))
        if python is not None:
            self.services["bigquery"].await_ready()
            self.env.update(environment.bigquery(self.bigquery_url, self.bigquery_grpc, self.gcs_url))

    def _keep(self, service: Service) -> None:
        self._stack.callback(service.stop)
        self.services[service.name] = service

    def _start_child(self, name: str, run_dir: Path, **settings: str) -> None:
        """Start the service whose process is `local_cloud.NAME.server`."""
        kept = [self._data_dir.resolve() / name] if self._data_dir else []
        command: list[str | Path] = [sys.executable, "-P", "-m", f"local_cloud.{name}.server", run_dir, *kept]
        self._keep(Service(name, command, log=run_dir / f"{name}.log", env=self.environ(**settings)))

    def _start_bigquery(self, run_dir: Path, python: Path) -> Service:
        home = run_dir / "home"
        home.mkdir()
        data = self._data_dir / "bigquery" if self._data_dir else run_dir / "bigquery"
        data.mkdir(parents=True, exist_ok=True)
        if any(data.glob("*.ducklake")):
            warning = f"local-cloud: tables of an earlier version in {data} (*.ducklake) are not read; load them again"
            sys.stderr.write(f"{warning}\n")
        launch = Path(installation.__file__).with_name("launch.py")
        # -I: neither PYTHONPATH nor the working directory adds packages to the server.
        command: list[str | Path] = [python, "-I", launch, run_dir, data.resolve()]
        env = os.environ | {"HOME": str(home), "BIGQUERY_HOST": "127.0.0.1", "DEFAULT_PROJECT_ID": environment.PROJECT}
        return Service("bigquery", command, log=run_dir / "bigquery.log", env=env, is_awaited=False)
