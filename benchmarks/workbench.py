"""What cases need to be built: input data made once, services started on first use, our executables."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from benchmarks.harness import BenchmarkError

if TYPE_CHECKING:
    from benchmarks.peers import Installed
    from benchmarks.s3 import LocalS3
    from local_cloud.redshift.postgres import Postgres

DATA = Path(__file__).parent / "data"
DEFAULT_INSTALL = Path(__file__).parent / "programs/default_install"
"""Before all other folders in PYTHONPATH, it hides the native parser of JSON, which `pip install` does not bring."""


class Workbench:
    """Data, services and executables for the cases of one run.

    Attributes:
        scale: rows of every case are multiplied by this.
        data: where input data is kept from run to run.
        env: variables that the commands need to reach the services started so far; with them, our executables parse
            JSON as they do where the extra `native` is not installed.
        log: takes a line of progress.
    """

    def __init__(self, *, scale: float = 1.0, data: Path = DATA, log: Callable[[str], None] = print) -> None:
        self.scale = scale
        self.data = data
        self.env: dict[str, str] = {"PYTHONPATH": str(DEFAULT_INSTALL)}
        self._clouds: dict[str, Any] = {}
        self._s3: LocalS3 | None = None
        self._postgres: Postgres | None = None
        self._peers: dict[str, Installed | None] = {}
        self._stack = ExitStack()
        self.log = log

    def __enter__(self) -> Self:
        self.data.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def native_env(self) -> dict[str, str] | None:
        """Variables that, laid over `env`, let executables parse JSON by the native parser; None if it is not built."""
        return {"PYTHONPATH": ""} if importlib.util.find_spec("singer_arrow_json") else None

    def rows(self, full: int) -> int:
        """The number of rows to use where the whole case has `full`."""
        return max(1, round(full * self.scale))

    def made(self, name: str, make: Callable[[Path], None]) -> Path:
        """The path of input data in the data folder, made by `make` if it is not there yet.

        `make` writes a file or fills a folder at the path it is given; the data gets its name when it is whole.
        """
        path = self.data / name
        if not path.exists():
            self.log(f"making {name}")
            part = self.data / f"{name}.part"
            if part.is_dir():
                shutil.rmtree(part)
            make(part)
            part.rename(path)
        return path

    def cloud(self, service: str) -> Any:
        """The local `s3`, `bigquery`, `redshift` or `flightsql` (a Cloud), running until the workbench is left.

        The one of `redshift` has an S3 too, which it loads from.
        """
        from local_cloud import Cloud

        if service not in self._clouds:
            self.log(f"starting the local {service}")
            services = ["s3", "redshift"] if service == "redshift" else [service]
            self._clouds[service] = self._stack.enter_context(Cloud(services))
        self.env.update(self._clouds[service].env)  # again: another one's S3 may have been the last
        return self._clouds[service]

    def s3(self) -> LocalS3:
        """An S3 behind a latency, running until the workbench is left; `counted` contenders shape and count it.

        Its variables are not put into `env`: commands that shall reach it take `env | s3.env`.
        """
        from benchmarks.s3 import serving_s3

        if self._s3 is None:
            self.log("starting S3")
            self._s3 = self._stack.enter_context(serving_s3(data=self.data, log=self.log))
            self.log(f"S3 is {self._s3.kind}")
        return self._s3

    def postgres(self) -> Postgres:
        """A PostgreSQL server, running until the workbench is left.

        Raises:
            BenchmarkError: it does not run on this machine.
        """
        from benchmarks.services.postgres import serving_postgres

        if self._postgres is None:
            self.log("starting PostgreSQL")
            self._postgres = self._stack.enter_context(serving_postgres())
        return self._postgres

    def peer(self, name: str) -> Installed | None:
        """A peer in an environment of its own, installed if need be; None if it cannot be, with a line in the log."""
        from benchmarks.peers import install

        if name not in self._peers:
            try:
                self._peers[name] = install(name, self.data / "peers", self.log)
            except BenchmarkError as error:
                self.log(f"left out: {error}")
                self._peers[name] = None
        return self._peers[name]

    def executable(self, name: str) -> Path:
        """The path of one of our commands, beside the Python that runs the benchmarks."""
        path = Path(sys.executable).parent / name
        if not path.exists():
            raise BenchmarkError(f"{path} does not exist; `make setup` installs it")
        return path


def program(name: str) -> list[str]:
    """The start of a command that runs a module of `benchmarks.programs`."""
    return [sys.executable, "-m", f"benchmarks.programs.{name}"]
