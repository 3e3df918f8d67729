"""Run a command and record which of our functions it enters: `python -m house.trace RESULT MODULE [ARGUMENT...]`."""

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
    """The functions of ours that were entered, each once, in the order of their first calls."""

    def __init__(self) -> None:
        self.entered: dict[tuple[str, str], None] = {}
        self._files: dict[str, str | None] = {}

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & CO_OPTIMIZED or code.co_name in _NO_FUNCTIONS:
            return
        if (file := self._file(code.co_filename)) is not None:
            self.entered.setdefault((file, code.co_qualname))

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
        Path(result).write_text(json.dumps(list(trace.entered)))


if __name__ == "__main__":
    main()
