"""The environment of the local BigQuery: made once per user, shared by all that run it."""

import fcntl
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
from local_cloud.pythons import find_python

PYTHON = "3.13"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALL_SECONDS = 1800.0
UNUSED_SECONDS = 30 * 86400.0


def cache_dir() -> Path:
    """Where installations are kept: $XDG_CACHE_HOME/local-cloud, or ~/.cache/local-cloud."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "local-cloud"


def key() -> str:
    """What an installation is known by: a change of the pins or of Python makes another one."""
    return hashlib.sha256(REQUIREMENTS.read_bytes() + PYTHON.encode()).hexdigest()[:16]


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock over all processes of this user; the kernel frees it if the holder dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(making: Path, name: str) -> None:
    """Install into `making`/`name`, which moves beside `making` when it is complete."""
    base = find_python(PYTHON, purpose="the local BigQuery")
    module = "local_cloud.bigquery.install"
    command: list[str | Path] = [sys.executable, "-m", module, base, making, making / name, REQUIREMENTS]
    Service("BigQuery installation", command, log=making / "log", timeout=INSTALL_SECONDS).stop()


def _remove_old(directory: Path) -> None:
    """Remove what interrupted installations left behind, and installations that nobody used for long."""
    old = [path for path in directory.glob("bigquery-*/") if time.time() - path.stat().st_mtime > UNUSED_SECONDS]
    for path in [*old, *directory.glob(f"making-{key()}-*")]:
        shutil.rmtree(path, ignore_errors=True)


def ensure() -> Path:
    """The Python of the local BigQuery's environment, installed first if it is not there.

    Several processes may call this at once: one installs, the others wait. An installation gets its name only when
    it is complete, so that one interrupted is never used.

    Raises:
        LocalCloudError: no Python 3.13, or a package cannot be installed.
    """
    directory = cache_dir()
    target = directory / f"bigquery-{key()}"
    python = target / "bin" / "python"
    if python.exists():
        os.utime(target)  # so that it counts as used
        return python
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalCloudError(f"cannot write the cache {directory}: {error.strerror}; set XDG_CACHE_HOME") from None
    with _lock(directory / f"bigquery-{key()}.lock"):
        if python.exists():
            return python
        _remove_old(directory)
        print("local-cloud: installing the local BigQuery (once, about 30 s, 800 MB)", file=sys.stderr, flush=True)  # noqa: T201 - for the person who waits
        making = Path(tempfile.mkdtemp(prefix=f"making-{key()}-", dir=directory))
        try:
            shutil.rmtree(target, ignore_errors=True)
            _install(making, target.name)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return python
