"""Run a command and record which of our functions it enters: `python -m house.trace RESULT MODULE [ARGUMENT...]`.

The result is a list of [file, function, thread, frames of ours above it], by thread, in the order of first calls.
"""

from __future__ import annotations

import importlib
import json
import sys
import threading
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("singer_arrow", "tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift")
_NO_FUNCTIONS = frozenset({"<module>", "<genexpr>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>"})


class Trace:
    """The functions of ours that were entered: each once a thread, in the order of first calls, and the least depth."""

    def __init__(self) -> None:
        self.entered: dict[tuple[str, str, str], int] = {}
        self._files: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & CO_OPTIMIZED or code.co_name in _NO_FUNCTIONS:
            return
        if (file := self._file(code.co_filename)) is not None:
            key = (file, code.co_qualname, threading.current_thread().name)
            if key not in self.entered:
                self.entered[key] = self._depth(frame)

    def _depth(self, frame: FrameType) -> int:
        depth, caller = 0, frame.f_back
        while caller is not None:
            code = caller.f_code
            is_function = code.co_flags & CO_OPTIMIZED and code.co_name not in _NO_FUNCTIONS
            depth += bool(is_function and self._file(code.co_filename) is not None)
            caller = caller.f_back
        return depth + 1

    def _file(self, path: str) -> str | None:
        if path not in self._files:
            parts = Path(path).parts
            package = next((number for number, part in enumerate(parts) if part in PACKAGES), None)
            self._files[path] = None if package is None else "/".join(parts[package:])
        return self._files[path]


def main() -> None:
    """Run the module's `main` with the arguments and write the functions to the result file as JSON."""
    result, module, *arguments = sys.argv[1:]
    sys.argv = [module, *arguments]
    trace = Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        importlib.import_module(module).main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        Path(result).write_text(json.dumps([[*key, depth] for key, depth in trace.entered.items()]))


if __name__ == "__main__":
    main()
