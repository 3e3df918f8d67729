"""Check constraints of a SCHEMA beyond Arrow types, column by column. Pure.

If a rule returns True, all values are valid. If it returns False, some may not be, and the records are checked one by
one. All records of a stream are checked one by one if there is no rule for one of its constraints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from singer_arrow.casting.to_json import exact_number
from singer_arrow.records.validation import KEYWORDS, all_dates, date_format, fits_schema, matches, validator
from singer_arrow.schema.arrow_schema import is_json

Rule = Callable[[pa.Array], bool]
"""Returns whether all values of a column are certainly valid for their property."""
_KINDS = {
    "integer": lambda t: pt.is_integer(t) or (pt.is_decimal(t) and t.scale == 0),
    "number": lambda t: pt.is_integer(t) or pt.is_floating(t) or pt.is_decimal(t),
    "boolean": pt.is_boolean,
    "string": lambda t: pt.is_string(t) or pt.is_binary(t) or pt.is_temporal(t),
    "array": pt.is_list,
    "object": pt.is_struct,
}
_FIRST_OF = {"object": "{", "array": "[", "string": '"', "boolean": "tf", "number": "-0123456789"}
_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
_LENGTHS = {"minLength", "maxLength"}


class Rules:
    """The rules of a stream, by column; `numbers` are columns of decimals, which must not be in quotes.

    `is_closed`: records must have no other members.
    """

    def __init__(self, columns: Mapping[str, tuple[Rule, ...]], numbers: pa.Schema, *, is_closed: bool) -> None:
        self._columns, self.is_closed = columns, is_closed
        self._numbers = (
            None
            if not numbers.names
            else msgspec.json.Decoder(msgspec.defstruct("Message", [("record", _of_numbers(numbers))], gc=False))
        )

    def hold(self, batch: pa.RecordBatch, lines: bytes) -> bool:
        """Return whether all records of a batch, read from these lines, are certainly valid for the SCHEMA."""
        for name, rules in self._columns.items():
            column = batch.column(name)
            if not all(rule(column) for rule in rules):
                return False
        if self._numbers is not None:
            try:
                self._numbers.decode_lines(lines)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                return False
        return True


def rules_for(schema: Mapping[str, Any], fields: pa.Schema, keys: Iterable[str]) -> Rules | None:
    """Return the rules for records, which must have the properties `keys`; None if they must be checked one by one."""
    asked = {k for k in schema if k in KEYWORDS} - {"properties"}
    if asked - {"type", "required", "additionalProperties"} or "object" not in _types(schema, {"object"}):
        return None
    properties, extra = schema["properties"], schema.get("additionalProperties", True)
    if not isinstance(extra, bool):
        return None
    if not extra:  # others must be detected by Arrow's reader, which must read all that are known
        has_open = any(is_json(f) or "map<" in str(f.type) for f in fields)
        if has_open or set(properties) != set(fields.names):
            return None
    columns = dict[str, tuple[Rule, ...]]()
    present, names = {*keys, *schema.get("required", ())}, set(fields.names)
    if present - names:
        return None
    for name, prop in properties.items():
        if name not in names:  # no record of this stream has it when it is checked
            continue
        rules = _rules(prop, fields.field(name))
        if rules is None:
            return None
        if name in present and _no_nulls not in rules:
            rules = (_no_nulls, *rules)
        if rules:
            columns[name] = rules
    numbers = pa.schema([f for f in fields if _has_number(f, properties.get(f.name))])
    if any('"' in f.name or "\\" in f.name or not f.name.isprintable() for f in numbers):
        return None
    return Rules(columns, numbers, is_closed=not extra)


def rules_unchecked(schema: Mapping[str, Any], fields: pa.Schema, keys: Iterable[str]) -> Rules | None:
    """Return the rules for records that are not validated: keys must be there, and dates must be valid."""
    names = set(fields.names)
    if set(keys) - names:
        return None
    columns: dict[str, tuple[Rule, ...]] = dict.fromkeys(keys, (_no_nulls,))
    for name, prop in schema["properties"].items():
        if name in names and date_format(prop) and not pt.is_temporal(fields.field(name).type):
            return None
    return Rules(columns, pa.schema([]), is_closed=False)


def _rules(prop: Any, field: pa.Field) -> tuple[Rule, ...] | None:
    """Return the checks for one property; None if it cannot be checked by columns."""
    if prop is True:
        return ()
    if not isinstance(prop, Mapping):
        return None
    against = validator(prop)
    null = () if fits_schema(None, against) else (_no_nulls,)
    prop = _single(prop)
    asked = {k for k in prop if k in KEYWORDS}
    asked.discard("format")
    if is_json(field):
        more = _json_rules(prop, asked, against)
        if more is not None and (kind := date_format(prop)):
            more = (*more, lambda column: all_dates([json.loads(t) for t in column.unique().to_pylist() if t], kind))
    elif pt.is_temporal(field.type) or pt.is_binary(field.type):
        more = None if asked - {"type"} or not _is_of(prop, pa.string()) else ()
    elif pt.is_list(field.type) or pt.is_struct(field.type):
        more = _nested_rules(prop, asked, field)
    else:
        more = _scalar_rules(prop, asked, field, against)
    return None if more is None else (*null, *more)


def _single(prop: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the only branch that is not null, of a property without other keywords."""
    for word in ("anyOf", "oneOf"):
        branches = prop.get(word)
        if isinstance(branches, list) and {k for k in prop if k in KEYWORDS} == {word}:
            rest = [b for b in branches if b not in ({"type": "null"}, {"type": ["null"]})]
            nullable = isinstance(rest[0], Mapping) and "null" in _types(rest[0], ()) if rest else False
            if len(rest) == 1 and isinstance(rest[0], Mapping) and not (word == "oneOf" and nullable):
                return rest[0]
    return prop


def _types(prop: Mapping[str, Any], default: Iterable[str]) -> set[str]:
    given = prop.get("type", list(default))
    return {given} if isinstance(given, str) else set(given)


def _is_of(prop: Mapping[str, Any], t: pa.DataType) -> bool:
    """Return whether all values that Arrow's reader takes for a type are of one of the property's types."""
    if "type" not in prop:
        return True
    return any(_KINDS[kind](t) for kind in _types(prop, ()) - {"null"} if kind in _KINDS)


def _nested_rules(prop: Mapping[str, Any], asked: set[str], field: pa.Field) -> tuple[Rule, ...] | None:
    t = field.type
    if not _is_of(prop, t):
        return None
    if pt.is_list(t):
        inner = _rules(prop.get("items", True), t.value_field)
        if asked - {"type", "items"} or inner is None:
            return None
        return tuple(_in_items(rule) for rule in inner)
    if (
        asked - {"type", "properties", "required", "additionalProperties"}
        or prop.get("additionalProperties", True) is not True
    ):
        return None
    rules, properties = list[Rule](), prop.get("properties", {})
    present = set(prop.get("required", ()))
    if set(properties) != {f.name for f in t} or present - set(properties):
        return None
    for member in t:
        inner = _rules(properties[member.name], member)
        if inner is None:
            return None
        if member.name in present and _no_nulls not in inner:
            inner = (_no_nulls, *inner)
        rules += [_in_member(rule, member.name) for rule in inner]
    return tuple(rules)


def _in_items(rule: Rule) -> Rule:
    return lambda column: rule(column.flatten())


def _in_member(rule: Rule, name: str) -> Rule:
    def holds(column: pa.Array) -> bool:
        there = column.drop_null() if column.null_count else column
        return rule(there.field(name))

    return holds


def _json_rules(prop: Mapping[str, Any], asked: set[str], against: Any) -> tuple[Rule, ...] | None:
    """Return the rules for values that are read as their JSON text."""
    kinds = _types(prop, ()) - {"null"}
    if not asked:
        return ()
    if asked == {"type"} and not ("integer" in kinds and "number" not in kinds):
        firsts = pa.array(list("".join(_FIRST_OF.get(kind, "") for kind in kinds)))
        return (
            lambda column: (
                pc.all(pc.is_in(pc.utf8_slice_codeunits(column.drop_null(), 0, 1), firsts)).as_py() is not False
            ),
        )

    def holds(column: pa.Array) -> bool:
        texts = column.drop_null().unique().to_pylist()
        return all(fits_schema(json.loads(text, parse_float=exact_number), against) for text in texts)

    return (holds,)


def _scalar_rules(prop: Mapping[str, Any], asked: set[str], field: pa.Field, against: Any) -> tuple[Rule, ...] | None:
    """Return the rules for texts, numbers and booleans."""
    t, rules = field.type, list[Rule]()
    if kind := date_format(dict(prop)):
        if not pt.is_string(t):
            return None
        rules.append(lambda column: all_dates(column.unique().to_pylist(), kind))
    if "pattern" in asked and pt.is_string(t):
        asked.discard("pattern")
        rules.append(lambda column: all(matches(prop["pattern"], column.drop_null().unique())))
    if _is_step(prop.get("multipleOf"), t):
        asked.discard("multipleOf")
    if asked <= {"type"}:
        return tuple(rules) if _is_of(prop, t) else None
    if asked <= {"type"} | _BOUNDS and _is_of(prop, t):
        if pt.is_floating(t):
            return (*rules, lambda column: _within(column, prop))
        if pt.is_integer(t) or pt.is_decimal(t):
            return (*rules, lambda column: all(fits_schema(v, against) for v in _extremes(column)))
    if asked <= {"type"} | _LENGTHS and pt.is_string(t) and _is_of(prop, t):
        return (
            *rules,
            lambda column: all(fits_schema("x" * n, against) for n in _extremes(pc.utf8_length(column))),
        )
    if pt.is_floating(t) or not (pt.is_string(t) or pt.is_integer(t) or pt.is_boolean(t) or pt.is_decimal(t)):
        return None
    return (*rules, lambda column: all(fits_schema(v, against) for v in column.drop_null().unique().to_pylist()))


def _is_step(step: Any, t: pa.DataType) -> bool:
    """Return whether all integers, or all decimals, of a type are multiples of a number."""
    scale = t.scale if pt.is_decimal(t) else 0 if pt.is_integer(t) else -1
    if isinstance(step, bool) or not isinstance(step, int | float | Decimal) or scale < 0:
        return False
    sign, digits, exponent = Decimal(str(step)).normalize().as_tuple()
    return (sign, digits) == (0, (1,)) and isinstance(exponent, int) and exponent <= -scale


def _extremes(column: pa.Array) -> list[Any]:
    found = pc.min_max(column)
    return [v for v in (found["min"].as_py(), found["max"].as_py()) if v is not None]


def _within(column: pa.Array, prop: Mapping[str, Any]) -> bool:
    """Return whether numbers lie within bounds, and not on them: their digits may have been rounded."""
    found = _extremes(column)
    if not found:
        return True
    low = [prop[k] for k in ("minimum", "exclusiveMinimum") if k in prop]
    high = [prop[k] for k in ("maximum", "exclusiveMaximum") if k in prop]
    return all(found[0] > bound for bound in low) and all(found[1] < bound for bound in high)


def _no_nulls(column: pa.Array) -> bool:
    return bool(column.null_count == 0)


def _has_number(field: pa.Field, prop: Any) -> bool:
    """Return whether a column has decimals, at any depth, that must be numbers in JSON."""
    t = field.type
    if is_json(field):
        return False
    if pt.is_struct(t) or pt.is_list(t):
        return any(_has_number(t.field(i), None) for i in range(t.num_fields))
    return bool(pt.is_decimal(t)) and not (
        isinstance(prop, Mapping) and _types(_single(prop), ()) - {"null"} == {"string"}
    )


def _of_numbers(fields: Iterable[pa.Field]) -> Any:
    numeric = [f for f in fields if _has_number(f, None)]
    members = [(f"f{i}", _number_shape(f.type), None) for i, f in enumerate(numeric)]
    rename = {f"f{i}": f.name for i, f in enumerate(numeric)}
    return msgspec.defstruct("Numbers", members, rename=rename, gc=False)


def _number_shape(t: pa.DataType) -> Any:
    if pt.is_struct(t):
        return _of_numbers(t) | None
    if pt.is_list(t):
        return list[_number_shape(t.value_type)] | None  # type: ignore[misc]  # made at run time
    return float | None
