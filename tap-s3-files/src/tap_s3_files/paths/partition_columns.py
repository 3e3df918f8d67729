"""Partition columns: values of all rows of an object from its key, as in `events/year=2024/region=eu/part-0.csv`.

Folders name their columns as Hive, Spark and Athena write them; the other columns are the named groups of paths, as in
`s3://bucket/{country:*}/{day:????-??-??}/*.csv`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from singer_arrow.errors import ConfigError, DataError, DriftError
from singer_arrow.storage.urls import Url, glob_regex, has_glob
from tap_s3_files.paths.date_paths import dates_as_wildcards

_GROUP = re.compile(r"\{(?!date:)([A-Za-z_][A-Za-z0-9_]*):([^{}/]*)\}")
_BEGUN = re.compile(r"\{(?!date:)[A-Za-z_][A-Za-z0-9_]*:")
_SET = re.compile(r"\[.[^\]]*\]", re.DOTALL)
_OPEN, _CLOSE = "\ue001", "\ue002"  # for private use, so in no key and no pattern
_TOUCHING = re.compile(rf"\*[{_OPEN}{_CLOSE}]+\*")


def group_names(path: Url) -> list[str]:
    """Return the names of a path's groups, in order."""
    return [m[1] for m in _GROUP.finditer(path.key)]


def without_names(path: Url) -> Url:
    """Replace the groups of a path by the patterns that they hold; dates remain."""
    return Url(path.scheme, path.bucket, _GROUP.sub(lambda m: _glob(m[2]), path.key))


@lru_cache(maxsize=1024)
def pattern(path: Url) -> re.Pattern[str]:
    """Matches the keys of a path, whatever dates they name; its groups are those of the path."""
    marked = _bracket_groups(path)
    text = glob_regex(dates_as_wildcards(marked)).pattern
    if not has_glob(dates_as_wildcards(marked, "0")):  # a folder, or an object
        text += ".*" if marked.endswith("/") else "(?:/.*)?"
    for name in group_names(path):
        text = text.replace(_OPEN, f"(?P<{name}>", 1)
    return re.compile(text.replace(_CLOSE, ")"), re.DOTALL)


def check_groups(paths: Iterable[Url], setting: str) -> None:
    """Check that all paths name the same groups, each of which is one."""
    known: set[str] | None = None
    for path in paths:
        found_names = group_names(path)
        if reason := _group_error(path):
            msg = f"Setting {setting!r}: {path} {reason}"
            raise ConfigError(msg)
        if known is not None and known != set(found_names):
            mine, theirs = (", ".join(sorted(n)) or "none" for n in (set(found_names), known))
            msg = (
                f"Setting {setting!r}: all paths of a stream have groups of the same names; "
                f"{path} has {mine}, the first {theirs}"
            )
            raise ConfigError(msg)
        known = set(found_names)


def _group_error(path: Url) -> str | None:
    found_names = group_names(path)
    if len(_BEGUN.findall(path.key)) != len(found_names):
        return "has a named group that is none; write it like {country:*}, with no slash and no braces in it"
    if twice := next((n for n in found_names if found_names.count(n) > 1), None):
        return f"has two groups named {twice!r}; give each a name of its own"
    for name, glob in _GROUP.findall(path.key):
        if name.startswith("_sdc_"):
            return f"has a group named {name!r}; names that begin with _sdc_ are the tap's own"
        if not glob or "**" in glob or "[" in _SET.sub("", glob):
            return (
                f"has a group {name!r} that is no pattern within one folder; use *, ?, [abc], a,b and plain characters"
            )
    if _TOUCHING.search(_bracket_groups(path)):
        return "has a * right beside another one, so their values are ambiguous; put a character between them"
    if any(_OPEN in m[0] or _CLOSE in m[0] for m in _SET.finditer(_bracket_groups(path))):
        return "has a named group between brackets; close them before it"
    glob_regex(dates_as_wildcards(without_names(path).key))  # raises ConfigError with the key as the user wrote it
    return None


def _bracket_groups(path: Url) -> str:
    return _GROUP.sub(lambda m: f"{_OPEN}{_glob(m[2])}{_CLOSE}", path.key)


def _glob(text: str) -> str:
    """Return the pattern of a group; commas separate alternatives."""
    return f"{{{text}}}" if "," in _SET.sub("", text) else text


_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_NULL = ("__HIVE_DEFAULT_PARTITION__", "")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class Partitions:
    """The partition columns of a stream: named groups of its `paths`, and with `hive` folders such as `year=2024`.

    A group comes before a folder of the same name.
    """

    paths: tuple[Url, ...] = ()
    hive: bool = False

    def texts(self, url: Url) -> dict[str, str | None]:
        """Return the partition columns of an object as text: folders in their order, then groups."""
        return (_folders(url) if self.hive else {}) | (self._groups(url) if self.paths else {})

    def infer(self, urls: Iterable[Url]) -> list[pa.Field]:
        """Infer the partition columns of objects, each with the type that all its values have.

        Integers and dates are detected; the rest is text, also numbers with leading zeros, which would lose them.
        """
        found: dict[str, set[pa.DataType]] = {}
        if self.hive or self.paths:
            for url in urls:
                for name, text in self.texts(url).items():
                    kinds = found.setdefault(name, set())
                    if text is None:
                        continue
                    try:
                        is_date = date.fromisoformat(text).isoformat() == text
                    except ValueError:
                        is_date = False
                    kinds.add(pa.int64() if _INTEGER.fullmatch(text) else pa.date32() if is_date else pa.string())
        return [pa.field(name, kinds.pop() if len(kinds) == 1 else pa.string()) for name, kinds in found.items()]

    def values(self, url: Url, schema: pa.Schema) -> dict[str, Any]:
        """Return the values of those partition columns of an object that a schema has, as its types."""
        texts = self.texts(url)
        return {field.name: _value(url, field, texts[field.name]) for field in schema if field.name in texts}

    def _groups(self, url: Url) -> dict[str, str | None]:
        for path in self.paths:
            same = (path.scheme, path.bucket) == (url.scheme, url.bucket)
            if same and (found := pattern(path).fullmatch(url.key)):
                return {name: None if (text := found[name]) in _NULL else text for name in group_names(path)}
        reason = f"it is of none of the stream's paths, so it has no value for {', '.join(group_names(self.paths[0]))}"
        hint = "A run with other paths has planned it: add the path that names it"
        raise DataError(reason, url=url, hint=hint)


def _folders(url: Url) -> dict[str, str | None]:
    folders = (_FOLDER.fullmatch(folder) for folder in url.key.split("/")[:-1])
    pairs = ((unquote(m[1]), unquote(m[2])) for m in folders if m)
    return {name: None if value in _NULL else value for name, value in pairs}


def _value(url: Url, field: pa.Field, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return pa.scalar(text).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        reason = f"its key has {text!r}, which is no {field.type}"
        raise DriftError(reason, [pa.field(field.name, pa.string())], url=url, column=field.name) from None


NO_PARTITIONS = Partitions()
"""Partitions of streams without partition columns."""
