"""Dates in paths: `s3://bucket/logs/{date:%Y/%m/%d}/*.gz`. Pure.

Only the places of the dates that are wanted are listed. What counts is the date that the key names, not the time of the
object's last change, so that runs over windows that follow each other read each object once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from singer_arrow.errors import ConfigError
from singer_arrow.urls import Url, glob_match, glob_prefix

MOST_PLACES = 100_000
_DATE = re.compile(r"\{date:([^{}]*)\}")
_DIRECTIVE = re.compile(r"%(.?)")
_DIGITS = {"Y": 4, "y": 2, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2}
_NEEDS = {"Y": "", "y": "", "m": "Y", "d": "Ym", "j": "Y", "H": "Ymd", "M": "YmdH"}
"""What must be there besides a directive, to tell one date from another."""
_DAY = timedelta(days=1)


def has_date(path: Url) -> bool:
    """Whether a path has a date in it."""
    return _DATE.search(path.key) is not None


def check(path: Url, setting: str) -> None:
    """Find out whether the dates of a path can be counted through.

    Raises:
        ConfigError: They cannot.
    """
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
    """Find out whether a window begins or ends where a place does.

    Raises:
        ConfigError: It does not: part of a place can be read by no window.
    """
    if moment is not None and _floor(path)(moment.astimezone(UTC)) != moment:
        msg = (
            f"Setting {setting!r}: {moment.isoformat()} lies within one of the dates of {path}; "
            f"use {_floor(path)(moment.astimezone(UTC)).isoformat()}"
        )
        raise ConfigError(msg)


def dated(
    paths: Iterable[Url],
    start: datetime | None,
    end: datetime | None,
    now: datetime,
    *,
    begin: Url | None = None,
) -> list[Url]:
    """The paths with the dates of [start, end) put in; without a start, with wildcards in their place.

    Without an end the last date is tomorrow's: clocks and zones differ. If keys ascend with time, and objects up to
    `begin` are known, the places before it are left out.

    Raises:
        ConfigError: There are too many of them.
    """
    found: list[Url] = []
    for path in paths:
        places = _dated(path, start, end or now + _DAY) if has_date(path) else [path]
        known = (
            begin is not None and has_date(path) and any(glob_match(p.key, begin.key) for p in _dated(path, None, now))
        )
        found += [p for p in places if not (known and begin and _is_before(p, begin))]
    return found


def _is_before(place: Url, begin: Url) -> bool:
    prefix = glob_prefix(place.key)
    return prefix < begin.key and not begin.key.startswith(prefix)


def _dated(path: Url, start: datetime | None, end: datetime) -> list[Url]:
    def url(change: Callable[[re.Match[str]], str]) -> Url:
        return Url(path.scheme, path.bucket, _DATE.sub(change, path.key))

    if start is None:
        return [url(lambda m: _DIRECTIVE.sub(lambda d: "[0-9]" * _DIGITS[d[1]], m[1]))]
    found: list[Url] = []
    for moment in _moments(path, start.astimezone(UTC), end.astimezone(UTC)):
        found.append(url(lambda m, at=moment: _DIRECTIVE.sub(lambda d: at.strftime(d[0]), m[1])))  # type: ignore[misc]
        if len(found) > MOST_PLACES:
            msg = (
                f"{path} stands for more than {MOST_PLACES:,} places since start_date; set a later one, or an end_date"
            )
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
    """The beginning of each place whose beginning lies in [start, end)."""
    floor, used = _floor(path), set(_directives(path))
    step = timedelta(minutes=1) if "M" in used else timedelta(hours=1) if "H" in used else _DAY
    if not used & {"M", "H", "d", "j"}:
        step = timedelta(days=31 if "m" in used else 366)  # into the next month or year, whose beginning is taken
    moment = floor(start)
    while moment < end:
        yield moment
        moment = floor(moment + step)
