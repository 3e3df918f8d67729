"""Dates in paths: `s3://bucket/logs/{date:%Y/%m/%d}/*.gz`. Pure.

Only the places of the dates in the window are listed. What counts is the date that the key names, not the time of the
object's last change, so that runs over windows that follow each other read each object once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count

from singer_arrow.errors import ConfigError
from singer_arrow.storage.urls import Url, glob_match, glob_prefix, glob_regex, has_glob

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


def check_moment(path: Url, moment: datetime | None, setting: str) -> None:
    """Check that a window begins or ends where a place does: part of a place can be read by no window."""
    if moment is not None and _floor(path)(moment.astimezone(UTC)) != moment:
        msg = (
            f"Setting {setting!r}: {moment.isoformat()} lies within one of the dates of {path}; "
            f"use {_floor(path)(moment.astimezone(UTC)).isoformat()}"
        )
        raise ConfigError(msg)


def resolve_dates(
    paths: Iterable[Url],
    start: datetime | None,
    end: datetime | None,
    now: datetime,
    *,
    begin: Url | None = None,
) -> list[Url]:
    """Replace the dates of paths by those of [start, end), or by wildcards without a start.

    Without an end the last date is tomorrow's: clocks and zones differ. If keys ascend with time, and objects up to
    `begin` are known, the places before it are left out.
    """
    found: list[Url] = []
    for path in paths:
        places = _dated(path, start, end or now + _DAY) if has_date(path) else [path]
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
