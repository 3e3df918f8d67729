"""The folders of a run's temporary files. Those of runs that were killed are removed by the next run.

Each folder holds a file that its process keeps locked as long as it lives, however it ends; whoever can lock it knows
that nobody uses the folder any more. Where there are no such locks (Windows, some network file systems), what killed
runs leave behind stays.
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
    """A folder below TMPDIR that is created on first use, and removed when the process ends.

    Safe to use from any thread.

    Args:
        name: What the folder's name begins with; those that begin so and that nobody uses are removed.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._end: Callable[[], object] | None = None

    @property
    def path(self) -> Path:
        """The folder."""
        with self._lock:
            if self._path is None or not self._path.exists():  # what cleans TMPDIR may have taken it for forgotten
                self._give_back()
                remove_abandoned(self._name)
                self._path = Path(tempfile.mkdtemp(prefix=f"{self._name}-"))
                self._end = weakref.finalize(self, _remove, self._path, _hold(self._path))
            return self._path

    def new(self, suffix: str) -> Path:
        """A name for a new file."""
        return self.path / f"{uuid.uuid4().hex}{suffix}"

    def remove(self) -> None:
        """Remove the folder, if there is one, and all that is in it."""
        with self._lock:
            self._give_back()

    def _give_back(self) -> None:
        if self._end is not None:
            self._end()
        self._path = self._end = None


def _remove(path: Path, handle: int | None) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        (path / LOCK).touch()  # it is still there: a thread that was left behind writes to it; the next run removes it
    if handle is not None:
        os.close(handle)


_OF_THIS_PROCESS = TemporaryFolder("singer-arrow")


@contextlib.contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """A folder for as long as the context lasts, within one of this process."""
    within = _OF_THIS_PROCESS.path
    # A process that may open no more files cannot remove it now; the folder that it is in is removed later.
    with tempfile.TemporaryDirectory(prefix=prefix, dir=within, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def no_room(url: object, folder: Path, error: OSError) -> ConfigError:
    """The error of what cannot be copied to a folder for temporary files."""
    return ConfigError(f"{url} cannot be copied to {folder}: {error.strerror}; make room, or set TMPDIR elsewhere")


def remove_abandoned(name: str) -> None:
    """Remove the folders of that name that killed runs left behind; what cannot be removed stays."""
    if os.name != "posix":
        return
    for path in Path(tempfile.gettempdir()).glob(f"{name}-*"):
        with contextlib.suppress(OSError), _locked(path) as ours:
            if ours:
                shutil.rmtree(path, ignore_errors=True)


def _hold(folder: Path) -> int | None:
    """Lock the folder until the process ends; None where that cannot be."""
    hidden = folder / f".{LOCK}"
    handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    if not _try_lock(handle):
        os.close(handle)
        return None
    hidden.rename(folder / LOCK)  # only now others see it: never without its lock
    return handle


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether the folder is this user's, and its process has ended."""
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
