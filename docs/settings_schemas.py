"""The JSON Schema of a connector's settings, as editors read it."""

from __future__ import annotations

from typing import Any

DRAFT = "https://json-schema.org/draft/2020-12/schema"
OF_THE_SDK = ("stream_maps", "stream_map_config", "faker_config")
"""Documented by the SDK; their parts are not listed here."""
LEFT_OUT = ("secret", "format")
"""`secret` is an annotation of the SDK; dates may lack a time or a zone, unlike `date-time`."""


def editor_schema(about: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a connector's configuration files.

    Names that the connector does not know are invalid here too, secrets are `writeOnly`, and `$schema` is allowed.

    Args:
        about: What `--about --format=json` of the connector prints.
    """
    schema = _part(about["settings"])
    known = {"$schema": {"type": "string", "description": "Where this schema is."}, **schema.pop("properties")}
    texts = {"title": about["name"], "description": about["description"]}
    return {**texts, **schema, "properties": known, "$schema": DRAFT}


def _part(setting: dict[str, Any], name: str = "") -> dict[str, Any]:
    if name in OF_THE_SDK:
        return {key: setting[key] for key in ("title", "description", "type")}
    made = {key: value for key, value in setting.items() if key not in LEFT_OUT}
    if name:
        made = {"title": name.replace("_", " ").capitalize(), **made}
    if "enum" in made and "null" in made["type"]:
        made["enum"] = [*made["enum"], None]
    if made.get("properties"):
        made["properties"] = {inner: _part(part, inner) for inner, part in made["properties"].items()}
        if not isinstance(made.get("additionalProperties"), dict):
            made["additionalProperties"] = False
    if isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = _part(made["additionalProperties"])
    if "items" in made:
        made["items"] = _part(made["items"])
    return made
