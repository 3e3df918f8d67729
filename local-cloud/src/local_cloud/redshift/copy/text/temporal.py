"""Dates and times in text, by DATEFORMAT and TIMEFORMAT.

Page "DATEFORMAT and TIMEFORMAT strings" of the Redshift guide. Not read with 'auto', although Redshift does: Julian
days, names of time zones, years without centuries and BC, and fractions of a second finer than microseconds.
"""

import datetime
import functools
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift import errors
from local_cloud.redshift.copy.columns import STRING, YEAR_1, any_of
from local_cloud.redshift.errors import BadValue

AUTO, SECONDS, MILLISECONDS = "auto", "epochsecs", "epochmillisecs"
_ZONE = r"(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?)"
_TIME = r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,6}))?)?"
_ISO = r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_AUTO_DATES = (
    _ISO,
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})",
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    r"(?P<month>\d{1,2})-(?P<day>\d{1,2})-(?P<year>\d{4})",
    r"(?P<month>\d{1,2})\.(?P<day>\d{1,2})\.(?P<year>\d{4})",
    r"(?P<day>\d{1,2})[ -](?P<mon>[A-Za-z]{3,9})[ -](?P<year>\d{4})",
    r"(?P<mon>[A-Za-z]{3,9}) (?P<day>\d{1,2}), ?(?P<year>\d{4})",
    r"(?P<year>\d{4})[ -](?P<mon>[A-Za-z]{3,9})[ -](?P<day>\d{1,2})",
)
_COMPACT = r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})[T ](?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PARTS = {
    "YYYY": r"(?P<year>\d{4})",
    "YY": r"(?P<short>\d{2})",
    "MONTH": r"(?P<mon>[A-Za-z]{3,9})",
    "MON": r"(?P<mon>[A-Za-z]{3})",
    "MM": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{1,2})",
    "HH24": r"(?P<hour>\d{1,2})",
    "HH12": r"(?P<hour>\d{1,2})",
    "HH": r"(?P<hour>\d{1,2})",
    "MI": r"(?P<minute>\d{1,2})",
    "SS": r"(?P<second>\d{1,2})(?:\.(?P<fraction>\d{1,6}))?",
    "AM": r"(?P<half>[AaPp][Mm])",
    "PM": r"(?P<half>[AaPp][Mm])",
    "OF": _ZONE,
    "TZ": _ZONE,
}
_PART = re.compile("|".join(sorted(_PARTS, key=len, reverse=True)), re.IGNORECASE)


def sure(kind: str, given: str | None, texts: pa.Array) -> pa.Array | None:
    """Return the column if every text is certainly valid and PostgreSQL reads it as Redshift does, else None."""
    if given in (SECONDS, MILLISECONDS):
        return _epochs(given, texts)
    if kind == "date":
        if given not in (None, AUTO, "YYYY-MM-DD"):
            return None
        return texts if _all_days(texts, pa.date32(), (10, 10)) else None
    if given not in (None, AUTO, "YYYY-MM-DD HH:MI:SS", "YYYY-MM-DD HH24:MI:SS"):
        return None
    if given != AUTO and any_of(pc.match_substring_regex(texts, "[TtZz]")):
        return None
    if _all_days(texts, pa.timestamp("us"), (16, 26)):
        return texts
    zoned = kind == "timestamptz" or given == AUTO
    return texts if zoned and _all_days(texts, pa.timestamp("us", "UTC"), (17, 32)) else None


def _all_days(texts: pa.Array, kind: pa.DataType, lengths: tuple[int, int]) -> bool:
    sizes = pc.min_max(pc.binary_length(texts)).as_py()
    if sizes["min"] is None:
        return True
    if sizes["min"] < lengths[0] or sizes["max"] > lengths[1]:
        return False
    try:
        found = texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    is_date = pa.types.is_date(kind)
    numbers = found.view(pa.int32() if is_date else pa.int64())
    first = YEAR_1["date"] if is_date else YEAR_1["timestamp"] + 86_400_000_000
    return bool(pc.min(numbers).as_py() >= first)


def _epochs(given: str, texts: pa.Array) -> pa.Array | None:
    try:
        numbers = texts.cast(pa.int64())
        size = pc.max(pc.abs(numbers)).as_py() or 0
    except pa.ArrowInvalid:
        return None
    if size > 250_000_000_000 * (1 if given == SECONDS else 1000) or any_of(pc.less(numbers, 0)):
        return None
    return numbers.cast(pa.timestamp("s" if given == SECONDS else "ms")).cast(STRING)


def exact(kind: str, given: str | None) -> Callable[[str], str]:
    """Return the function that reads one text; it raises `BadValue`."""
    if kind in ("time", "timetz"):
        return lambda text: _time(kind, text)
    if given in (SECONDS, MILLISECONDS) and kind != "date":
        return lambda text: _epoch(given, text)
    forms = _forms(kind, given)
    return lambda text: _moment(kind, given, forms, text)


@functools.lru_cache(maxsize=64)
def _forms(kind: str, given: str | None) -> tuple[re.Pattern[str], ...]:
    if given == AUTO:
        dates = [rf"{date}(?:[T ]{_TIME} ?{_ZONE}?)?" for date in _AUTO_DATES]
        return tuple(re.compile(form) for form in (*dates, _COMPACT))
    if given is None and kind == "date":
        return (re.compile(rf"{_ISO}(?:[T ].*)?"),)
    if given is None:
        return (re.compile(rf"{_ISO}(?: {_TIME}{f' ?{_ZONE}?' if kind == 'timestamptz' else ''})?"),)
    return (_compiled(given),)


def _compiled(given: str) -> re.Pattern[str]:
    """Return a format string as a pattern."""
    out, at = "", 0
    for part in _PART.finditer(given):
        out += re.escape(given[at : part.start()]) + _PARTS[part.group().upper()]
        at = part.end()
    try:
        return re.compile(out + re.escape(given[at:]))
    except re.error:
        raise errors.RedshiftError(f"Invalid date or time format '{given}'", errors.SYNTAX) from None


def _moment(kind: str, given: str | None, forms: tuple[re.Pattern[str], ...], text: str) -> str:
    for form in forms:
        match = form.fullmatch(text.strip())
        found = _read(match.groupdict()) if match else None
        if found:
            day, time, zone = found
            if kind == "date":
                return day
            return f"{day} {time}{zone if kind == 'timestamptz' else ''}"
    raise _bad(kind, given, text)


def _bad(kind: str, given: str | None, text: str) -> BadValue:
    if kind == "date":
        if given is None and len(text) < 10:
            return BadValue(errors.DATE, "Invalid Date Format - length must be 10 or more")
        return BadValue(errors.DATE, f"Invalid Date Format - [{given or 'YYYY-MM-DD'}]")
    return BadValue(errors.TIMESTAMP, f"Invalid timestamp format or value [{given or 'YYYY-MM-DD HH24:MI:SS'}]")


def _read(parts: dict[str, str | None]) -> tuple[str, str, str] | None:
    """Return a day, a time and a zone in PostgreSQL's form, or None if there is no such moment."""
    short = parts.get("short")
    year = int(parts.get("year") or (2000 + int(short) if short and int(short) < 70 else 1900 + int(short or 70)))
    name = (parts.get("mon") or "").lower()[:3]
    if name and name not in _MONTHS:
        return None
    month = _MONTHS.index(name) + 1 if name else int(parts.get("month") or 1)
    hour, half = int(parts.get("hour") or 0), (parts.get("half") or "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    fraction = int((parts.get("fraction") or "").ljust(6, "0") or 0)
    try:
        moment = datetime.datetime(  # noqa: DTZ001 - the zone is text beside it
            year,
            month,
            int(parts.get("day") or 1),
            hour,
            int(parts.get("minute") or 0),
            int(parts.get("second") or 0),
            fraction,
        )
    except ValueError:
        return None
    return moment.date().isoformat(), moment.time().isoformat(), (parts.get("zone") or "").replace("UTC", "Z")


def _time(kind: str, text: str) -> str:
    match = re.fullmatch(_TIME + (rf"{_ZONE}?" if kind == "timetz" else ""), text)
    found = _read(match.groupdict()) if match else None
    if not found:
        raise BadValue(errors.TIMESTAMP, f"Invalid time format or value: '{text[:64]}'")
    return found[1] + (found[2] if kind == "timetz" else "")


def _epoch(given: str, text: str) -> str:
    match = re.fullmatch(r"(-?)(\d{1,14})(?:\.(\d{1,6})\d*)?", text)
    if not match:
        raise BadValue(errors.TIMESTAMP, f"Invalid timestamp format or value [{given}]")
    whole, fraction = int(match[2]), int((match[3] or "0").ljust(6, "0"))
    micros = whole * 1_000_000 + fraction if given == SECONDS else whole * 1_000 + fraction // 1_000
    micros = -micros if match[1] else micros
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)  # noqa: DTZ001
    except OverflowError:
        raise BadValue(errors.TIMESTAMP, f"Invalid timestamp format or value [{given}]") from None
    return moment.isoformat(" ")
