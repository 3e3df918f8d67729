"""SCHEMA messages: drafts of JSON Schema, their shape, and checks of whole columns."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from logging import Logger
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa
import pyarrow.compute as pc
from jsonschema import FormatChecker, validators
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no types
from pyarrow import types as pt
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from singer_arrow.casting.from_json import json_kind
from singer_arrow.casting.from_text import shorten
from singer_arrow.casting.to_json import exact_number
from singer_arrow.errors import SchemaError
from singer_arrow.records.validation import KEYWORDS, all_dates, date_format, fits_schema, matches, validator
from singer_arrow.schema.arrow_schema import is_json
from singer_arrow.schema.json_schema import plain_numbers, whole_numbers

# JSON Schemas of drafts 4, 6, 7, 2019-09 and 2020-12 -> draft 2020-12, which is the SDK's. Pure.
#
# A schema names its draft by `$schema`; keywords that only other drafts have mean nothing then. Without `$schema` the
# form of a keyword decides: `exclusiveMaximum: true` is of draft 4, a list in `items` of a draft before 2020-12.

Schema = dict[str, Any]
_DRAFTS: dict[str, Any] = {
    "json-schema.org/draft-04/schema": validators.Draft4Validator,
    "json-schema.org/draft-06/schema": validators.Draft6Validator,
    "json-schema.org/draft-07/schema": validators.Draft7Validator,
    "json-schema.org/draft/2019-09/schema": validators.Draft201909Validator,
    "json-schema.org/draft/2020-12/schema": validators.Draft202012Validator,
}
_KEYWORDS = frozenset(word for draft in _DRAFTS.values() for word in draft.VALIDATORS)
_WHOLE_REFERENCE = (validators.Draft4Validator, validators.Draft6Validator, validators.Draft7Validator)
"""Drafts in which no keyword beside a `$ref` counts."""
_BY_FORM = {"exclusiveMinimum", "exclusiveMaximum", "items", "additionalItems", "dependencies"}
"""Keywords that are read by their form, whatever draft is named."""
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    *("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_HOLDERS = (*_NAMED, *_LISTED, *_SINGLE)  # keywords that hold schemas
_REFERENCES = ("$ref", "$dynamicRef")
_SETS = ("type", "required")
_NO_PATTERN = "no regular expression that can be matched in linear time"
_NO_VALUE = "no value that it may have"
_NEWEST = validators.Draft202012Validator


@dataclass(frozen=True, slots=True)
class Unusable:
    """A keyword that is left out."""

    path: str  # of the property that has it, `a.b`; empty: the record itself
    keyword: str
    reason: str

    def __str__(self) -> str:
        of = f"property {self.path!r}" if self.path else "the record"
        return f"keyword {self.keyword!r} of {of} is left out: {self.reason}"


class NewestDraft:
    """Translates the SCHEMAs of a run; warns once of each keyword that is left out."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._warned: set[str] = set()
        self._last: dict[str, tuple[Mapping[str, Any], Schema]] = {}

    def __call__(self, stream: str, schema: Mapping[str, Any]) -> Schema:
        """Return the SCHEMA of a stream in draft 2020-12; some taps send the same one often."""
        if stream not in self._last or self._last[stream][0] != schema:
            newest, unusable = in_newest_draft(schema)
            for found in unusable:
                if (text := f"SCHEMA of stream {stream!r}: {found}") not in self._warned:
                    self._warned.add(text)
                    self._logger.warning("%s; records are not checked for it", text)
            self._last[stream] = schema, newest
        return copy.deepcopy(self._last[stream][1])


def in_newest_draft(schema: Mapping[str, Any]) -> tuple[Schema, list[Unusable]]:
    """Return a schema as draft 2020-12 writes it, and the keywords that had to be left out.

    What it returns is valid: each keyword has a value that it may have, each reference leads to a schema within it.
    Whole numbers are ints, also where they were written with a point or an exponent.
    """
    name = str(schema.get("$schema", "")).partition("://")[2].rstrip("#")
    translation = _Translation(_DRAFTS.get(name))
    root: Schema = translation.schema(schema, "", "properties")
    unusable = translation.unusable
    for find in (_malformed, _dead_references):
        for node, found in list(find(root)):
            if node.pop(found.keyword, None) is not None:  # null is the same as no keyword
                unusable.append(found)
                if found.keyword == "patternProperties":  # the properties that it describes are no additional ones
                    node.pop("additionalProperties", None)
                    node.pop("unevaluatedProperties", None)
    return root, list(dict.fromkeys(unusable))


class _Translation:
    """Rewrites schemas of one draft; None: of any."""

    def __init__(self, draft: Any) -> None:
        self.unusable: list[Unusable] = []
        self._unknown = _KEYWORDS - set(draft.VALIDATORS) - _BY_FORM if draft else frozenset[str]()
        self._is_whole_reference = draft in _WHOLE_REFERENCE
        self._id = "id" if draft is validators.Draft4Validator else "$id"

    def schema(self, given: Any, path: str, owner: str) -> Any:
        """Return one schema, which is the value of the keyword `owner`, with all that are in it."""
        if isinstance(given, bool):
            return given
        if not isinstance(given, Mapping):
            self.unusable.append(Unusable(path, owner, f"{shorten(given)} is no schema"))
            return {}
        out = {*self._unknown, "$schema", "$id", self._id, *(k for k in _HOLDERS if given.get(k, k) is None)}
        node = {k: v for k, v in given.items() if k not in out}
        if isinstance(given.get(self._id), str):
            node["$id"] = given[self._id]
        if self._is_whole_reference and "$ref" in node:
            node = {k: v for k, v in node.items() if k == "$ref" or k not in _KEYWORDS}
        self._exclusive(node, "minimum", "exclusiveMinimum", path)
        self._exclusive(node, "maximum", "exclusiveMaximum", path)
        # keywords get the names that they have today
        rest = node.pop("additionalItems", None)
        if isinstance(node.get("items"), list):
            node["prefixItems"] = node.pop("items")
            if rest is not None:
                node["items"] = rest
        if "$recursiveRef" in node:
            node["$ref"] = node.pop("$recursiveRef")
        dependencies = node.pop("dependencies", None)
        if isinstance(dependencies, Mapping):
            if names := {name: value for name, value in dependencies.items() if isinstance(value, list)}:
                node.setdefault("dependentRequired", names)
            if schemas := {name: value for name, value in dependencies.items() if name not in names}:
                node.setdefault("dependentSchemas", schemas)
        return {keyword: self._value(keyword, value, path) for keyword, value in node.items()}

    def _value(self, keyword: str, value: Any, path: str) -> Any:
        if keyword in _NAMED and isinstance(value, Mapping):
            return {
                name: self.schema(inner, _path_within(path, keyword, name), keyword) for name, inner in value.items()
            }
        if keyword in _LISTED and isinstance(value, list):
            return [self.schema(inner, path, keyword) for inner in value]
        if keyword in _SINGLE:
            return self.schema(value, path, keyword)
        if keyword in _SETS and isinstance(value, list) and all(isinstance(v, str) for v in value):
            return list(dict.fromkeys(value))
        return whole_numbers(value)

    def _exclusive(self, node: Schema, bound: str, exclusive: str, path: str) -> None:
        """Read true, by which draft 4 excludes the bound itself."""
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive):
            if bound in node:
                node[exclusive] = node.pop(bound)
            else:
                self.unusable.append(Unusable(path, exclusive, f"it is true, and there is no {bound!r}"))


def _path_within(path: str, keyword: str, name: Any) -> str:
    """Return the path of what a keyword names: of a property, or still of the owner."""
    if keyword != "properties":
        return path
    return f"{path}.{name}" if path else str(name)


def _walk(node: Any, path: str) -> Iterator[tuple[Schema, str]]:
    """Yield a schema with the path of its property, and all schemas in it."""
    if not isinstance(node, dict):
        return
    yield node, path
    for keyword, value in node.items():
        if keyword in _NAMED and isinstance(value, dict):
            for name, inner in value.items():
                yield from _walk(inner, _path_within(path, keyword, name))
        elif keyword in _LISTED and isinstance(value, list):
            for inner in value:
                yield from _walk(inner, path)
        elif keyword in _SINGLE:
            yield from _walk(value, path)


@cache
def _checks() -> dict[str, Validator]:
    """Return what each keyword of the newest draft may have as its value, from its meta-schema."""
    found: dict[str, Validator] = {}
    patterns = FormatChecker(())
    patterns.checks("regex", (pa.ArrowInvalid, UnicodeError))(lambda pattern: len(matches(pattern, [""])) == 1)
    meta = _NEWEST.META_SCHEMA
    parts = [REGISTRY.contents(urljoin(meta["$id"], part["$ref"])) for part in meta["allOf"]]
    for part in (meta, *parts):
        whole = _NEWEST(part, registry=REGISTRY, format_checker=patterns)
        found |= {keyword: whole.evolve(schema=schema) for keyword, schema in part["properties"].items()}
    return found


def _malformed(root: Schema) -> Iterator[tuple[Schema, Unusable]]:
    """Yield the keywords whose values are none of theirs."""
    checks, known = _checks(), dict[tuple[str, str], str | None]()
    for node, path in _walk(root, ""):
        for keyword, value in node.items():
            if keyword not in checks:
                continue
            alone = _without_schemas(keyword, value)
            if (key := (keyword, repr(alone))) not in known:
                error = next(checks[keyword].iter_errors(alone), None)
                known[key] = None if error is None else _NO_PATTERN if error.validator == "format" else _NO_VALUE
            if (fault := known[key]) is not None:
                yield node, Unusable(path, keyword, f"{shorten(plain_numbers(value))} is {fault}")


def _without_schemas(keyword: str, value: Any) -> Any:
    """Return the value of a keyword without the schemas in it, which are checked separately."""
    if keyword in _NAMED and isinstance(value, dict):
        return dict.fromkeys(value if keyword == "patternProperties" else (), True)
    if keyword in _LISTED and isinstance(value, list):
        return [True] * min(len(value), 1)
    return True if keyword in _SINGLE else value


def _dead_references(root: Schema) -> Iterator[tuple[Schema, Unusable]]:
    """Yield the references that lead to no schema; nothing outside of the SCHEMA is looked up."""
    nodes = list(_walk(root, ""))
    for node, _ in nodes:
        if "$id" in node and not _is_url(node["$id"]):
            del node["$id"]
    for node, path in nodes:
        for keyword in _REFERENCES:
            if keyword in node and not _leads(root, node[keyword]):
                yield node, Unusable(path, keyword, f"{shorten(node[keyword])} leads to no schema in it")


def _is_url(text: str) -> bool:
    try:
        urljoin("urn:", text)
    except ValueError:
        return False
    return True


def _leads(root: Schema, reference: str) -> bool:
    """Return whether a reference leads to a schema, as it does from the root."""
    resolver = EMPTY_REGISTRY.resolver_with_root(DRAFT202012.create_resource(root))
    try:
        return isinstance(resolver.lookup(reference).contents, dict | bool)
    except (Unresolvable, ValueError, LookupError, TypeError):
        return False


# Check the shape of SCHEMA messages and catalogs before they are used. Pure.
#
# The readers of JSON Schema assume the types of its keywords, for example that `properties` is an object. Without these
# checks they would fail with a Python error that does not name the property.

_BRANCHES = ("anyOf", "oneOf", "allOf")


def check_schema(stream: str, schema: Any, keys: Any) -> None:
    """Check the shape of a SCHEMA message; the SchemaError names the property."""
    what = f"SCHEMA of stream {stream!r}"
    if not isinstance(schema, Mapping) or not isinstance(schema.get("properties"), Mapping):
        raise SchemaError(f"{what} has no properties; a table needs at least one column")
    if not (keys is None or (isinstance(keys, list) and all(isinstance(k, str) for k in keys))):
        raise SchemaError(f"{what} has key_properties {shorten(keys)}; they must be a list of names")
    _check(schema, what, "")


def is_unicode_text(value: Any) -> bool:
    """Return whether a value is text that UTF-8 can encode; JSON can contain lone surrogates, which it cannot."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _check(node: Mapping[str, Any], what: str, path: str) -> None:
    def refuse(key: str, expected: str) -> SchemaError:
        of = f" of property {shorten(path)}" if path else ""
        return SchemaError(
            f"{what}: {key!r}{of} must be {expected}, it is {json_kind(node[key])}; correct it in the tap"
        )

    properties = node.get("properties", {})
    if not isinstance(properties, Mapping):
        raise refuse("properties", "an object")
    for branch in _BRANCHES:
        if not isinstance(node.get(branch, []), list):
            raise refuse(branch, "a list")
    kinds = node.get("type", [])
    if not isinstance(kinds, str) and not (isinstance(kinds, list) and all(isinstance(kind, str) for kind in kinds)):
        raise refuse("type", "text or a list of texts")
    if not isinstance(node.get("format", ""), str | None):
        raise refuse("format", "text")
    for name, inner in properties.items():
        inside = f"{path}.{name}" if path else name
        if not is_unicode_text(name):
            raise SchemaError(f"{what}: the name {shorten(name)} of a property is no Unicode; correct it in the tap")
        if isinstance(inner, Mapping):
            _check(inner, what, inside)
    others = [node.get("items"), *(b for branch in _BRANCHES for b in node.get(branch, []))]
    for inner in others:
        if isinstance(inner, Mapping):
            _check(inner, what, path)


# Check constraints of a SCHEMA beyond Arrow types, column by column. Pure.
#
# If a rule returns True, all values are valid. If it returns False, some may not be, and the records are checked one by
# one. All records of a stream are checked one by one if there is no rule for one of its constraints.

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
    """The rules of a stream, by column; in those of `numbers` no decimals may be in quotes, at any depth.

    `is_closed`: records must have no other members.
    """

    def __init__(self, columns: Mapping[str, tuple[Rule, ...]], numbers: frozenset[str], *, is_closed: bool) -> None:
        self._columns, self.numbers, self.is_closed = columns, numbers, is_closed

    def hold(self, batch: pa.RecordBatch) -> bool:
        """Return whether all records of a batch are certainly valid for the SCHEMA."""
        return all(rule(batch.column(name)) for name, rules in self._columns.items() for rule in rules)


def rules_for(schema: Mapping[str, Any], fields: pa.Schema, keys: Iterable[str]) -> Rules | None:
    """Return the rules for records, which must have the properties `keys`; None if they must be checked one by one."""
    asked = {k for k in schema if k in KEYWORDS} - {"properties"}
    if asked - {"type", "required", "additionalProperties"} or "object" not in _types(schema, {"object"}):
        return None
    properties, extra = schema["properties"], schema.get("additionalProperties", True)
    if not isinstance(extra, bool):
        return None
    if not extra:  # others must be detected as lines are read, and so all that are known must be read
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
    numbers = frozenset(f.name for f in fields if _has_number(f, properties.get(f.name)))
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
    return Rules(columns, frozenset(), is_closed=False)


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
        return tuple(lambda column, rule=rule: rule(column.flatten()) for rule in inner)
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
            return (*rules, lambda column: _is_within(column, prop))
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


def _is_within(column: pa.Array, prop: Mapping[str, Any]) -> bool:
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
