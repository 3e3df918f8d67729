"""Files, modules, functions, classes and constants named in the contributor guides exist."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import singer_arrow

ROOT = Path(__file__).parents[2]
GUIDES = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/add-a-format.md", "docs/add-a-target.md"]
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"[\w*]+(?:/[\w*.-]+)+/?$|[\w*]+\.py$")
NAME = re.compile(r"_?[A-Z][A-Z_]{3,}$|(?:[A-Z][a-z]+){2,}(?:\.\w+)?$")
DOTTED = re.compile(rf"(?:{'|'.join(m.name for m in iter_modules(singer_arrow.__path__))})(?:\.\w+)+$")
NOT_HERE = {"formats/NAME.py", "formats/NAME/", "tests/unit/PACKAGE/..."}
"""Paths with placeholders."""


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


FILES = tracked()


def exists(text: str) -> bool:
    """Return whether a tracked file has this path, or ends with it, or is below it."""
    pattern = text.rstrip("/")
    return any(fnmatch(f"/{file}", f"*/{pattern}") or fnmatch(f"/{file}", f"*/{pattern}/*") for file in FILES)


def resolves(text: str) -> bool:
    """Return whether a dotted name below singer_arrow is a module, or a name in one."""
    parts = text.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            value: object = import_module(".".join(["singer_arrow", *parts[:depth]]))
        except ModuleNotFoundError:
            continue
        for name in parts[depth:]:
            value = getattr(value, name, None)
        return value is not None
    return False


def is_defined(name: str) -> bool:
    """Return whether a Python file of the packages or of the examples has the name."""
    word = re.compile(rf"\b{name.partition('.')[0]}\b")
    return any(
        word.search((ROOT / file).read_text())
        for file in FILES
        if re.match(r"[\w-]+/src/.*\.py$|examples/.*\.py$", file)
    )


def missing(text: str) -> list[str]:
    named = set(CODE.findall(FENCED.sub("", text))) - NOT_HERE
    paths = {name for name in named if PATH.match(name)}
    return [
        *(name for name in paths if not exists(name)),
        *(name for name in named - paths if DOTTED.match(name) and not resolves(name)),
        *(name for name in named if NAME.match(name) and not is_defined(name)),
    ]


@pytest.mark.parametrize("guide", GUIDES)
def test_what_is_named_exists(guide: str) -> None:
    assert missing((ROOT / guide).read_text()) == []


def test_what_is_missing_is_found() -> None:
    named = "`formats/gone.py` `formats/base.py` `formats.base.Gone` `formats.base.Format` `GoneError` `DataError`"
    assert sorted(missing(named)) == ["GoneError", "formats.base.Gone", "formats/gone.py"]
