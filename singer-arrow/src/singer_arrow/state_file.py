"""The STATE of a pipeline between runs: one run at a time has it, and it is about the tables of one target."""

from __future__ import annotations

import fnmatch
import json
import os
import secrets
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from singer_arrow.errors import ConfigError, IdentityError, NotFoundError
from singer_arrow.runtime.children import KILL_SECONDS, kill
from singer_arrow.storage.store import Storage, Version
from singer_arrow.storage.urls import Url

# On object storage, each write replaces the version that this run has written or read last
# (If-Match), and the run that has it writes it again every few seconds: another run waits until that ends, or takes it
# over once that is dead; a run that slept meanwhile finds another version and ends. On a disk a lock does the same.

OWNER = "run"
"""The member of the file that a run writes anew every few seconds."""
TARGET = "target"
"""The member of the file with what decides which tables the STATE is about."""
_OF_TAP = "state"
"""The member of the file with those members of the STATE that have one of these three names."""
_BEAT_SECONDS = 5.0
_DEAD_SECONDS = 20.0


class StateFile:
    """The STATE of a pipeline, which one run at a time has.

    Args:
        target: What decides which tables the STATE is about; it is kept with it.
        is_anew: Whether all of a stream is loaded again, so that its table may be another than before.

    Attributes:
        processes: They are ended once another run has the STATE, or it cannot be written.
        lock: The descriptor of the lock of a file on a disk; a process that inherits it has the file too.
    """

    def __init__(
        self, storage: Storage, url: Url, target: Mapping[str, str], is_anew: Callable[[str], bool] = lambda _: False
    ) -> None:
        if url.scheme == "file":  # behind a link it is the file that is locked and replaced
            url = Url.parse(str(url.local_path().resolve()))
        self._storage, self._url, self._id = storage, url, secrets.token_hex(8)
        self._target, self._about, self._is_anew = target, target, is_anew
        self.processes: Sequence[subprocess.Popen[bytes]] = ()
        self.lock: tuple[int, ...] = ()
        self._known: Version | None = None
        self._state: Mapping[str, Any] = {}
        self._error: BaseException | None = None
        self._changed, self._ended = threading.Event(), threading.Event()
        self._beats = 0

    @contextmanager
    def claimed(self) -> Iterator[Mapping[str, Any]]:
        """Have the file in a block, and yield its STATE; IdentityError: another run has it.

        What `save` gets is written soon, and at the end of the block, also of one that fails.
        """
        with ExitStack() as stack:
            if self._url.scheme == "file":
                stack.enter_context(self._locked(self._url.local_path()))
            self._state = self._read_free()
            if not self._write(owned=True):
                raise self._busy()
            beat = threading.Thread(target=self._keep, name="state", daemon=True)
            beat.start()
            try:
                yield self._state
            finally:
                self._ended.set()
                self._changed.set()
                beat.join()
                # the first of these differs from all that others have written
                if self._error is None and not (self._write(owned=True) and self._write(owned=False)):
                    self._error = self._taken()
                self.check()

    def save(self, state: Mapping[str, Any]) -> None:
        """Have a STATE written; the error of an earlier write is raised."""
        self.check()
        self._state, self._about = state, self._target
        self._changed.set()

    def check(self) -> None:
        """Raise the error of an earlier write."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        import fcntl

        if path.exists() and not path.is_file():
            raise ConfigError(f"{self._url} is no regular file; name another 'state'")
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.lock")
        try:
            number = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError:
            if beside.is_symlink() or beside.exists():
                raise ConfigError(f"The lock {beside} is no regular file; remove it") from None
            raise
        with os.fdopen(number, "rb") as lock:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise ConfigError(f"The lock {beside} is no regular file; remove it")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise self._busy() from None
            self.lock = (lock.fileno(),)
            yield

    def _read_free(self) -> Mapping[str, Any]:
        """Return the STATE once no run that lives has the file."""
        seen, since = None, time.monotonic()
        while True:
            try:
                data, version = self._storage.read(self._url)
            except NotFoundError:
                return {}
            try:
                given = json.loads(data)
                owner, before = given.pop(OWNER, None), dict(given.pop(TARGET, ()))
                given |= given.pop(_OF_TAP, {})
                streams = given.get("bookmarks", {}).keys()
            except (AttributeError, RecursionError, TypeError, ValueError):
                raise no_state(self._url) from None
            if seen not in (None, version):
                raise self._busy()
            seen = self._known = version
            if owner is None or self._url.scheme == "file" or time.monotonic() - since > _DEAD_SECONDS:
                for name in sorted(before.keys() | self._target.keys() if before else ()):
                    now, which = self._target.get(name), name.partition(".")[2] or "*"
                    kept = [s for s in streams if fnmatch.fnmatchcase(s, which) and not self._is_anew(s)]
                    if before.get(name) != now and kept:
                        raise IdentityError(
                            f"{self._url} is about tables of {name} {before.get(name)!r}, and the target has {now!r}: "
                            "what was loaded before would not be there. Run it with --full-refresh, or with another "
                            f"'state'; if the tables have moved with their rows, correct '{TARGET}' in that file"
                        )
                self._about = before or self._target  # until there is another STATE, also where all is loaded anew
                state: Mapping[str, Any] = given
                return state
            time.sleep(1)

    def _busy(self) -> IdentityError:
        return IdentityError(f"Another run has {self._url}; wait until it has ended")

    def _taken(self) -> IdentityError:
        return IdentityError(f"Another run has taken over {self._url}, as this one was silent for too long")

    def _keep(self) -> None:
        while not self._ended.is_set():
            self._changed.wait(_BEAT_SECONDS if self._url.scheme != "file" else None)
            self._changed.clear()
            if not self._ended.is_set():
                try:
                    self._error = None if self._write(owned=True) else self._taken()
                except BaseException as error:  # noqa: BLE001 - it is raised where STATE is given
                    self._error = error
                if self._error is not None:
                    for process in self.processes:
                        process.terminate()
                    if not self._ended.wait(KILL_SECONDS):
                        for process in self.processes:
                            kill(process)
                    return
                self._ended.wait(0.5)  # many STATEs of a moment are one write

    def _write(self, *, owned: bool) -> bool:
        """Write the STATE, and return whether this run has it still."""
        self._beats += 1
        members: dict[str, Any] = {**self._state}
        if of_tap := {name: members.pop(name) for name in (OWNER, TARGET, _OF_TAP) if name in members}:
            members[_OF_TAP] = of_tap
        members[TARGET] = self._about
        members |= {OWNER: f"{self._id} {self._beats}"} if owned else {}
        data = json.dumps(members).encode()
        if self._url.scheme == "file":
            self._storage.put(self._url, data)
            return True
        self._known = self._storage.replace(self._url, data, self._known)
        return self._known is not None


def no_state(url: Url) -> ConfigError:
    """Return the error for a file that holds something else."""
    return ConfigError(f"{url} is no STATE; restore it, or remove it to begin anew")
