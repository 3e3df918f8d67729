"""The environment of the local BigQuery: created once per user and version of Python, shared by all processes."""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_cloud.errors import LocalCloudError
from local_cloud.process import Service

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALL_SECONDS = 1800.0
UNUSED_SECONDS = 30 * 86400.0


def cache_dir() -> Path:
    """Return the directory of installations: $XDG_CACHE_HOME/local-cloud, or ~/.cache/local-cloud."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "local-cloud"


def key() -> str:
    """Return the key of the installation, which depends on the pinned requirements and the version of Python."""
    return hashlib.sha256(REQUIREMENTS.read_bytes() + PYTHON.encode()).hexdigest()[:16]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock across all processes of this user. The kernel releases it if the holder dies."""
    import fcntl  # not on Windows

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(making: Path, name: str) -> None:
    """Install into `making`/`name`, and move the result beside `making` when it is complete."""
    module = "local_cloud.bigquery.install"
    command: list[str | Path] = [
        sys.executable,
        "-P",
        "-m",
        module,
        sys.executable,
        making,
        making / name,
        REQUIREMENTS,
    ]
    Service("BigQuery installation", command, log=making / "log", timeout=INSTALL_SECONDS).stop()


def _remove_old(directory: Path) -> None:
    """Remove interrupted installations, and installations that have not been used for a long time."""
    old = [path for path in directory.glob("bigquery-*/") if time.time() - path.stat().st_mtime > UNUSED_SECONDS]
    for path in [*old, *directory.glob(f"making-{key()}-*")]:
        shutil.rmtree(path, ignore_errors=True)


def ensure() -> Path:
    """Return the Python of the local BigQuery's environment, and install the environment first if it is absent.

    Several processes may call this at once: one installs, the others wait. An installation gets its name only when
    it is complete, so an interrupted one is never used.
    """
    directory = cache_dir()
    target = directory / f"bigquery-{key()}"
    python = target / "bin" / "python"
    if python.exists():
        os.utime(target)  # mark as recently used
        return python
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalCloudError(f"cannot write the cache {directory}: {error.strerror}; set XDG_CACHE_HOME") from None
    with _lock(directory / f"bigquery-{key()}.lock"):
        if python.exists():
            return python
        _remove_old(directory)
        print("local-cloud: installing the local BigQuery (once, 800 MB)", file=sys.stderr, flush=True)  # noqa: T201 - for the person who waits
        making = Path(tempfile.mkdtemp(prefix=f"making-{key()}-", dir=directory))
        try:
            shutil.rmtree(target, ignore_errors=True)
            _install(making, target.name)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return python
