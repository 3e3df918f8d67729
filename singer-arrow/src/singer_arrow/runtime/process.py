"""Memory, connections, temporary folders and the end of a process."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from singer_arrow.errors import ConfigError

# Limit on the memory that glibc retains.
#
# glibc allocates from several arenas, and memory freed in one is not reused by others. Dozens of threads fetch objects:
# without the limit the process retains up to 180 MB more (measured with texts of 60 MB). Arrow and polars have memory
# pools of their own, which return large blocks.

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h
_ARENAS = 2
_OWN = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


def limit_arenas() -> None:
    """Limit glibc to two arenas; call it before threads start.

    Does nothing with another C library, or if `MALLOC_ARENA_MAX` or `GLIBC_TUNABLES` is set.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OWN):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL("libc.so.6").mallopt(_ARENA_MAX, _ARENAS)


# What processes of `singer-arrow run` share with it.

FIGURES = "SINGER_ARROW_FIGURES"
"""The variable with a folder for a second copy of the report."""
PIPELINE = "SINGER_ARROW_PIPELINE"
"""The variable with the names of the pipeline and of its run, with a space between them."""


# Timeout of TCP connections whose peer disappeared, for example after a power failure or behind a firewall.
#
# Keepalive works only on idle connections: while sent bytes are unacknowledged, Linux retransmits them for 15 minutes
# and more. TCP_USER_TIMEOUT (RFC 5482) limits both.

DEAD_AFTER_SECONDS = 180
"""Seconds without an acknowledgement of data or of a keepalive probe."""


def user_timeout() -> tuple[tuple[int, int, int], ...]:
    """Return the arguments of `setsockopt`; none on systems without TCP_USER_TIMEOUT (only Linux has it)."""
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return ()
    return ((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_SECONDS * 1000),)


# Temporary folders of a run; those of killed runs are removed by the next run.
#
# Each folder contains a file that its process locks until it ends. A folder whose file can be locked is unused. Without
# such locks (Windows, some network file systems) the folders of killed runs remain.

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


# The exception that a signal raises in the main thread, and its log line.
#
# A signal handler interrupts the main thread anywhere, also while it writes a log line. The log stream is locked then,
# and another line from the same thread fails with `RuntimeError: reentrant call`. So handlers only raise, and the line
# is logged at the end of the run, outside of the handler.

_raised: list[Terminated] = []


def begin() -> None:
    """Forget signals of an earlier run of this process."""
    _raised.clear()


def received() -> Terminated | None:
    """Return the exception of the last signal, if any; a library may have replaced it by another error."""
    return _raised[-1] if _raised else None


class Terminated(SystemExit):
    """The process ends because of a signal, with exit code 128 + its number; the log line ends with the advice."""

    def __init__(self, signum: int, advice: str = "") -> None:
        super().__init__(128 + signum)
        self.signum = signum
        self._line: str | None = f"Interrupted ({signal.Signals(signum).name}){advice}"
        _raised.append(self)

    def log(self, logger: logging.Logger) -> None:
        """Log the line, unless that was done before."""
        line, self._line = self._line, None
        if line is not None:
            logger.info(line)


def discard_output() -> None:
    """Discard what the interpreter writes to standard output at its end; the reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
