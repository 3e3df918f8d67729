"""Objects below a URL -> streams with paths: one for each folder, format and compression. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from singer_arrow.formats import detect_format
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.command_line import stream_name

_WILD = re.compile(r"[*?\[{]")
_DIGIT = "[0-9]*"
_MOST_NAMES = 20
"""Kinds of names in a folder above which all of them are one stream."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Objects that may be one stream: their path is a pattern, which matches later ones that are named alike too.

    `parts` is their division by name, into candidates of their own; empty if all are named alike.
    """

    path: str
    format: str
    objects: tuple[ObjectInfo, ...]
    parts: tuple[Candidate, ...] = ()


@dataclass(slots=True)
class _Folder:
    """Objects of one folder, or of folders that differ in dates and numbers only, with one suffix."""

    prefix: str
    suffix: str
    format: str
    objects: dict[str, list[ObjectInfo]] = field(default_factory=dict)
    """By the pattern of their names."""

    def candidate(self) -> Candidate:
        everything = tuple(o for found in self.objects.values() for o in found)
        parts = (
            Candidate(f"{self.prefix}{base}{self.suffix}", self.format, tuple(found))
            for base, found in self.objects.items()
        )
        is_divisible = 1 < len(self.objects) <= _MOST_NAMES
        return Candidate(f"{self.prefix}*{self.suffix}", self.format, everything, tuple(parts) if is_divisible else ())


def candidates(objects: Iterable[ObjectInfo]) -> tuple[list[Candidate], list[ObjectInfo]]:
    """Return the candidates for streams, by path, and the objects whose names imply no format.

    Empty objects and what begins with `_` or `.`, such as `_SUCCESS` and `_delta_log/`, belong to no stream.
    """
    folders: dict[tuple[str, str], _Folder] = {}
    unknown: list[ObjectInfo] = []
    for info in objects:
        if not info.size or any(part.startswith(("_", ".")) for part in info.url.key.split("/")):
            continue
        file_format = detect_format(info.url.name)
        if file_format is None:
            unknown.append(info)
            continue
        suffix = _suffix(info.url.name, file_format)
        *above, name = info.url.key.split("/")
        base = name.removesuffix(suffix)
        place = ""
        for part in above:  # folders may differ in a partition value, a date or a number
            key, mark, _ = part.partition("=")
            alike = f"{_literal(key)}=*" if mark and key else _DIGIT if part[:1].isdigit() else _literal(part)
            place += f"{alike}/"
        prefix = f"{Url(info.url.scheme, info.url.bucket, '')}{place}"
        folder = folders.setdefault((prefix, suffix), _Folder(prefix, suffix, file_format))
        digit = re.search(r"\d", base)
        alike = f"{_literal(base[: digit.start()])}{_DIGIT}" if digit else _literal(base)  # up to the first digit
        folder.objects.setdefault(alike, []).append(info)
    return [folders[key].candidate() for key in sorted(folders)], unknown


def unique_names(found: Sequence[Candidate]) -> list[str]:
    """Return a name for each stream: that of its folder or objects, with its format or a number if others share it."""
    names = [stream_name(c.path) for c in found]
    formats = [(name, c.format) for name, c in zip(names, found, strict=True)]
    taken: list[str] = []
    for name, file_format in formats:
        is_shared = names.count(name) > 1 and formats.count((name, file_format)) == 1
        full = f"{name}_{file_format}" if is_shared else name
        numbered = (f"{full}_{n}" for n in count(2))
        taken.append(full if full not in taken else next(n for n in numbered if n not in taken and n not in names))
    return taken


def _suffix(name: str, file_format: str) -> str:
    """Return the shortest end of a name that implies the format: `.csv.gz`."""
    parts = name.split(".")
    for first in range(len(parts) - 1, 0, -1):
        suffix = "." + ".".join(parts[first:])
        if detect_format(f"x{suffix}") == file_format:
            return suffix
    return ""


def _literal(text: str) -> str:
    return _WILD.sub(r"[\g<0>]", text)
