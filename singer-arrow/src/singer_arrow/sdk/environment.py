"""Settings in environment variables: `TARGET_X_MAX_BATCH_MB=0.5` for `max_batch_mb`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from singer_arrow.errors import ConfigError, nearest
from singer_arrow.sdk.config_errors import bounded

_WHAT = "A setting in the environment"
_NOT_SETTINGS = ("_", "LOGLEVEL", "LOG_LEVEL")
"""Beginnings of other variables with the prefix; Meltano's own begin with a second underscore."""
_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_JSON_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def from_environment(environ: Mapping[str, str], prefix: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of environment variables with a prefix, such as `TAP_X_`; each must name a setting.

    A member of a setting has a variable of its own, as `meltano config list` prints it, for example
    `TAP_X_BATCH_CONFIG_STORAGE_ROOT`. A value is converted to the first of these types that the setting allows:
    boolean, number, object or list in JSON; else it remains text, and the validation of the settings may refuse it.
    """
    found: dict[str, Any] = {}
    names = dict(_names(schema, prefix))
    for name in sorted(environ, key=len):  # a setting before its members
        if name in names:
            path, part = names[name]
            holder = found
            for key in path[:-1]:
                if not isinstance(holder.get(key), dict):
                    holder[key] = {}
                holder = holder[key]
            holder[path[-1]] = _from_text(environ[name], part)
        elif name.startswith(prefix) and not name.removeprefix(prefix).startswith(_NOT_SETTINGS):
            own = {n.removeprefix(prefix) for n in names}
            hint = nearest(name.removeprefix(prefix), own) or "; unset it, or see --about for the settings"
            raise ConfigError(f"Environment variable {name} names no setting{hint}")
    return found


def _names(
    schema: Mapping[str, Any], prefix: str, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, tuple[tuple[str, ...], Mapping[str, Any]]]]:
    """Yield the variable of each setting with its path and JSON Schema; of equal names the last one counts."""
    for key, part in schema.get("properties", {}).items():
        inner = (*path, key)
        yield from _names(part, prefix, inner)
        yield prefix + "_".join(inner).upper().replace("-", "_"), (inner, part)


def _from_text(text: str, schema: Mapping[str, Any]) -> Any:
    given = schema.get("type", "string")
    kinds = {given} if isinstance(given, str) else set(given)
    if "boolean" in kinds and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if kinds & {"integer", "number", "array", "object"}:
        try:
            value = bounded(json.loads(text), _WHAT)
        except RecursionError:
            raise ConfigError(f"{_WHAT} nests too deeply") from None
        except ValueError:
            return text.split(",") if "array" in kinds and "string" not in kinds else text
        if value is None or any(isinstance(value, _JSON_KINDS[k]) for k in kinds & _JSON_KINDS.keys()):
            return value
    return text
