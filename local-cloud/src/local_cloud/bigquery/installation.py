"""The environment of the local BigQuery: made once per user, shared by all that run it."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local_cloud.errors import LocalCloudError
from local_cloud.pythons import find_python, find_uv

PYTHON = "3.13"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
ERROR_LINES = 12
STALE_SECONDS = 3600.0


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


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(
        command,
        env=os.environ | {"UV_SYSTEM_CERTS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [f"    {line}" for line in done.stdout.splitlines()[-ERROR_LINES:]]
        raise LocalCloudError(
            "\n".join([f"cannot install the local BigQuery: `{' '.join(command[:4])} ...` failed:", *lines])
        )


def _install(target: Path) -> None:
    base = find_python(PYTHON, purpose="the local BigQuery")
    python = str(target / "bin" / "python")
    if uv := find_uv():
        _run([uv, "venv", "--quiet", "--no-project", "--python", base, str(target)])
        _run([uv, "pip", "install", "--quiet", "--no-deps", "--compile-bytecode",
              "--python", python, "--requirement", str(REQUIREMENTS)])  # fmt: skip
    else:
        _run([base, "-m", "venv", str(target)])
        _run([python, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps",
              "--disable-pip-version-check", "--requirement", str(REQUIREMENTS)])  # fmt: skip
    _run([python, "-c", "import duckdb, fastavro, polars, pyarrow.parquet, sqlglot, uvicorn, grpc"])


def _remove_interrupted(directory: Path) -> None:
    """Remove what an installation that was killed has left behind."""
    for path in directory.glob("making-*"):
        if time.time() - path.stat().st_mtime > STALE_SECONDS:
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
        return python
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LocalCloudError(f"cannot write the cache {directory}: {error.strerror}; set XDG_CACHE_HOME") from None
    with _lock(directory / f"bigquery-{key()}.lock"):
        if python.exists():
            return python
        _remove_interrupted(directory)
        print("local-cloud: installing the local BigQuery (once, about 30 s, 800 MB)", file=sys.stderr, flush=True)  # noqa: T201 - for the person who waits
        making = Path(tempfile.mkdtemp(prefix="making-", dir=directory))
        try:
            _install(making / "env")
            shutil.rmtree(target, ignore_errors=True)
            (making / "env").rename(target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return python
