"""What is wrong with a connector's settings, in words that name the setting and never hold a secret."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from singer_arrow.errors import ConfigError, nearest

if TYPE_CHECKING:
    from jsonschema import ValidationError

ValueT = TypeVar("ValueT")
_WORDS = {
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
}
_YAML_1_1 = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
"""Kinds of plain values that YAML 1.1 sees where JSON has text, such as `no` and `2024-01-01`."""
_MOST_LEVELS, _MOST_VALUES = 100, 1_000_000
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def problems(config: Mapping[str, Any], schema: Mapping[str, Any], errors: Iterable[ValidationError] = ()) -> list[str]:
    """Return one line for each fault of a configuration: undeclared names, and what a JSON Schema validator found.

    Errors are put into words here, because their own words hold the values.
    """
    return [*_unknown(config, schema, ""), *(_described(error) for error in errors)]


def json_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Parse a JSON object from the user; an error names its source, `--config c.json`, and never repeats it."""
    try:
        given = json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is no JSON: it is not text in UTF-8; save it as that") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is no JSON: {error}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must hold a JSON object")
    return bounded(given, what)


def yaml_object(text: bytes, what: str) -> dict[str, Any]:
    """Return the mapping in a YAML text, in which dates are text and only true and false are booleans."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
        """YAML 1.2's booleans, and no dates: settings are what JSON has."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
            first: [(tag, regex) for tag, regex in resolvers if tag not in _YAML_1_1]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), ["t", "f"])
    try:
        given = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        msg = f"{what} is no YAML: {getattr(error, 'problem', None) or 'it is not text in UTF-8'}{where}"
        raise ConfigError(msg) from None
    except (ValueError, RecursionError) as error:  # of a tag such as `!!int`, or of values that nest too deeply
        fault = "values nest too deeply" if isinstance(error, RecursionError) else "a value is not what its tag demands"
        raise ConfigError(f"{what} is no YAML: {fault}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must hold a YAML mapping, such as 'streams:' and what belongs to it")
    return bounded(given, what)


def bounded(given: ValueT, what: str) -> ValueT:
    """Return parsed settings of few values (YAML's aliases count each time) and levels, with only finite numbers."""
    values, level = list[Any]([given]), 0
    count = 0
    while values:
        count, level = count + len(values), level + 1
        if level > _MOST_LEVELS or count > _MOST_VALUES:
            msg = f"{what} has more than {_MOST_VALUES:,} values, or nests them deeper than {_MOST_LEVELS} levels"
            raise ConfigError(msg)
        inner = list[Any]()
        for value in values:
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{what} has the number {value}, which JSON has not: numbers must be finite")
            if isinstance(value, dict | list):
                inner.extend(value.values() if isinstance(value, dict) else value)
                if count + len(inner) > _MOST_VALUES:
                    break
        values = inner
    return given


def object_file(path: str, what: str) -> dict[str, Any]:
    """Return the JSON object in a file, or the mapping in one whose name ends with `.yml` or `.yaml`."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} cannot be read: {error.strerror}") from None
    return yaml_object(text, what) if path.endswith((".yml", ".yaml")) else json_object(text, what)


def checked_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a STATE that was given, or raise ConfigError."""
    bookmarks = state.get("bookmarks", {}) if isinstance(state, Mapping) else None
    if not isinstance(bookmarks, Mapping) or not all(isinstance(b, Mapping) for b in bookmarks.values()):
        raise ConfigError('The STATE is damaged: it must be {"bookmarks": {stream: {...}}}; restore an earlier one')
    if state and "bookmarks" not in state:
        msg = 'The STATE holds no "bookmarks"; give the value of the last STATE message: {"bookmarks": {stream: {...}}}'
        raise ConfigError(msg)
    return dict(state)


def _unknown(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, Mapping) and schema.get("properties"):
        known = schema["properties"]
        free = isinstance(schema.get("additionalProperties"), Mapping)  # the SDK's types default to true
        for name, inner in value.items():
            path = f"{where}.{name}" if where else str(name)
            if name in known:
                yield from _unknown(inner, known[name], path)
            elif not free:
                hint = nearest(str(name), known) or f"; {where or 'this connector'} has {', '.join(known)}"
                yield f"Setting {path!r} does not exist{hint}"
    elif isinstance(value, list) and "items" in schema:
        for number, inner in enumerate(value):
            yield from _unknown(inner, schema["items"], f"{where}[{number}]")


def _described(error: ValidationError) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error.absolute_path).lstrip(".")
    setting = f"Setting {where!r}" if where else "The settings"
    if error.validator == "required":
        missing = [n for n in error.validator_value if n not in error.instance]
        lack = f"{setting} lack{'s' if where else ''} {', '.join(repr(n) for n in missing)}"
        examples = error.schema.get("properties", {}).get(missing[0], {}).get("examples")
        return f"{lack}, for example {json.dumps({missing[0]: examples[0]})}" if examples else lack
    if error.validator == "type":
        allowed_types = error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        kinds = " or ".join(_WORDS[k] for k in allowed_types if k != "null")
        given = "null" if error.instance is None else _WORDS[_KINDS.get(type(error.instance), "number")]
        return f"{setting} must be {kinds}, it is {given}"
    if error.schema.get("writeOnly"):
        return f"{setting} is not valid"
    if error.validator == "enum":
        allowed = ", ".join(repr(v) for v in error.validator_value)
        return f"{setting} is {error.instance!r}, it must be one of {allowed}"
    return f"{setting} is not valid: {error.message}"
