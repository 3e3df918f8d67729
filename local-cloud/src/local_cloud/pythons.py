"""Find an installed Python of a given version."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from local_cloud.errors import LocalCloudError


def find_uv() -> str | None:
    """Return the path of uv, beside this Python or on PATH, or None."""
    beside = Path(sys.executable).with_name("uv")
    return str(beside) if beside.is_file() else shutil.which("uv")


def _pyenv_roots() -> Iterator[Path]:
    import pwd  # not on Windows

    if root := os.environ.get("PYENV_ROOT"):
        yield Path(root)
    yield Path.home() / ".pyenv"
    # HOME may point elsewhere, as in a clean build; the account's own directory still exists.
    yield Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv"


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    if on_path := shutil.which(f"python{version}"):
        yield on_path
    for root in _pyenv_roots():
        yield from sorted((str(path) for path in root.glob(f"versions/{version}*/bin/python")), reverse=True)
    if uv := find_uv():
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            yield found.stdout.strip()


def _version_of(python: str) -> str | None:
    """Return the version of an executable, or None if it cannot run, as a shim of a version that is not chosen."""
    code = "import sys, ssl, venv; print('%d.%d' % sys.version_info[:2])"
    try:
        ran = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def find_python(version: str, *, purpose: str) -> str:
    """Return the path of a Python of exactly this minor version."""
    for candidate in _candidates(version):
        if _version_of(candidate) == version:
            return candidate
    raise LocalCloudError(
        f"{purpose} needs Python {version}, and none was found (looked at {sys.executable}, PATH, pyenv and uv): "
        f"install it with `uv python install {version}` or `pyenv install {version}`, then try again"
    )
