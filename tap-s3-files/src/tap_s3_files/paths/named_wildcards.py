"""Named groups in paths: `s3://bucket/{country:*}/{day:????-??-??}/*.csv`. Pure.

`without_names` returns the path for listing and matching; `pattern` extracts the values of a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url, glob_regex, has_glob
from tap_s3_files.paths.date_paths import dates_as_wildcards

_GROUP = re.compile(r"\{(?!date:)([A-Za-z_][A-Za-z0-9_]*):([^{}/]*)\}")
_BEGUN = re.compile(r"\{(?!date:)[A-Za-z_][A-Za-z0-9_]*:")
_SET = re.compile(r"\[.[^\]]*\]", re.DOTALL)
_OPEN, _CLOSE = "\ue001", "\ue002"  # for private use, so in no key and no pattern
_TOUCHING = re.compile(rf"\*[{_OPEN}{_CLOSE}]+\*")


def group_names(path: Url) -> list[str]:
    """The names of a path's groups, in order."""
    return [m[1] for m in _GROUP.finditer(path.key)]


def without_names(path: Url) -> Url:
    """The path with its groups as the patterns that they hold; dates stay."""
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
    """Find out whether each path names the same groups, each of which is one.

    Raises:
        ConfigError: It does not.
    """
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
