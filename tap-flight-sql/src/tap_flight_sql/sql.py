"""The text of queries. Pure.

Of the SQL of servers only what all of them know is used: a subquery, comparisons, max, and literals that are numbers or
text. Names are quoted, with the quotes that `Server.quote` finds out; backslashes in text are doubled where
`Server.escapes` finds out that one is an escape (`escapes` below).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import ConfigError, DataError

PROBE = 'SELECT "a" AS b FROM (SELECT 1 AS a) AS q'
"""A query whose row is 1 where double quotes enclose names, and `a` where they enclose text."""
ESCAPE_PROBE = r"SELECT '\\' AS b"
"""A query whose value is one backslash where it is an escape, as in MySQL, Doris and StarRocks, and two elsewhere."""
Bound = int | float | str
"""The value of a replication key as STATE has it: dates and times in ISO 8601, decimals as text."""


def quoted_name(name: str, quote: str) -> str:
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the rows of a query: above `lower`, up to `upper`, by the values of `key`, which is quoted.

    Without `lower` they are all rows up to there, also those whose key is null or NaN.
    """

    key: str
    key_type: pa.DataType
    lower: Bound | None
    upper: Bound
    escapes: bool = False

    @property
    def condition(self) -> str:
        """The bounds as a condition."""
        upper = bound_literal(self.upper, self.key_type, escapes=self.escapes)
        if self.lower is None and pt.is_floating(self.key_type):
            # Where NaN is the largest value it is the upper bound, and refused; elsewhere no comparison holds for it.
            return f"NOT ({self.key} > {upper}) OR {self.key} IS NULL"
        if self.lower is None:
            return f"{self.key} <= {upper} OR {self.key} IS NULL"
        lower = bound_literal(self.lower, self.key_type, escapes=self.escapes)
        return f"{self.key} > {lower} AND {self.key} <= {upper}"


def select(query: str, *, columns: Sequence[str] | None = None, bounds: Bounds | None = None) -> str:
    """Return the query for some columns (quoted; None: all) and rows of a query."""
    if columns is None and bounds is None:
        return query
    text = f"SELECT {', '.join(columns) if columns is not None else '*'} FROM ({query}) AS q"  # noqa: S608 - the user's
    return f"{text} WHERE {bounds.condition}" if bounds is not None else text


def largest(query: str, key: str, lower: Bound | None, key_type: pa.DataType, *, escapes: bool = False) -> str:
    """Return the query for the largest value of the replication key (quoted) above `lower`."""
    where = f" WHERE {key} > {bound_literal(lower, key_type, escapes=escapes)}" if lower is not None else ""
    return f"SELECT max({key}) AS upper_bound FROM ({query}) AS q{where}"  # noqa: S608 - the user's own query


def check_key_type(stream: str, key: str, t: pa.DataType) -> None:
    """Check that values of a type can be compared by literals."""
    if not (pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t) or pt.is_temporal(t) or pt.is_string(t)):
        kinds = "it must be a number, a date, a time or text"
        raise ConfigError(f"Stream {stream!r}: the replication key {key!r} is of type {t}; {kinds}")


def bound_of(value: pa.Scalar) -> Bound:
    """Return a value that is not null as a bound; NaN and infinity, which STATE and SQL cannot compare, are errors."""
    t = value.type
    if pt.is_timestamp(t):
        text = value.cast(pa.timestamp(t.unit)).cast(pa.string()).as_py()
        return f"{text.replace(' ', 'T')}{'+00:00' if t.tz else ''}"
    if pt.is_integer(t) or pt.is_floating(t):
        number: int | float = value.as_py()
        if not isfinite(number):
            reason = f"the largest value of the replication key is {number}, above which no rows can be found"
            raise DataError(reason, hint="Leave such rows out in the stream's query")
        return number
    return str(value.cast(pa.string()).as_py())


def bound_literal(value: Bound, key_type: pa.DataType, *, escapes: bool = False) -> str:
    """Return a bound as a literal of SQL."""
    if isinstance(value, int | float) or pt.is_decimal(key_type):
        return str(value)
    text = value.replace("T", " ") if pt.is_timestamp(key_type) else value
    return "'" + (text.replace("\\", "\\\\") if escapes else text).replace("'", "''") + "'"
