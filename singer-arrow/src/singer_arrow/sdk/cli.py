"""The command line around a connector; the SDK, imported without what is seldom used."""

from __future__ import annotations

import _thread
import errno
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from queue import SimpleQueue
from types import ModuleType
from typing import Any

from singer_arrow.errors import SingerArrowError, is_of_disk, is_of_memory, with_code
from singer_arrow.runtime.process import Terminated, begin, limit_arenas, received
from singer_arrow.runtime.startup import end_at_signals, need_output, shows_version
from singer_arrow.runtime.threads import interrupt

# Import the Singer SDK without the libraries that connectors here rarely use; this halves the time of its import.
#
# The SDK imports all it has at once: REST and GraphQL streams with requests, urllib3, backoff and jsonpath_ng, fsspec
# for its own batch files, joblib to drain sinks, packaging for `--about`, dotenv for `.env` files. During its import
# `sys.modules` has a `LazyModule` for each of these. The SDK's modules keep the lazy module, which imports the real one
# when an attribute of it is first used. After the import `sys.modules` has no lazy module, so other imports of these
# libraries get the real ones.
#
# `tests/unit/singer_arrow/sdk/test_lazy_import.py` lists what this relies on. If a new SDK breaks it, a library is
# imported early: then all lazy modules are removed, and that library and all later imports get the real modules.

DEFERRED: dict[str, tuple[str, ...]] = {
    "backoff": (),
    "dotenv": ("find_dotenv",),
    "dotenv.main": ("DotEnv",),
    "joblib": ("Parallel", "delayed", "parallel_config"),
    "packaging.specifiers": ("SpecifierSet",),
    "packaging.version": ("Version",),
    "requests": (),
    "requests.adapters": (),
    "requests.exceptions": (),
    "singer_sdk.helpers.jsonpath": ("extract_jsonpath",),
    "upath": ("UPath",),
    "urllib3": (),
}
"""Modules, each with the names that the SDK imports from it and only calls."""
_LOOKED_FOR = {"__cached__", "__file__"}  # by code that inspects every module


class LazyModule(ModuleType):
    """Import a module when an attribute of it is first used; `calls` may be imported from it, but only be called."""

    def __init__(self, name: str, *calls: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # a package, so that `_SubmoduleFinder` is asked for its modules
        for call in calls:
            setattr(self, call, self._deferred(call))

    def __getattr__(self, name: str) -> Any:
        if name in _LOOKED_FOR:
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> ModuleType:
        _remove_lazy_modules()
        return import_module(self.__name__)

    def _deferred(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._real(), name)(*args, **kwargs)

        return call


class _SubmoduleFinder(MetaPathFinder, Loader):
    """Find the submodules of a lazy module in the real package."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        if not isinstance(sys.modules.get(fullname.rpartition(".")[0]), LazyModule):
            return None
        _remove_lazy_modules()
        module = import_module(fullname)
        # The import system would run a module again whose spec is the one returned here, so it gets another one.
        self._specs[fullname], module.__spec__ = module.__spec__, spec_from_loader(fullname, self)
        return module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs.pop(module.__name__)


def _remove_lazy_modules() -> None:
    for name, module in list(sys.modules.items()):
        if isinstance(module, LazyModule):
            sys.modules.pop(name, None)  # another thread may have removed it


@contextmanager
def lazy_modules(deferred: Mapping[str, tuple[str, ...]] = DEFERRED) -> Iterator[None]:
    """Put lazy modules into `sys.modules` for those not imported yet; no other thread may import them meanwhile."""
    lazy = [LazyModule(name, *calls) for name, calls in deferred.items() if name not in sys.modules]
    sys.modules.update({module.__name__: module for module in lazy})
    finder = _SubmoduleFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _remove_lazy_modules()


def import_sdk() -> None:
    """Import the SDK with lazy modules; called at the start of each program."""
    with lazy_modules():
        import_module("singer_sdk")


# Run the command line of a connector: print `--version`, report an error as one line and end with exit code 1.

SDK = "singer_sdk"


def run_connector(name: str, load: Callable[[], Callable[[], object]], *, package: str = "") -> None:
    """Run a connector's command line.

    An expected error (a SingerArrowError, an error of the SDK for users, a full local disk) is one line on standard
    error, and the process ends with exit code 1. A traceback is added only when the log level is debug (`LOG_LEVEL`,
    `LOGLEVEL` or the connector's own `<NAME>_LOGLEVEL`). Anything else is a bug and shows its traceback. A signal ends
    the process with exit code 128 + its number, after one line too.

    Args:
        name: Name of the executable.
        load: Imports the connector and returns its command; not called for `--version`.
        package: Name of the distribution, whose version `--version` prints; by default that of the executable.
    """
    if shows_version(name, package or name):
        return
    need_output(name)
    if sys.platform == "win32":
        sys.exit(f"{name}: Windows is not supported: run it in WSL or in a container")
    end_at_signals(name)
    limit_arenas()
    begin()
    _set_hooks(name)
    umask = os.umask(0o077)  # what is written to local disks is for this user alone, as temporary folders are
    try:
        _set_hooks(name)
        gc.disable()
        try:
            import_sdk()
            command = load()
        finally:
            gc.freeze()  # what is imported is never garbage, so no collection looks at it, also later
            gc.enable()
        for number in (signal.SIGINT, signal.SIGTERM):  # a connector sets handlers of its own, other commands do not
            if callable(signal.getsignal(number)):
                signal.signal(number, lambda received, _: interrupt(Terminated(received)))
        command()
    except Terminated as ended:
        ended.log(logging.getLogger(name))
        raise
    except Exception as error:
        if (signalled := received()) is not None:  # a library replaced the exception of the signal by its own error
            signalled.log(logging.getLogger(name))
            raise signalled from None
        lines = _lines(error)
        if not lines and not _writes_json():
            raise
        levels = (f"{name.upper().replace('-', '_')}_LOGLEVEL", "LOG_LEVEL", "LOGLEVEL")
        if not lines or any(os.environ.get(level, "").lower() == "debug" for level in levels):
            _report(name, error)
        for line in lines:
            if logging.getLogger().handlers:
                logging.getLogger(name).error(line)
            else:
                print(f"{name}: {line}", file=sys.stderr)  # noqa: T201 - logging was not set up yet
        sys.exit(1)
    finally:
        os.umask(umask)


def _set_hooks(name: str) -> None:
    """Mask secrets in unexpected tracebacks, and end the process when a thread ends for lack of memory, in one line.

    Others would wait for such a thread for ever: `Thread.start` for one that cannot begin, tasks for one that ends.
    What is lost is what a kill would lose: nothing that is durable. A signal whose exception was ignored is sent again.
    """
    spare = f"{name}: This process cannot get more memory or threads: out of memory [memory]\n".encode()
    others: SimpleQueue[sys.UnraisableHookArgs] = SimpleQueue()

    def show(error: BaseException) -> None:
        for line in _lines(error):
            text = json.dumps({"level": "error", "message": line}) if _writes_json() else f"{name}: {line}"
            os.write(2, f"{text}\n".encode())

    def end(error: BaseException) -> None:
        try:
            show(error)
        except MemoryError:
            os.write(2, spare)
        finally:
            os._exit(1)

    def in_thread(thrown: threading.ExceptHookArgs) -> None:
        if thrown.exc_value is not None and is_of_memory(thrown.exc_value):
            end(thrown.exc_value)
        _report(name, thrown.exc_value)

    def elsewhere() -> None:
        while True:
            thrown = others.get()
            if isinstance(thrown.exc_value, MemoryError) and "thread started by" in (thrown.err_msg or ""):
                end(thrown.exc_value)
            if isinstance(thrown.exc_value, Terminated):  # a finalizer was interrupted, which ignores exceptions
                time.sleep(0.05)  # until it has ended
                if thrown.exc_value is received():  # none was raised since, as where the next line would begin
                    os.kill(os.getpid(), thrown.exc_value.signum)
            elif thrown.exc_value is not None and is_of_disk(thrown.exc_value):
                show(thrown.exc_value)  # a file that could not be written is closed by its finalizer
            else:
                _report(name, thrown.exc_value)
            del thrown

    threading.excepthook = in_thread
    sys.excepthook = lambda kind, error, trace: _report(name, error)  # noqa: ARG005 - a hook's signature
    # A thread that cannot begin has no memory to call a Python function: `put` is in C, and `elsewhere` runs already
    sys.unraisablehook = others.put
    _thread.start_new_thread(elsewhere, ())


def _report(name: str, error: BaseException | None) -> None:
    """Show an unexpected error with its traceback, without the secrets that are known by now."""
    if error is None:
        return
    text = "".join(traceback.format_exception(error))
    if "singer_arrow.monitoring.logs" not in sys.modules:
        sys.stderr.write(text)
        return
    from singer_arrow.monitoring.logs import log_exception, mask_known, writes_json

    if writes_json():
        log_exception(logging.getLogger(name), error)
    else:
        sys.stderr.write(mask_known(text))


def _writes_json() -> bool:
    if SDK not in sys.modules:
        return False
    from singer_arrow.monitoring.logs import writes_json

    return writes_json()


def _lines(error: BaseException) -> list[str]:
    """Return the lines for an expected error, or for a full disk or memory; none for a bug."""
    if type(error).__name__ == "ConfigValidationError" and _is_sdk(error):
        return [" ".join(str(e).split()) for e in getattr(error, "errors", [])]
    if isinstance(error, SingerArrowError) or _is_sdk(error):
        return [with_code(str(error) or type(error).__name__, getattr(error, "code", "sdk"))]
    if isinstance(error, OSError) and is_of_disk(error):
        cause = error.strerror if error.errno == errno.ENOENT else os.strerror(error.errno or 0)
        try:
            folder = tempfile.gettempdir()
        except OSError:  # none is writable
            folder = ""
        place = error.filename or (f"temporary files are in {folder}" if folder else "")
        reason = f"{cause} ({place})" if place else cause
        is_temporary = not error.filename or str(error.filename).startswith(folder or "?")
        advice = f"make room or raise the limit, or {'set TMPDIR elsewhere' if is_temporary else 'name another place'}"
        return [with_code(f"The local disk refuses a file: {reason}; {advice}", "disk")]
    if is_of_memory(error):
        reason = str(error) or "out of memory"
        advice = "lower memory_limit_mb or max_workers, or allow more"
        return [with_code(f"This process cannot get more memory or threads: {reason}; {advice}", "memory")]
    return []


def _is_sdk(error: BaseException) -> bool:
    """Return whether an error is one that the SDK reports to users; does not import the SDK."""
    return type(error).__module__ in (f"{SDK}.exceptions", f"{SDK}.singerlib.exceptions")
