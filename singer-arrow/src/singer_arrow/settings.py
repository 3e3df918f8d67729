"""Settings, each declared once: as a field of a dataclass, from which its JSON Schema and its value follow.

    @dataclass(frozen=True, slots=True)
    class Csv:
        delimiter: str | None = setting("What separates the values of a line.")
        skip_rows: int = setting("Lines to skip before the header.", default=0, minimum=0)

Configurations are checked with `json_schema(Csv)`, which `--about`, the pages of settings, Meltano's plugins and the
schemas for editors show too; `read_settings(Csv, config)` makes the object of a checked one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

SettingsT = TypeVar("SettingsT")
_hints = cache(get_type_hints)
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}


@dataclass(frozen=True, slots=True)
class _Declared:
    """What `setting` adds to a field; `keywords` are those of JSON Schema."""

    keywords: Mapping[str, Any]
    required: bool
    name: str | None
    kind: Any
    parse: Callable[[Any], Any] | None
    of_object: str | None
    scope: str


def setting(
    description: str,
    *,
    default: Any = None,
    factory: Callable[[], Any] | None = None,
    required: bool = False,
    name: str | None = None,
    of_object: str | None = None,
    kind: Any = None,
    parse: Callable[[Any], Any] | None = None,
    secret: bool = False,
    scope: Literal["run", "run and stream", "stream"] = "run",
    **keywords: Any,
) -> Any:
    """Declare a field of a dataclass as a setting; unless it is `required`, null means not set.

    Args:
        description: What it is, in Markdown.
        default: As in a configuration; shown if it is not empty.
        factory: Makes a default that is not shown.
        required: Whether each configuration must have it.
        name: Its name in a configuration, if not the field's. A dot leads into an object: `csv.delimiter`.
        of_object: Description of that object, at the first of its members.
        kind: Its type in a configuration, if not the field's.
        parse: Makes the field's value of the configuration's.
        secret: Whether no message may repeat it.
        scope: Whether it belongs to the run, or to one stream, whose entry in the setting `streams` then has it.
        keywords: Further keywords of JSON Schema, such as `minimum`.
    """
    keywords["description"] = description
    if isinstance(default, str | int | float | tuple) and default not in ("", ()):
        keywords["default"] = list(default) if isinstance(default, tuple) else default
    if secret:
        keywords |= {"secret": True, "writeOnly": True}
    metadata = {"setting": _Declared(keywords, required, name, kind, parse, of_object, scope)}
    if required:
        return field(repr=not secret, metadata=metadata)
    if factory or isinstance(default, dict):
        return field(default_factory=factory or dict, repr=not secret, metadata=metadata)
    value = parse(default) if parse and default is not None else default
    return field(default=value, repr=not secret, metadata=metadata)


def described(cls: type, name: str, description: str) -> Any:
    """Declare a setting of a base class again, in other words."""
    (part,) = (part for part in fields(cls) if part.name == name)
    declared = part.metadata["setting"]
    keywords = declared.keywords | {"description": description}
    return field(default=part.default, kw_only=True, metadata={"setting": replace(declared, keywords=keywords)})


def inline(default: Any, *names: str) -> Any:
    """Declare a field whose value has settings, or only those of some fields, that are beside those of this class."""
    return field(default=default, metadata={"inline": names})


def json_schema(cls: type, *names: str, scope: str = "run") -> dict[str, Any]:
    """Return the JSON Schema of the settings of a dataclass, its own before those of its bases, or of some fields.

    With the scope `stream` it is that of an entry of `streams`, where no setting is an object from streams to values.
    """
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    for path, last, declared, kind in _declared(cls, names):
        if scope not in declared.scope:
            continue
        place = schema
        for name in path:
            made: dict[str, Any] = {"type": ["object", "null"], "description": declared.of_object, "properties": {}}
            inner = place["properties"].setdefault(name, made)
            if declared.required:
                place.setdefault("required", []).append(name)
                inner["type"] = "object"
            place = inner
        part = {**_schema_of(kind), **declared.keywords}
        if declared.required:
            place.setdefault("required", []).append(last)
        else:
            kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
            part["type"] = [*kinds, "null"]
        place["properties"][last] = part
    return schema


def without_defaults(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of settings that are given in place of others: what is not given is not filled in."""
    inner = {name: without_defaults(part) for name, part in schema.get("properties", {}).items()}
    kept = {name: value for name, value in schema.items() if name not in ("default", "required")}
    return kept | ({"properties": inner} if inner else {})


def read_settings(cls: type[SettingsT], config: Mapping[str, Any]) -> SettingsT:
    """Return the settings of a configuration that the JSON Schema has found valid; lists become tuples."""
    return cls(**settings_in(cls, config))


def settings_in(cls: type, config: Mapping[str, Any], names: Iterable[str] = ()) -> dict[str, Any]:
    """Return the values that a configuration sets of the fields of a dataclass, or of some."""
    hints, values = _hints(cls), dict[str, Any]()
    for part in fields(cls):
        if names and part.name not in names:
            continue
        if "inline" in part.metadata:
            default: Any = part.default
            values[part.name] = replace(default, **settings_in(type(default), config, part.metadata["inline"]))
        elif declared := part.metadata.get("setting"):
            given: Any = config
            for name in (declared.name or part.name).split("."):
                given = (given or {}).get(name)
            if given is not None:
                values[part.name] = declared.parse(given) if declared.parse else _value(given, hints[part.name])
    return values


def _declared(cls: type, names: Iterable[str]) -> Iterator[tuple[list[str], str, _Declared, Any]]:
    """Yield the settings of a dataclass, or of some fields: path and name, declaration, type in a configuration."""
    hints, own = _hints(cls), [*get_annotations(cls)]
    for part in sorted(fields(cls), key=lambda part: own.index(part.name) if part.name in own else len(own)):
        if names and part.name not in names:
            continue
        if "inline" in part.metadata:
            yield from _declared(type(part.default), part.metadata["inline"])
        elif declared := part.metadata.get("setting"):
            *path, name = (declared.name or part.name).split(".")
            yield path, name, declared, declared.kind or hints[part.name]


def _schema_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, without null."""
    origin, arguments = get_origin(kind), [a for a in get_args(kind) if a is not NoneType]
    if origin in (Union, UnionType):
        schemas = [_schema_of(argument) for argument in arguments]
        kinds = [schema["type"] for schema in schemas]
        merged = {key: value for schema in schemas for key, value in schema.items()}
        return merged | {"type": kinds if len(kinds) > 1 else kinds[0]}
    if origin is Literal:
        return {"type": "string", "enum": arguments}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    return {"type": _KINDS[kind]} if kind in _KINDS else json_schema(kind)


def _value(given: Any, kind: Any) -> Any:
    if isinstance(given, list):
        return tuple(_value(item, kind) for item in given)
    cls = _class_in(kind)
    return read_settings(cls, given) if cls and isinstance(given, Mapping) else given


def _class_in(kind: Any) -> type | None:
    """Return the dataclass in a type such as `tuple[Column, ...] | None`."""
    if isinstance(kind, type) and is_dataclass(kind):
        return kind
    return next(filter(None, map(_class_in, get_args(kind))), None)
