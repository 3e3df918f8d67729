"""Run the command line of a connector: print `--version`, report an error as one line and end with exit code 1."""

from __future__ import annotations

import errno
import gc
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType

from singer_arrow.errors import SingerArrowError, is_of_disk, is_of_memory, with_code
from singer_arrow.runtime.malloc import limit_arenas
from singer_arrow.runtime.startup import end_at_signals
from singer_arrow.runtime.termination import Terminated, begin, received
from singer_arrow.runtime.threads import interrupt
from singer_arrow.sdk.lazy_import import import_sdk

SDK = "singer_sdk"


def run(name: str, load: Callable[[], Callable[[], object]], *, package: str = "") -> None:
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
    if "--version" in sys.argv[1:]:
        print(f"{name} v{_version(package or name)}, Meltano SDK v{_version(SDK)}")  # noqa: T201 - what the option is for
        return
    if sys.platform == "win32":
        sys.exit(f"{name}: Windows is not supported: run it in WSL or in a container")
    end_at_signals(name)
    limit_arenas()
    _set_hooks(name)
    begin()
    umask = os.umask(0o077)  # what is written to local disks is for this user alone, as temporary folders are
    try:
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
            if _writes_json():
                from singer_arrow.monitoring.logs import log_exception

                log_exception(logging.getLogger(name), error)
            else:
                sys.stderr.write(_masked(traceback.format_exc()))
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
    What is lost is what a kill would lose: nothing that is durable.
    """

    def end(error: BaseException) -> None:
        for line in _lines(error):
            text = json.dumps({"level": "error", "message": line}) if _writes_json() else f"{name}: {line}"
            os.write(2, f"{text}\n".encode())
        os._exit(1)

    def of_threads(thrown: threading.ExceptHookArgs, before: Callable[..., object] = threading.excepthook) -> None:
        if thrown.exc_value is not None and is_of_memory(thrown.exc_value):
            end(thrown.exc_value)
        if before is not threading.__excepthook__ or thrown.exc_value is None:
            before(thrown)
        else:
            sys.stderr.write(_masked("".join(traceback.format_exception(thrown.exc_value))))

    def unraisable(thrown: sys.UnraisableHookArgs, before: Callable[..., object] = sys.unraisablehook) -> None:
        if isinstance(thrown.exc_value, MemoryError) and "thread started by" in (thrown.err_msg or ""):
            end(thrown.exc_value)
        before(thrown)

    def unexpected(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(_masked("".join(traceback.format_exception(kind, error, trace))))

    threading.excepthook, sys.unraisablehook = of_threads, unraisable
    sys.excepthook = unexpected


def _masked(text: str) -> str:
    """Return a traceback without the secrets that are known by now."""
    if "singer_arrow.monitoring.logs" not in sys.modules:
        return text
    from singer_arrow.monitoring.logs import mask_known

    return mask_known(text)


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
        return [with_code(f"This machine refuses a file: {reason}; {advice}", "disk")]
    if is_of_memory(error):
        reason = str(error) or "out of memory"
        advice = "lower memory_limit_mb or max_workers, or allow more"
        return [with_code(f"This machine refuses memory or threads: {reason}; {advice}", "memory")]
    return []


def _is_sdk(error: BaseException) -> bool:
    """Return whether an error is one that the SDK reports to users; does not import the SDK."""
    return type(error).__module__ in (f"{SDK}.exceptions", f"{SDK}.singerlib.exceptions")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "[could not be detected]"
