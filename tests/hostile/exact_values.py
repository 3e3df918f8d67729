"""Random rows of loosely typed values, their files and messages, and the rule by which a table's value is the same."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from file_bytes import parquet
from hypothesis import strategies as st
from typed_values import TEXTS

from singer_arrow.naming import NamingRules, column_names

Row = dict[str, Any]
WHOLE = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**40), 10**40),
    st.sampled_from(
        [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64 - 1, 2**64, 10**38 - 1, 10**38, -(10**39)]
    ),
)
FRACTIONS = st.one_of(
    st.decimals(-(10**6), 10**6, places=3),
    st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-9)),
    st.sampled_from([Decimal(t) for t in ("0.1", "-2.5", "1234567.123456789", "1E-9", "0.30000000000000004")]),
)
MOMENTS = st.sampled_from(
    [
        "2026-01-31",
        "2024-02-29T23:59:59Z",
        "2026-01-01 10:00:00.5+02:00",
        "0001-01-01",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59-05:00",
        "10000-01-01",
        "+10000-01-01T00:00:00Z",
        "0000-12-31",
        "2026-02-30",
        "1900-02-29T00:00:00Z",
        "1969-12-31T23:59:59.999999+00:00",
        "12:30:00",
        "",
    ]
)
LEAVES = st.one_of(st.none(), st.booleans(), WHOLE, FRACTIONS, TEXTS, MOMENTS)
NAMES = st.sampled_from(
    [
        "v",
        "V",
        "a b",
        "a_b",
        "a-b",
        "a.b",
        "A B",
        "é",
        "É",
        "e",
        "😀",
        "ID",
        "Id",
        "1",
        "select",
        'q"q',
        "x:y",
        "b" * 200,
    ]
)
MEMBERS = st.sampled_from(["k", "K", "a b", "a_b", "a.b", "", "é", "e", "1", "\n", "😀"])
NESTED = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(MEMBERS, NESTED, max_size=4)


@dataclass(frozen=True, repr=False)
class Kind:
    """A kind of column: its values, its type in Parquet (None: JSON text), and its schema in messages of other taps."""

    values: st.SearchStrategy[Any]
    arrow: pa.DataType | None
    schema: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.arrow}, {self.schema}"


KINDS = [
    Kind(st.integers(-(2**63), 2**63 - 1), pa.int64(), {"type": ["integer", "null"]}),
    Kind(WHOLE, pa.decimal256(76, 0), {"type": ["integer", "null"]}),
    Kind(WHOLE | FRACTIONS, pa.decimal256(76, 20), {"type": ["number", "null"]}),
    Kind(WHOLE | FRACTIONS, pa.decimal128(38, 9), {"anyOf": [{"type": "integer"}, {"type": ["number", "null"]}]}),
    Kind(FRACTIONS, pa.decimal128(38, 18), {"type": ["string", "number", "null"], "format": "singer.decimal"}),
    Kind(TEXTS, pa.string(), {"type": ["string", "null"]}),
    Kind(MOMENTS, pa.string(), {"type": ["string", "null"], "format": "date-time"}),
    Kind(MOMENTS | TEXTS, pa.string(), {"type": ["string", "null"]}),
    Kind(st.booleans(), pa.bool_(), {"type": ["boolean", "null"]}),
    Kind(LEAVES, None, {}),
    Kind(NESTED, None, {}),
    Kind(OBJECTS, None, {"type": ["object", "null"]}),
    Kind(
        OBJECTS,
        pa.map_(pa.string(), pa.string()),
        {"type": ["object", "null"], "properties": {"k": {}, "K": {}}, "additionalProperties": True},
    ),
    Kind(st.lists(st.none() | WHOLE, max_size=3), pa.list_(pa.decimal128(38, 0)), {"type": ["array", "null"]}),
    Kind(
        st.lists(st.none() | st.fixed_dictionaries({"k": LEAVES, "a b": st.none() | TEXTS}), max_size=2),
        pa.list_(pa.struct([("k", pa.string()), ("a b", pa.string())])),
        {"type": ["array", "null"], "items": {"type": ["object", "null"], "properties": {"k": {}, "a b": {}}}},
    ),
]


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, Kind], list[Row]]:
    """Generate columns with names that may collide, and rows of them; `id` is the number of the row."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    kinds = {name: draw(st.sampled_from(KINDS)) for name in names}
    values = {name: st.none() | kind.values | kind.values for name, kind in kinds.items()}
    rows = draw(st.lists(st.fixed_dictionaries({}, optional=values), min_size=1, max_size=4))
    return kinds, [{"id": number, **row} for number, row in enumerate(rows, 1)]


def to_json(value: Any) -> str:
    """Return the JSON text of a value, with all digits of its numbers."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {to_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _csv(kinds: Mapping[str, Kind], rows: Sequence[Row]) -> tuple[bytes, list[Row]]:
    texts = [{n: _field(row.get(n)) for n in ("id", *kinds)} for row in rows]
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_NOTNULL, lineterminator="\n")
    writer.writerow(["id", *kinds])
    writer.writerows(row.values() for row in texts)
    return out.getvalue().encode(), texts


def _field(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else to_json(value)


def _jsonl(_: Mapping[str, Kind], rows: Sequence[Row]) -> tuple[bytes, list[Row]]:
    return "".join(to_json(row) + "\n" for row in rows).encode(), list(rows)


def _parquet(kinds: Mapping[str, Kind], rows: Sequence[Row]) -> tuple[bytes, list[Row]]:
    columns: dict[str, Any] = {"id": pa.array([row["id"] for row in rows], pa.int64())}
    expected: list[Row] = [{"id": row["id"]} for row in rows]
    for name, kind in kinds.items():
        values = [row.get(name) for row in rows]
        try:
            if kind.arrow is None:
                raise pa.ArrowInvalid
            columns[name] = pa.array(values, kind.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            values = [_field(v) for v in values]
            columns[name] = pa.array(values, pa.string())
        for row, value in zip(expected, values, strict=True):
            row[name] = value
    return parquet(pa.table(columns)), expected


FILES: dict[str, Callable[[Mapping[str, Kind], Sequence[Row]], tuple[bytes, list[Row]]]] = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
"""Each writes rows, and returns the content of a file and the rows that it means."""


def is_odd(value: Any) -> bool:
    """Return whether a warehouse or a format may lack the value, so that its row may be refused."""
    if isinstance(value, dict):
        return any(map(is_odd, value)) or any(map(is_odd, value.values()))
    if isinstance(value, list):
        return any(v is None or is_odd(v) for v in value)
    if isinstance(value, str):
        return "\0" in value or bool(re.match(r"\+?\d{4,5}-\d\d-\d\d", value)) or _is_odd_number(value)
    return isinstance(value, int | Decimal) and _is_odd_number(str(value))


def _is_odd_number(text: str) -> bool:
    return sum(c.isdigit() for c in text) > 15


def is_same(sent: Any, found: Any, rules: NamingRules, schema: Mapping[str, Any], *, text: bool) -> bool:
    """Return whether a table's value is the one that was sent.

    Args:
        sent: Value of the file or message.
        found: Value of the table.
        rules: Rules of the warehouse for names.
        schema: The property of the SCHEMA.
        text: Whether the file has only texts, from which types are inferred.
    """
    if sent is None or found is None:
        is_text = not text or ("string" in schema.get("type", []) and "format" not in schema)
        return (sent is None or sent == [] or (sent == "" and not is_text)) and (found is None or found == [])
    if isinstance(sent, tuple | list | dict) and isinstance(found, str):
        found = json.loads(found, parse_float=Decimal)
    if isinstance(sent, dict) and isinstance(found, dict):
        members = schema.get("properties", {})
        columns = column_names(list(dict.fromkeys([*members, *sent])), rules)
        pairs = {k: found.get(k, found.get(columns[k])) for k in sent}
        spare = sum(v not in (None, []) for v in found.values()) - sum(f not in (None, []) for f in pairs.values())
        return spare == 0 and all(is_same(sent[k], f, rules, members.get(k, {}), text=text) for k, f in pairs.items())
    if isinstance(sent, list) and isinstance(found, list):
        return len(sent) == len(found) and all(
            is_same(s, f, rules, schema.get("items", {}), text=text) for s, f in zip(sent, found, strict=True)
        )
    if isinstance(sent, bool) or isinstance(found, bool):
        return sent == found if type(sent) is type(found) else str(sent).lower() == str(found).lower()
    if isinstance(found, date | time):
        return isinstance(sent, str) and moment(sent) is not None and moment(sent) == moment(found.isoformat())
    if isinstance(sent, str) and isinstance(found, str):
        return sent == found or (moment(sent) is not None and moment(sent) == moment(found))
    if isinstance(sent, str):
        return text and _is_number(sent) and _is_same_number(Decimal(sent), found)
    return _is_same_number(Decimal(sent), found)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", text.strip()))


def _is_same_number(sent: Decimal, found: Any) -> bool:
    """Return whether all digits are the same; a fraction has those of a double, or nine after the point."""
    if isinstance(found, str) and not _is_number(found):
        return False
    if isinstance(found, dict | list):
        return False
    exact = Decimal(repr(found)) if isinstance(found, float) else Decimal(found)
    if sent == exact or sent == Decimal(found):
        return True
    is_whole = sent == sent.to_integral_value()
    return not is_whole and (float(sent) == float(exact) or abs(sent - exact) <= Decimal("5e-10"))


def moment(text: str) -> tuple[Any, ...] | None:
    """Return the instant of a date or timestamp in microseconds, or the time of day; None: the text is neither."""
    if re.fullmatch(r"\d\d:\d\d:\d\d(\.0+)?", text):
        return (text[:8],)
    if not re.match(r"\d{4}-\d\d-\d\d", text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    offset = at.utcoffset() or timedelta()
    whole = at.replace(tzinfo=None) - datetime.min  # noqa: DTZ901
    return ((whole - offset) // timedelta(microseconds=1),)


def foreign(kinds: Mapping[str, Kind], rows: Sequence[Row]) -> tuple[dict[str, Any], list[str]]:
    """Return the SCHEMA of another tap, without its stream, and the records as JSON texts."""
    properties = {"id": {"type": "integer"}, **{name: kind.schema for name, kind in kinds.items()}}
    return {"type": "SCHEMA", "schema": {"properties": properties}, "key_properties": []}, [to_json(r) for r in rows]


def differences(
    row: Row, there: Row, properties: Mapping[str, Any], rules: NamingRules, *, text: bool
) -> list[tuple[str, Any, Any]]:
    """Return the properties of a row whose values the table's row lacks: names, values sent, values found.

    A value may be in a variant of its column, or in `_sdc_rescued`.
    """
    rescued = there.get("_sdc_rescued") or {}
    if isinstance(rescued, str):
        rescued = json.loads(rescued, parse_float=Decimal)
    if "_raw" in rescued:
        return []
    columns, wrong = column_names(list(properties), rules), []
    for name, sent in row.items():
        column = columns[name]
        found = [v for c, v in there.items() if v is not None and (c == column or c.startswith(f"{column}__"))]
        found += [rescued[name]] if name in rescued else []
        found = [v for v in found if v != []] or found[:1] or [None]
        if len(found) > 1 or not is_same(sent, found[0], rules, properties[name], text=text):
            wrong.append((name, sent, found))
    return wrong
