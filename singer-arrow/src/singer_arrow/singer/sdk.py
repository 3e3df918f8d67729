"""What taps and targets share of the one seam to singer-sdk; only `sdk*.py` touch what the SDK keeps to itself.

The privates used are listed in `tests/unit/singer_arrow/test_sdk_*.py`, which fail when a new SDK changes them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singer_sdk.configuration._dict_config import parse_environment_config
from singer_sdk.exceptions import ConfigValidationError
from singer_sdk.helpers._classproperty import classproperty
from singer_sdk.plugin_base import JSONSchemaValidator, PluginBase
from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

from singer_arrow.errors import one_line
from singer_arrow.singer.settings import json_file, problems

if TYPE_CHECKING:
    import click
    from singer_sdk.plugin_base import _ConfigInput

_CHATTY = ("botocore", "boto3", "urllib3", "s3transfer", "google.auth")
"""Libraries that log headers and tokens when asked for debug."""
_SUMMARY = "Config validation failed"
_BEFORE_OURS = (_SUMMARY, "Error initializing target sink")
"""How lines of the SDK begin that say no more than our own line next to them."""


class CheckedPlugin(PluginBase):
    """A tap or a target whose command line and settings are checked, and whose errors are one line each."""

    def __init__(self, **kwargs: Any) -> None:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        self.logger.addFilter(_says_something)
        for handler in logging.getLogger().handlers:
            handler.addFilter(_on_one_line)
        super().__init__(**kwargs)

    def check_settings(self) -> None:
        """Check what the JSON Schema of the settings cannot.

        Raises:
            ConfigError: Something is wrong.
        """

    @classmethod
    def cb_config(cls, ctx: click.Context, param: click.Option, value: tuple[str, ...]) -> _ConfigInput:
        """Read the configuration files, the later ones over the earlier ones.

        Raises:
            ConfigError: One does not exist, or is no JSON object.
        """
        check_config_files(value)
        return super().cb_config(ctx, param, value)

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        found = checked_settings(self, raise_errors=raise_errors)
        if not found:
            self.check_settings()
        return found

    @classproperty
    def _env_var_config(cls) -> dict[str, Any]:  # noqa: N805 - it is a property of the class
        return environment_settings(cls)  # type: ignore[arg-type]  # mypy takes cls for an instance


def _says_something(line: logging.LogRecord) -> bool:
    return not str(line.msg).startswith(_BEFORE_OURS)


def _on_one_line(line: logging.LogRecord) -> bool:
    """Escape control characters, which come from keys of objects and values: they could forge lines of the log."""
    try:
        text = line.getMessage()
    except (TypeError, ValueError):  # its arguments do not fit it, which the handler tells
        return True
    if (escaped := one_line(text)) != text:
        line.msg, line.args = escaped, None
    return True


def checked_settings(plugin: PluginBase, *, raise_errors: bool) -> list[str]:
    """Validate a plugin's configuration: one line a problem, unknown settings included; defaults are filled in.

    Raises:
        ConfigValidationError: Something is wrong, and `raise_errors` is set.
    """
    schema = plugin.config_jsonschema
    plugin.append_builtin_config(schema)
    config = plugin._config  # the validator fills in defaults
    _drop_nulls(config, schema)  # and fails on null where an object with defaults is due
    try:
        errors = list(JSONSchemaValidator(schema).iter_errors(config))
    except AttributeError:  # it fills defaults also into what is no object
        errors = list(DEFAULT_JSONSCHEMA_VALIDATOR(schema).iter_errors(config))
    found = problems(config, schema, errors)
    if found and raise_errors:
        raise ConfigValidationError(_SUMMARY, errors=found, schema=schema)
    return found


def _drop_nulls(config: Any, schema: Mapping[str, Any]) -> None:
    """Remove settings that are null, which stands for not set; where the schema names none, null may mean something."""
    if isinstance(config, list):
        for item in config:
            _drop_nulls(item, schema.get("items") or {})
    if isinstance(config, dict):
        for name, part in schema.get("properties", {}).items():
            if name in config and config[name] is None:
                del config[name]
            elif name in config:
                _drop_nulls(config[name], part)


def environment_settings(plugin: type[PluginBase]) -> dict[str, Any]:
    """The settings that environment variables give, `TARGET_X_MAX_BATCH_MB=0.5` for `max_batch_mb`.

    A text becomes the first thing that the setting may be: a boolean, a number, an object or a list in JSON; else it
    stays text, and validation says what is wrong with it. The SDK alone reads no numbers with a fraction, and takes an
    object for the only thing that a setting may be.
    """
    schema = plugin.config_jsonschema
    plugin.append_builtin_config(schema)
    properties = schema["properties"]
    as_text = {"properties": {name: {"type": "string"} for name in properties}}
    given = parse_environment_config(as_text, plugin._env_var_prefix)
    return {name: _from_text(text, properties[name]) for name, text in given.items()}


def _from_text(text: str, schema: Mapping[str, Any]) -> Any:
    given = schema.get("type", "string")
    kinds = {given} if isinstance(given, str) else set(given)
    if "boolean" in kinds and text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    if kinds & {"integer", "number", "array", "object"}:
        try:
            value = json.loads(text)
        except ValueError:
            return text.split(",") if "array" in kinds and "string" not in kinds else text
        if value is None or any(isinstance(value, _JSON_KINDS[k]) for k in kinds & _JSON_KINDS.keys()):
            return value
    return text


_BOOLEANS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
_JSON_KINDS: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}


def check_config_files(paths: Iterable[str]) -> None:
    """Check what `--config` names, before the SDK reads it.

    Raises:
        ConfigError: A file does not exist, or is no JSON object.
    """
    for path in paths:
        if path == "ENV" or (Path(path).exists() and not Path(path).is_file()):  # a pipe can be read only once
            continue
        json_file(path, f"--config {path}")


def discard_output() -> None:
    """Nobody reads standard output any more; what the interpreter writes to it at its end goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
