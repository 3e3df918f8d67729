"""Temporary folders of a run; those of killed runs are removed by the next run.

Each folder contains a file that its process locks until it ends. A folder whose file can be locked is unused. Without
such locks (Windows, some network file systems) the folders of killed runs remain.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from singer_arrow.errors import ConfigError

LOCK = "in-use.lock"


class TemporaryFolder:
    """A folder in TMPDIR that is created on first use and removed at exit. Thread-safe.

    Unused folders whose names have the prefix `name` are removed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._end: Callable[[], object] | None = None

    @property
    def path(self) -> Path:
        """Path of the folder, created if necessary."""
        with self._lock:
            if self._path is None or not self._path.exists():  # a cleaner of TMPDIR may have removed it
                self._release()
                remove_abandoned(self._name)
                self._path = Path(tempfile.mkdtemp(prefix=f"{self._name}-"))
                self._end = weakref.finalize(self, _remove, self._path, _hold(self._path))
            return self._path

    def new(self, suffix: str) -> Path:
        """Return the path of a new file."""
        return self.path / f"{uuid.uuid4().hex}{suffix}"

    def remove(self) -> None:
        """Remove the folder and its content."""
        with self._lock:
            self._release()

    def _release(self) -> None:
        if self._end is not None:
            self._end()
        self._path = self._end = None


def _remove(path: Path, handle: int | None) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        (path / LOCK).touch()  # still there if a leftover thread writes to it; the next run removes it
    if handle is not None:
        os.close(handle)


_OF_THIS_PROCESS = TemporaryFolder("singer-arrow")


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Create a folder, within that of the process, and remove it after the block."""
    within = _OF_THIS_PROCESS.path
    # Removal may fail for lack of file descriptors; the folder of the process is removed at exit.
    with tempfile.TemporaryDirectory(prefix=prefix, dir=within, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def no_room(url: object, folder: Path, error: OSError) -> ConfigError:
    """Return the error for an object that cannot be copied to a temporary folder."""
    return ConfigError(f"{url} cannot be copied to {folder}: {error.strerror}; make room, or set TMPDIR elsewhere")


def remove_abandoned(name: str) -> None:
    """Remove the folders of killed runs with this prefix, as far as possible."""
    if os.name != "posix":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{name}-*"):
        with contextlib.suppress(OSError), _locked(path) as ours:
            if ours:
                shutil.rmtree(path, ignore_errors=True)


def _hold(folder: Path) -> int | None:
    """Lock the folder until the process ends; return None if locks are unsupported."""
    hidden = folder / f".{LOCK}"
    handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if not _try_lock(handle):
        os.close(handle)
        return None
    hidden.rename(folder / LOCK)  # visible to other processes only once locked
    return handle


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Yield whether the folder is this user's and unused, holding its lock."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        yield False
        return
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        yield _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    if os.name != "posix":
        return False
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
