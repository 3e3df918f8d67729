"""The version; signals while a connector is imported, and a closed output: one line, no traceback.

Imports next to nothing itself.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType


def end_at_signals(name: str) -> None:
    """End the process at once, with one line and exit code 128 + its number, at a signal that nothing handles yet.

    Call this before other imports; the run sets handlers of its own later. Signals that are ignored stay so.
    """

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signature of handlers
        os.write(2, f"{name}: Interrupted ({signal.Signals(number).name})\n".encode())
        os._exit(128 + number)  # an exception could be swallowed by a module that is half imported

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, end)


def need_output(name: str) -> None:
    """End the process with one line if its standard output is closed.

    The first file that it opens would be in the place of the output, and get what is written there.
    """
    if sys.stdout is None:
        sys.exit(f"{name}: Standard output is closed; pipe it into a target, or redirect it, for instance to /dev/null")


def shows_version(name: str, package: str) -> bool:
    """Print the version of a connector's package and of the SDK if `--version` asks for them; return whether it did."""
    if "--version" not in sys.argv[1:]:
        return False
    need_output(name)
    from importlib.metadata import PackageNotFoundError, version

    found = []
    for each in (package, "singer_sdk"):
        try:
            found.append(version(each))
        except PackageNotFoundError:
            found.append("[could not be detected]")
    sys.stdout.write(f"{name} v{found[0]}, Meltano SDK v{found[1]}\n")
    return True
