"""Which values of settings and of the environment are secret, and texts and settings without them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from singer_arrow.errors import one_line

MASK = "***"
_NAMES = re.compile(r"secret|token|passw|credential|private|headers|access_key|api_key|params", re.IGNORECASE)
"""Names of settings whose values may be secret, whether or not they are declared so."""
_SHORTEST = 6
"""Shorter values are not masked in texts: they may be parts of ordinary words."""


def without_secrets(config: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with their secrets masked, also passwords and signatures in URLs."""
    properties = schema.get("properties") or {}
    return {
        name: MASK if _is_secret(name, declared) and value is not None else _masked(value, declared)
        for name, value in config.items()
        for declared in [properties.get(name) or {}]
    }


def secret_values(
    config: Mapping[str, Any], schema: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> list[str]:
    """Return the secret texts of settings and of environment variables, the longest first."""
    found = {*_secrets(config, schema), *(text for name, text in (environ or {}).items() if _NAMES.search(name))}
    return sorted((text for text in found if len(text) >= _SHORTEST), key=len, reverse=True)


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with each of some secrets replaced by asterisks."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _is_secret(name: str, declared: Mapping[str, Any]) -> bool:
    return bool(declared.get("secret") or _NAMES.search(name))


def _masked(value: Any, declared: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return without_secrets(value, declared)
    if isinstance(value, list | tuple):
        return [_masked(item, declared.get("items") or {}) for item in value]
    return one_line(value) if isinstance(value, str) else value


def _secrets(value: Any, schema: Mapping[str, Any], *, is_secret: bool = False) -> Iterator[str]:
    if isinstance(value, str) and is_secret:
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, schema.get("items") or {}, is_secret=is_secret)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            declared = (schema.get("properties") or {}).get(name) or {}
            yield from _secrets(inner, declared, is_secret=is_secret or _is_secret(name, declared))
