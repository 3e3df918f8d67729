"""Settings of taps and targets checked, and log lines without secrets.

The privates of the SDK that are used here are listed in tests of `tests/unit/singer_arrow/sdk`.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from singer_sdk.configuration._dict_config import parse_environment_config
from singer_sdk.exceptions import ConfigValidationError
from singer_sdk.helpers._classproperty import classproperty
from singer_sdk.plugin_base import JSONSchemaValidator, PluginBase, _ConfigInput
from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

from singer_arrow.errors import ConfigError, one_line, with_code
from singer_arrow.monitoring.logs import set_up_logs
from singer_arrow.monitoring.settings import RUN_SETTINGS
from singer_arrow.sdk.config_errors import object_file, problems
from singer_arrow.sdk.environment import from_environment

if TYPE_CHECKING:
    import click

_CHATTY = ("botocore", "boto3", "urllib3", "s3transfer", "google.auth")
"""Libraries that log headers and tokens when asked for debug."""
_PLACES = ("path", "root", "plan_root", "report", "gcs_stage", "s3_stage", "manifest_url")
_VARIABLE = re.compile(r"\$\{\w+[^}]*\}")
_SUMMARY = "Config validation failed"
_BEFORE_OURS = (_SUMMARY, "Error initializing target sink")
"""Beginnings of lines of the SDK that repeat a line of ours."""


def _is_kept(line: logging.LogRecord) -> bool:
    return not str(line.msg).startswith(_BEFORE_OURS)


def _on_one_line(line: logging.LogRecord) -> bool:
    """Escape control characters, which come from keys of objects and values: they could forge lines of the log."""
    try:
        text = line.getMessage()
    except (TypeError, ValueError):  # its arguments do not fit it; the handler reports that
        return True
    if (escaped := one_line(text)) != text:
        line.msg, line.args = escaped, None
    line.name = one_line(line.name)  # it may end with the name of a stream
    return True


def _left_variables(config: Any, path: str = "", name: str = "") -> Iterator[str]:
    """Yield a line for each place of files that still has a variable, which a storage would take for a part of it."""
    if isinstance(config, Mapping):
        for key, value in config.items():
            yield from _left_variables(value, f"{path}.{key}" if path else str(key), str(key))
    elif isinstance(config, list | tuple):
        for number, item in enumerate(config):
            yield from _left_variables(item, f"{path}[{number}]", name)
    elif isinstance(config, str) and name in _PLACES and (found := _VARIABLE.search(config)):
        yield f"Setting {path!r} holds {found[0]}, which nothing has replaced; set the variable, or write its value"


def _drop_nulls(config: Any, schema: Mapping[str, Any]) -> None:
    """Remove settings that are null, which means not set; where the schema names none, null is kept."""
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
    """Return the settings that environment variables give, also those in a file `.env`; see `from_environment`.

    The SDK alone reads no numbers with a fraction, and takes an object for the only thing that a setting may be.
    """
    schema = plugin.config_jsonschema
    plugin.append_builtin_config(schema)
    parse_environment_config({}, plugin._env_var_prefix)  # loads the file
    return from_environment(os.environ, plugin._env_var_prefix, schema)


def config_input(plugin: type[PluginBase], sources: Iterable[str]) -> _ConfigInput:
    """Return the settings of what `--config` names: files, and `ENV` for the environment, each over those before it.

    What is replaced is logged.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        is_file = source != "ENV"
        what = f"--config {source}" if is_file else "the environment"
        given = object_file(source, what) if is_file else environment_settings(plugin)
        for name, value in given.items():
            if name == "$schema":  # for editors
                continue
            if name in merged and merged[name] != value:
                plugin.logger.warning("Setting %r: %s replaces the value of %s", name, what, origins[name])
            merged[name], origins[name] = value, what
    set_up_logs(plugin.name, merged, plugin.config_jsonschema)
    return _ConfigInput(config=merged)


def discard_output() -> None:
    """Discard what the interpreter writes to standard output at its end; the reader has closed it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class CheckedPlugin(PluginBase):
    """What taps and targets share: checked settings, and log lines that are short and of one line each."""

    _env_var_config = classproperty(environment_settings)

    def __init__(self, **kwargs: Any) -> None:
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        self.logger.addFilter(_is_kept)
        for handler in logging.getLogger().handlers:
            handler.addFilter(_on_one_line)
        super().__init__(**kwargs)

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """Add the SDK's settings, and those for the observation of runs."""
        super().append_builtin_config(config_jsonschema)
        config_jsonschema["properties"].update(RUN_SETTINGS)

    @classmethod
    def cb_config(cls, ctx: click.Context, param: click.Option, value: tuple[str, ...]) -> _ConfigInput:  # noqa: ARG003
        """Read configuration files and the environment, the later ones over the earlier ones."""
        return config_input(cls, value)

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        """Return one line a problem, unknown settings included, or raise them; defaults are filled in."""
        schema = self.config_jsonschema
        self.append_builtin_config(schema)
        config = self._config  # the validator fills in defaults
        _drop_nulls(config, schema)  # and fails on null where an object with defaults is due
        try:
            errors = list(JSONSchemaValidator(schema).iter_errors(config))
        except AttributeError:  # it fills defaults also into what is no object
            errors = list(DEFAULT_JSONSCHEMA_VALIDATOR(schema).iter_errors(config))
        found = [*problems(config, schema, errors), *_left_variables(config)]
        if found and raise_errors:
            lines = [with_code(line, ConfigError.code) for line in found]
            raise ConfigValidationError(_SUMMARY, errors=lines, schema=schema)
        return found
