"""Which keys match the paths of a stream; dates and partition columns in paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from singer_arrow.batch.message import LogObjects
from singer_arrow.errors import ConfigError, DataError, DriftError, NotFoundError
from singer_arrow.storage.listing import ObjectPage
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url, glob_match, glob_prefix, glob_regex, has_glob

# Dates in paths: `s3://bucket/logs/{date:%Y/%m/%d}/*.gz`. Pure.
#
# Only the places of the dates in the window are listed. What counts is the date that the key names, not the time of the
# object's last change, so that runs over windows that follow each other read each object once.

Window = tuple[datetime | None, datetime | None]
"""The settings `start_date` and `end_date`."""

MAX_PREFIXES = 100_000
_DATE = re.compile(r"\{date:([^{}]*)\}")
_DIRECTIVE = re.compile(r"%(.?)")
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2}
_NEEDS = {"Y": "", "y": "", "m": "Y", "d": "Ym", "j": "Y", "H": "Ymd", "M": "YmdH"}
"""Directives that each directive requires, so that a date is unambiguous."""
_DAY = timedelta(days=1)
_NEVER = datetime.max.replace(tzinfo=UTC)
_MARK = "\ue000"  # for private use, so in no key and no pattern


def has_date(path: Url) -> bool:
    """Return whether a path has a date in it."""
    return _DATE.search(path.key) is not None


def dates_as_wildcards(key: str, digit: str = "[0-9]") -> str:
    """Replace each digit of the dates in a path's key."""
    return _DATE.sub(lambda date: _DIRECTIVE.sub(lambda d: digit * _DIGITS[d[1]], date[1]), key)


def check_date_pattern(path: Url, setting: str) -> None:
    """Check that the dates of a path can be counted through."""
    used = _directives(path)
    known = {"Y" if d == "y" else d for d in used} | ({"m", "d"} if "j" in used else set())
    if unknown := [d for d in used if d not in _DIGITS]:
        msg = f"Setting {setting!r}: a date in a path has no %{unknown[0]}; use {', '.join('%' + d for d in _DIGITS)}"
    elif missing := next((n for d in used for n in _NEEDS[d] if n not in known), None):
        msg = f"Setting {setting!r}: {path} names no date without %{missing}; add it"
    elif not used:
        msg = f"Setting {setting!r}: {path} has a date without directives; write it like {{date:%Y/%m/%d}}"
    else:
        return
    raise ConfigError(msg)


_AGO = re.compile(r"-(\d{1,5})([hdw])", re.ASCII)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def moment_in(text: str, name: str, now: datetime | None = None) -> datetime:
    """Return the time of a date or a time, or of one that is relative to now, in UTC."""
    now = now or datetime.now(UTC)
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if text in ("today", "yesterday"):
        return today - timedelta(days=text == "yesterday")
    if text in _DAYS:
        return today - timedelta(days=(today.weekday() - _DAYS.index(text)) % 7)
    if ago := _AGO.fullmatch(text):
        count = int(ago[1])
        if ago[2] == "h":
            return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=count)
        return today - timedelta(days=count * (7 if ago[2] == "w" else 1))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        msg = (
            f"Setting {name!r} is {text!r}, it must be a date or a time like 2024-05-01T00:00:00Z, or like -7d, "
            "yesterday or monday"
        )
        raise ConfigError(msg) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def check_moment(path: Url, moment: datetime | None, setting: str) -> None:
    """Check that a window begins or ends where a place does: part of a place can be read by no window."""
    if moment is not None and (begin := _floor(path)(moment.astimezone(UTC))) != moment:
        raise ConfigError(
            f"Setting {setting!r}: {moment.isoformat()} lies within one of the dates of {path}; use {begin.isoformat()}"
        )


def last_date(now: datetime) -> datetime:
    """Return before which date the places are that are listed without an end: clocks and zones differ."""
    return now + _DAY


def resolve_dates(
    paths: Iterable[Url],
    start: datetime | None,
    end: datetime | None,
    now: datetime,
    *,
    begin: Url | None = None,
) -> list[Url]:
    """Replace the dates of paths by those of [start, end), or by wildcards without a start.

    Without an end it is tomorrow's. If keys ascend with time, and objects up to
    `begin` are known, the places before it are left out.
    """
    found: list[Url] = []
    for path in paths:
        places = _dated(path, start, end or last_date(now)) if has_date(path) else [path]
        known = (
            begin is not None and has_date(path) and any(glob_match(p.key, begin.key) for p in _dated(path, None, now))
        )
        for place in places:
            prefix = glob_prefix(place.key)
            if not (known and begin and prefix < begin.key and not begin.key.startswith(prefix)):
                found.append(place)
    return found


def matches_key(path: Url, key: str, start: datetime | None, end: datetime | None) -> bool:
    """Return whether a key matches a path with a date in [start, end), without listing the dates.

    Without `start` any digits match, also those that are no date.
    """
    found = date_pattern(path).fullmatch(key)
    if found is None or start is None:
        return found is not None
    digits: dict[str, str] = {}
    for group, value in found.groupdict().items():
        if value is not None and digits.setdefault(group[0], value) != value:
            return False
    try:
        moment = datetime.strptime(" ".join(digits.values()), " ".join(f"%{d}" for d in digits)).replace(tzinfo=UTC)
    except ValueError:  # the digits are no date
        return False
    return all(moment.strftime(f"%{d}") == n for d, n in digits.items()) and start <= moment < (end or _NEVER)


@lru_cache(maxsize=1024)
def date_pattern(path: Url) -> re.Pattern[str]:
    """Return the pattern of a path's keys; its groups are the digits of its dates: `Y0`, `m1`, ... by place."""
    places: list[str] = []

    def mark(directive: re.Match[str]) -> str:
        places.append(directive[1])
        return _MARK

    def group(_: re.Match[str]) -> str:
        place = next(numbers)
        return f"(?P<{places[place]}{place}>[0-9]{{{_DIGITS[places[place]]}}})"

    key = _DATE.sub(lambda date: _DIRECTIVE.sub(mark, date[1]), path.key)
    numbers = count()
    text = re.sub(_MARK, group, glob_regex(key).pattern)
    if not has_glob(key):
        text += ".*" if key.endswith("/") else "(?:/.*)?"
    return re.compile(text, re.DOTALL)


def _dated(path: Url, start: datetime | None, end: datetime) -> list[Url]:
    def url(change: Callable[[re.Match[str]], str]) -> Url:
        return Url(path.scheme, path.bucket, _DATE.sub(change, path.key))

    if start is None:
        wild = Url(path.scheme, path.bucket, dates_as_wildcards(path.key))
        below = Url(path.scheme, path.bucket, f"{wild.key.removesuffix('/')}/**")
        return [wild] if has_glob(_DATE.sub("", path.key)) else [wild, below]
    found: list[Url] = []
    for moment in _moments(path, start.astimezone(UTC), end.astimezone(UTC)):
        found.append(url(lambda m, at=moment: _DIRECTIVE.sub(lambda d: at.strftime(d[0]), m[1])))  # type: ignore[misc]
        if len(found) > MAX_PREFIXES:
            msg = f"{path} has more than {MAX_PREFIXES:,} places since start_date; set a later one, or an end_date"
            raise ConfigError(msg)
    return found


def _directives(path: Url) -> list[str]:
    return [d for text in _DATE.findall(path.key) for d in _DIRECTIVE.findall(text)]


def _floor(path: Url) -> Callable[[datetime], datetime]:
    """Gives the beginning of the place that a moment lies in."""
    used = set(_directives(path))
    whole: dict[str, int] = {"second": 0, "microsecond": 0}
    if "M" not in used:
        whole["minute"] = 0
    if not used & {"M", "H"}:
        whole["hour"] = 0
    if not used & {"M", "H", "d", "j"}:
        whole["day"] = 1
    if not used & {"M", "H", "d", "j", "m"}:
        whole["month"] = 1
    return lambda moment: moment.replace(**whole)  # type: ignore[arg-type]


def _moments(path: Url, start: datetime, end: datetime) -> Iterator[datetime]:
    """Yield the beginning of each place whose beginning lies in [start, end)."""
    floor, used = _floor(path), set(_directives(path))
    step = timedelta(minutes=1) if "M" in used else timedelta(hours=1) if "H" in used else _DAY
    if not used & {"M", "H", "d", "j"}:
        step = timedelta(days=31 if "m" in used else 366)  # into the next month or year, whose beginning is taken
    moment = floor(start)
    while moment < end:
        yield moment
        moment = floor(moment + step)


# Match objects against the paths of a stream.

_CHOICE = re.compile(r"\{([^{}\[\]*?]*,[^{}\[\]*?]*)\}")
_OWN_NAME = r"--[0-9a-f]{32}-[0-9]+-[0-9]+\.(?:parquet|jsonl|arrow)(?:\.gz)?"


@dataclass(frozen=True, slots=True)
class ListedPrefix:
    """A path of a stream with the prefix by which its objects are listed: a bucket and the beginning of keys.

    `object` is set if the path names a single one; nothing is listed then.
    """

    path: Url
    prefix: Url
    object: ObjectInfo | None = None

    def matches(self, url: Url) -> bool:
        """Return whether the path matches an object."""
        if self.object is not None:
            return url == self.object.url
        place = self.prefix
        if (url.scheme, url.bucket) != (place.scheme, place.bucket) or not url.key.startswith(place.key):
            return False
        return not has_glob(self.path.key) or glob_match(self.path.key, url.key)

    def selects(self, keys: Iterable[str]) -> Iterator[bool]:
        """Yield for each key whether the path matches it; the keys must begin with the prefix."""
        if not has_glob(self.path.key):
            return (True for _ in keys)
        match = glob_regex(self.path.key).fullmatch
        return (match(key) is not None for key in keys)


def listed_prefixes(storage: Storage, paths: Iterable[Url]) -> list[ListedPrefix]:
    """Return the prefixes to list for some paths: one for each alternative before the first other wildcard.

    A path with wildcards is a pattern. A path that ends with a slash, or of which no object exists, is a folder, and
    matches all objects below it.
    """
    return [_listed_prefix(storage, path) for path in dict.fromkeys(p for path in paths for p in _alternatives(path))]


def find(storage: Storage, paths: Iterable[Url], *, own: Iterable[Url] = ()) -> Iterator[ObjectInfo]:
    """Yield the objects that match any of the paths, each once, in any order.

    `own` are folders to which this tap writes; its plans and batch files are left out.
    """
    parts, roots = listed_prefixes(storage, paths), list(own)
    for part, earlier in zip(parts, earlier_overlaps(parts), strict=True):
        for page in listed_pages(storage, part):
            yield from page.select(found_first(page.keys, part, earlier, roots)).objects(part.prefix)


def listed_pages(storage: Storage, part: ListedPrefix, *, after: str = "") -> Iterator[ObjectPage]:
    """Yield the objects of a listed prefix whose keys follow `after`, or its single object."""
    return iter([ObjectPage.of([part.object])]) if part.object else storage.list_pages(part.prefix, after=after)


def earlier_overlaps(parts: Sequence[ListedPrefix]) -> list[list[ListedPrefix]]:
    """Return for each prefix the earlier ones that may match the same objects: one begins with the other."""
    found: list[list[int]] = [[] for _ in parts]
    enclosing: list[int] = []
    prefixes = [str(part.prefix) for part in parts]
    for number in sorted(range(len(parts)), key=prefixes.__getitem__):
        while enclosing and not prefixes[number].startswith(prefixes[enclosing[-1]]):
            enclosing.pop()
        for other in enclosing:
            found[max(number, other)].append(min(number, other))
        enclosing.append(number)
    return [[parts[number] for number in sorted(earlier)] for earlier in found]


def found_first(
    keys: Sequence[str], part: ListedPrefix, earlier: Sequence[ListedPrefix], own: Iterable[Url]
) -> list[bool]:
    """Return for each listed key whether the path matches it, and no earlier path and no folder of `own` does."""
    mask = list(part.selects(keys))
    place = part.prefix
    roots = [root for root in own if (root.scheme, root.bucket) == (place.scheme, place.bucket)]
    if not earlier and not roots:
        return mask
    for number, key in enumerate(keys):
        if mask[number]:
            url = Url(place.scheme, place.bucket, key)
            mask[number] = not any(p.matches(url) for p in earlier) and not any(_is_own(url, root) for root in roots)
    return mask


def _listed_prefix(storage: Storage, path: Url) -> ListedPrefix:
    if has_glob(path.key):
        return ListedPrefix(path, Url(path.scheme, path.bucket, glob_prefix(path.key)))
    if path.key and not path.key.endswith("/"):
        with suppress(NotFoundError):  # it may be a folder; a missing bucket is met again when that is listed
            return ListedPrefix(path, path, storage.head(path))
    folder = path.key.rstrip("/") + "/" if path.key else ""
    return ListedPrefix(path, Url(path.scheme, path.bucket, folder))


def _alternatives(path: Url) -> list[Url]:
    """Return a path for each alternative of `{a,b}` that comes before any other wildcard."""
    found = _CHOICE.search(path.key)
    if found is None or has_glob(path.key[: found.start()]):
        return [path]
    keys = [path.key[: found.start()] + choice + path.key[found.end() :] for choice in found[1].split(",")]
    return [p for key in keys for p in _alternatives(Url(path.scheme, path.bucket, key))]


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Filter of the objects that an inventory or a queue reports for a stream; in the folders `own` this tap writes.

    `dates` bound dates in paths, `window` the time of last modification: from the first on, before the second.
    `moments` are both as they are given, where they are relative: they stay the same from run to run. `now` is when the
    run began. `given` is `path` in the settings, where the paths are those of folders that were found by it.
    """

    stream: str
    paths: tuple[Url, ...]
    own: tuple[Url, ...] = ()
    dates: Window = (None, None)
    window: Window = (None, None)
    moments: tuple[str, ...] = ()
    now: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    given: tuple[Url, ...] = ()

    def matches(self, url: Url) -> bool:
        """Return whether `find` would yield an object of this URL if it existed."""
        own = any(_is_own(url, root) for root in self.own)
        return not own and any(
            matches_key(path, url.key, *self.dates) if has_date(path) else _path_pattern(path).fullmatch(url.key)
            for path in self.paths
            if _is_same_bucket(path, url)
        )

    def objects(self) -> LogObjects:
        """Return below which places the objects are, and in which dates or times."""
        roots = sorted({_root(path) for path in self.paths})
        kind = "date" if any(self.dates) and all(map(has_date, self.paths)) else "time" if any(self.window) else ""
        kind = "" if self.moments else kind  # relative ones are others in each run
        bounds = {"date": self.dates, "time": self.window}.get(kind, (None, None))
        begin, end = (f"{bound.astimezone(UTC):%Y-%m-%dT%H:%M:%S}" if bound else "" for bound in bounds)
        return LogObjects(tuple(roots), kind, begin, end)

    def select(self, bucket: Url, keys: pa.Array) -> pa.BooleanArray:
        """Return for each key of a bucket what `matches` returns, many times as fast; keys are without nulls."""
        import pyarrow.compute as pc

        mask = pa.repeat(False, len(keys))
        for path in (path for path in self.paths if _is_same_bucket(path, bucket)):
            named = _full_matches(date_pattern(path) if has_date(path) else _path_pattern(path), keys)
            if has_date(path) and self.dates[0] is not None:
                chosen = zip(named.to_pylist(), keys.to_pylist(), strict=True)
                named = pa.array([may and matches_key(path, key, *self.dates) for may, key in chosen], pa.bool_())
            mask = pc.or_(mask, named)
        for root in self.own:
            if _is_same_bucket(root, bucket):
                mask = pc.and_(mask, pc.invert(_full_matches(_own_pattern(root), keys)))
        return mask


def _root(path: Url) -> str:
    """Return the folder before the first wildcard or placeholder of a path; of a path without one, itself."""
    key = re.split(r"[*?\[{]", path.key, maxsplit=1)
    folder = f"{key[0].rstrip('/')}/" if len(key) == 1 else key[0].rpartition("/")[0] + "/"
    return f"{path.scheme}://{path.bucket}/{folder.lstrip('/')}"


def _full_matches(pattern: re.Pattern[str], keys: pa.Array) -> pa.BooleanArray:
    """Return for each key whether the pattern matches all of it."""
    import pyarrow.compute as pc

    try:
        return pc.match_substring_regex(keys, f"(?s)^(?:{pattern.pattern})$")
    except pa.ArrowInvalid:  # RE2, which Arrow uses, has no lookahead
        return pa.array([pattern.fullmatch(key) is not None for key in keys.to_pylist()], pa.bool_())


@lru_cache(maxsize=1024)
def _path_pattern(path: Url) -> re.Pattern[str]:
    """Return the pattern of the keys that a path without dates names."""
    if has_glob(path.key):
        return glob_regex(path.key)
    if not path.key or path.key.endswith("/"):
        return re.compile(re.escape(path.key) + ".*", re.DOTALL)
    return re.compile(re.escape(path.key) + "(?:/.*)?", re.DOTALL)


@lru_cache(maxsize=1024)
def _own_pattern(root: Url) -> re.Pattern[str]:
    """Return the pattern of the keys of plans and batch files below a folder."""
    folder = re.escape(f"{root.key.rstrip('/')}/") if root.key else ""
    return re.compile(f"{folder}(?:_plans/.*|.*{_OWN_NAME})", re.DOTALL)


def _is_own(url: Url, root: Url) -> bool:
    return _is_same_bucket(url, root) and _own_pattern(root).fullmatch(url.key) is not None


def _is_same_bucket(a: Url, b: Url) -> bool:
    return a.scheme == b.scheme and a.bucket == b.bucket


# Partition columns: values of all rows of an object from its key, as in `events/year=2024/region=eu/part-0.csv`.
#
# Folders name their columns as Hive, Spark and Athena write them; the other columns are the named groups of paths, as
# in `s3://bucket/{country:*}/{day:????-??-??}/*.csv`. Pure.

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
            raise ConfigError(f"Setting {setting!r}: {path} {reason}")
        if known is not None and known != set(found_names):
            mine, theirs = (", ".join(sorted(n)) or "none" for n in (set(found_names), known))
            raise ConfigError(
                f"Setting {setting!r}: all paths of a stream have groups of the same names; "
                f"{path} has {mine}, the first {theirs}"
            )
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


# Placeholders: `{tenant}` in the name and in the path of a stream that is several, see `folders`. Pure.
#
# In a path each is what the named group `{tenant:*}` is, but for the column.

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE = re.compile(r"\{(?!date:)([A-Za-z_][A-Za-z0-9_]*)(:[^{}/]*)?\}")


def placeholders(name: str) -> tuple[str, ...]:
    """Return the placeholders of a stream's name."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(name)))


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Replace placeholders by their values, or `*`, and named groups by groups whose pattern is their value."""

    def fill(found: re.Match[str]) -> str:
        value = glob_literal(values[found[1]]) if found[1] in values else None
        if found[2] is None:
            return "*" if value is None else value
        return found[0] if value is None else f"{{{found[1]}:{value.replace(',', '[,]')}}}"

    return _PLACE.sub(fill, text)


def glob_literal(text: str) -> str:
    """Return the pattern that matches a text alone."""
    return re.sub(r"[*?\[{]", r"[\g<0>]", text)


def divided_at_placeholders(path: Url, names: Iterable[str]) -> tuple[list[str], str]:
    """Return the folders of a path up to the last one with a placeholder of these names, and what is behind it.

    All placeholders of the folders are groups.
    """
    key = _PLACEHOLDER.sub(r"{\1:*}", path.key)
    end = max(m.end() for m in _GROUP.finditer(key) if m[1] in names)
    folder, _, below = key[end:].partition("/")
    return f"{key[:end]}{folder}".split("/"), below


def folder_pattern(folder: str) -> re.Pattern[str]:
    """Matches the names of folders; its groups are those of the folder."""
    return pattern(Url("", "", folder))


def check_placeholders(name: str, paths: Sequence[Url], where: str) -> None:
    """Check the groups of paths, and that each placeholder of the name is where folders can be found by it."""
    check_groups(paths, f"{where}path")
    names = placeholders(name)
    if re.search("[{}]", _PLACEHOLDER.sub("", name)):
        raise ConfigError(f"Setting '{where}name' is {name!r}: braces are for placeholders such as {{tenant}}")
    for path in paths:
        groups = Url(path.scheme, path.bucket, _PLACEHOLDER.sub(r"{\1:*}", path.key))
        if not names and groups == path:
            continue
        if not names:
            reason = (
                f"has {_PLACEHOLDER.findall(path.key)[0]!r} in braces, and 'name' has not; add it there, or write *"
            )
        elif missing := next((n for n in names if n not in group_names(groups)), None):
            reason = f"has no {{{missing}}}, which 'name' has; add it, as the name of a folder or a part of one"
        elif error := _group_error(groups):
            reason = error
        else:
            folders, _ = divided_at_placeholders(path, names)
            before = "/".join(folders)
            if len(groups.key) == len(before):
                reason = "has a placeholder of 'name' in the names of files; put one folder for each stream"
            elif "**" in before or _DATE.search(before) or any(f.count("{") != f.count("}") for f in folders):
                reason = "has a **, a date or folders in braces before a placeholder of 'name'; put them behind it"
            else:
                continue
        raise ConfigError(f"Setting '{where}path': {path} {reason}")


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
