"""Write files that are made from the code, or check that they are up to date."""

import sys
from collections.abc import Mapping
from pathlib import Path


def write_or_check(files: Mapping[Path, str]) -> int:
    """Write texts to their files; with `--check`, name those that differ. Return the exit status."""
    if "--check" in sys.argv:
        stale = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
        if stale:
            sys.stderr.write(f"{', '.join(stale)}: not up to date: run make docs\n")
        return int(bool(stale))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return 0
