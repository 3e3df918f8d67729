"""JSON Schemas of drafts 4, 6, 7, 2019-09 and 2020-12 -> draft 2020-12, which is the SDK's. Pure.

A schema names its draft by `$schema`; keywords that only other drafts have mean nothing then. Without `$schema` the
form of a keyword decides: `exclusiveMaximum: true` is of draft 4, a list in `items` of a draft before 2020-12.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from logging import Logger
from typing import Any
from urllib.parse import urljoin

import pyarrow as pa
from jsonschema import FormatChecker, validators
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no types
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from singer_arrow.casting.from_text import shorten
from singer_arrow.records.validation import matches
from singer_arrow.schema.plain_numbers import plain_numbers, whole_numbers

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
_HOLDERS = (*_NAMED, *_LISTED, *_SINGLE)
"""Keywords that hold schemas."""
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
            return {name: self.schema(inner, _within(path, keyword, name), keyword) for name, inner in value.items()}
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


def _within(path: str, keyword: str, name: Any) -> str:
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
                yield from _walk(inner, _within(path, keyword, name))
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
