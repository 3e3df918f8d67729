"""The STATE of a pipeline between runs: one run at a time has it; it keeps which table each stream of it is about."""

from __future__ import annotations

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
"""The member of the file with what decides which table the STATE of a stream is about, by stream.

"" stands for the whole of a STATE without bookmarks.
"""
_OF_TAP = "state"
"""The member of the file with those members of the STATE that have one of these three names."""
_BEAT_SECONDS = 5.0
_DEAD_SECONDS = 20.0
_MOST_NAMED = 5


class StateFile:
    """The STATE of a pipeline, which one run at a time has.

    Args:
        target_of: What decides which table the rows of a stream go to; it is kept with the STATE of the stream.
        loads: Whether the run loads a stream; the STATE of others stays as it is.
        is_anew: Whether all of a stream is loaded again, so that its table may be another than before.

    Attributes:
        processes: They are ended once another run has the STATE, or it cannot be written.
        lock: The descriptor of the lock of a file on a disk; a process that inherits it has the file too.
    """

    def __init__(
        self,
        storage: Storage,
        url: Url,
        target_of: Callable[[str], Mapping[str, str]],
        *,
        loads: Callable[[str], bool] = lambda _: True,
        is_anew: Callable[[str], bool] = lambda _: False,
    ) -> None:
        if url.scheme == "file":  # behind a link it is the file that is locked and replaced
            url = Url.parse(str(url.local_path().resolve()))
        self._storage, self._url, self._id = storage, url, secrets.token_hex(8)
        self._target_of, self._loads, self._is_anew = target_of, loads, is_anew
        self._about: dict[str, Mapping[str, str]] = {}
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
        about = self._about
        self._about = {
            name: self._target_of(name) if self._loads(name) else about[name]
            for name in _streams_of(state)
            if self._loads(name) or name in about
        }
        self._state = state
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
                streams = _streams_of(given)
                about = {name: dict(before[name]) for name in streams if name in before}
            except (AttributeError, RecursionError, TypeError, ValueError):
                raise no_state(self._url) from None
            if seen not in (None, version):
                raise self._busy()
            seen = self._known = version
            if owner is None or self._url.scheme == "file" or time.monotonic() - since > _DEAD_SECONDS:
                loaded = [name for name in streams if self._loads(name)]
                kept = [name for name in loaded if not self._is_anew(name)]
                if others := [n for n in kept if n in about and about[n] != self._target_of(n)]:
                    raise self._of_another_target(others, about[others[0]], are_all=len(others) == len(streams))
                # until there is another STATE, also where all is loaded anew
                self._about = {name: self._target_of(name) for name in streams} | about
                state: Mapping[str, Any] = given
                return state
            time.sleep(1)

    def _of_another_target(self, streams: Sequence[str], before: Mapping[str, str], *, are_all: bool) -> IdentityError:
        now = self._target_of(streams[0])
        setting = next(name for name in (*before, *now) if before.get(name) != now.get(name))
        values = (
            f"{setting} {target[setting]!r}" if setting in target else f"no {setting}" for target in (before, now)
        )
        then, is_now = values
        more = f" and {len(streams) - 1} more" if len(streams) > 1 else ""
        which = (
            f"The STATE of stream {streams[0]!r}{more} in {self._url}" if streams[0] else f"The STATE in {self._url}"
        )
        few = [f" --only {name}" for name in streams if name] if len(streams) <= _MOST_NAMED and not are_all else []
        return IdentityError(
            f"{which} belongs to a target with {then}, and the pipeline's target now has {is_now}: rows that were "
            f"loaded before would be missing there. To load them there too, run it with --full-refresh{''.join(few)}. "
            f"Or name another 'state'; or, if the tables were moved with their rows, correct {TARGET!r} in that file"
        )

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


def _streams_of(state: Mapping[str, Any]) -> list[str]:
    """Return the streams that a STATE is about; "" for one without bookmarks."""
    if "bookmarks" in state:
        return list(state["bookmarks"].keys())
    return [""] if state else []


def no_state(url: Url) -> ConfigError:
    """Return the error for a file that holds something else."""
    return ConfigError(f"{url} is no STATE; restore it, or remove it to begin anew")
