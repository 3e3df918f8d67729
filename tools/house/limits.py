"""The limits of limits.toml compared with the measured figures."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from house import circles, folders, names, pages, private, words
from house.source import AREAS

FILE = Path(__file__).with_name("limits.toml")
MODULES_IN_FOLDER = 24
LINES_OF_FILE = 700
WORDS_OF_PAGE = 1200
HEADER = """# Limits that may only fall; `make house ARGS=--lower` sets them to what is measured.
# Absent: 0, 700 lines, 1,200 words."""


def faults() -> Iterator[str]:
    """Return what breaks a limit, a line each."""
    kept = tomllib.loads(FILE.read_text())
    for folder, count in folders.module_counts().items():
        if count > MODULES_IN_FOLDER:
            yield f"{folder}: {count} modules, {MODULES_IN_FOLDER} are allowed"
    for path, lines in folders.lengths().items():
        if lines > kept["long_files"].get(path, LINES_OF_FILE):
            yield f"{path}: {lines} lines, {kept['long_files'].get(path, LINES_OF_FILE)} are allowed"
    for page, count in pages.words().items():
        if count > (limit := kept["long_pages"].get(page, WORDS_OF_PAGE)):
            yield f"{page}: {count:,} words, {limit:,} are allowed"
    for name, size in _sizes().items():
        if size > kept["sizes"][name]:
            yield f"{name}: {size:,}, {kept['sizes'][name]:,} are allowed"
    for kind, lines_by_area in _falling().items():
        for area, lines_of_area in lines_by_area.items():
            if len(lines_of_area) > (limit := kept[kind].get(area, 0)):
                yield from lines_of_area
                yield f"{area}: {len(lines_of_area)} {kind}, {limit} are allowed"


def lower() -> None:
    """Write the measured figures into limits.toml where they are below the limits."""
    kept = tomllib.loads(FILE.read_text())
    lines = [HEADER, "", "[long_files]"]
    lengths = folders.lengths()
    for path, limit in sorted(kept["long_files"].items()):
        if (length := lengths.get(path, 0)) > LINES_OF_FILE:
            lines.append(f'"{path}" = {min(limit, length)}')
    lines += ["", "[long_pages]"]
    for page, limit in sorted(kept["long_pages"].items()):
        if (count := pages.words().get(page, 0)) > WORDS_OF_PAGE:
            lines.append(f'"{page}" = {min(limit, count)}')
    lines += ["", "[sizes]", *(f"{name} = {min(kept['sizes'][name], n)}" for name, n in _sizes().items())]
    for kind, found in _falling().items():
        lines += ["", f"[{kind}]"]
        for area in AREAS:
            if count := min(kept[kind].get(area, 0), len(found.get(area, []))):
                lines.append(f"{area} = {count}")
    FILE.write_text("\n".join(lines) + "\n")


def lines_of(area: str) -> list[str]:
    """Return every line that counts against a limit in a part of the workspace."""
    return [line for found in _falling().values() for line in found.get(area, [])]


def _sizes() -> dict[str, int]:
    return folders.sizes() | {"words_of_pages": sum(pages.words().values())}


def _falling() -> dict[str, dict[str, list[str]]]:
    """Return the lines that break a rule, by rule and area."""
    private_members = [f"{path}:{use}" for path, uses in private.uses().items() for use in uses]
    return {
        "words": words.found(),
        "circles": _by_area(", ".join(circle) for circle in circles.circles()),
        "map_faults": _by_area(folders.map_faults()),
        "ambiguous_names": _by_area(f"{name}: {', '.join(sorted(modules))}" for name, modules in _ambiguous().items()),
        "private_members": {"tests": private_members},
    }


def _ambiguous() -> names.Definitions:
    return names.ambiguous_classes() | names.ambiguous_functions()


def _by_area(lines: Iterator[str] | list[str]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for line in lines:
        area = next(area for area in AREAS if area in line)
        result.setdefault(area, []).append(line)
    return result
