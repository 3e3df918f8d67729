"""Settings of taps and targets: environment, files, options, one line for a mistake; their log lines."""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click
from singer_sdk.configuration._dict_config import parse_environment_config
from singer_sdk.exceptions import ConfigValidationError
from singer_sdk.helpers._classproperty import classproperty
from singer_sdk.plugin_base import JSONSchemaValidator, PluginBase, _ConfigInput
from singer_sdk.typing import DEFAULT_JSONSCHEMA_VALIDATOR

from singer_arrow.errors import ConfigError, nearest, one_line, with_code
from singer_arrow.monitoring.logs import RunSettings, set_up_logs
from singer_arrow.settings import json_schema

if TYPE_CHECKING:
    from jsonschema import ValidationError


# What is wrong with a connector's settings, in words that name the setting and never hold a secret.

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

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise _twice(what, next(name for name in names if names.count(name) > 1))
        return found

    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        given = json.loads(text, object_pairs_hook=once)
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is not valid JSON: it is not text in UTF-8; save it as that") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what} is not valid JSON: {error}") from None
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
        loader = Loader(text)
        if (root := loader.get_single_node()) is not None:
            _refuse_repetition(root, what)
        given = None if root is None else loader.construct_document(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        msg = f"{what} is not valid YAML: {getattr(error, 'problem', None) or 'it is not text in UTF-8'}{where}"
        raise ConfigError(msg) from None
    except (ValueError, RecursionError) as error:  # of a tag such as `!!int`, or of values that nest too deeply
        fault = "values nest too deeply" if isinstance(error, RecursionError) else "a value is not what its tag demands"
        raise ConfigError(f"{what} is not valid YAML: {fault}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{what} must hold a YAML mapping, such as 'streams:' and what belongs to it")
    return bounded(given, what)


def _refuse_repetition(root: Any, what: str) -> None:
    """Raise ConfigError if a mapping of a YAML tree has a name twice; those that `<<` brings may be replaced."""
    import yaml

    nodes, known = [root], set[int]()
    while nodes:
        node = nodes.pop()
        if id(node) in known:  # of an alias
            continue
        known.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names = set[str]()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in names:
                        raise _twice(f"{what}, line {key.start_mark.line + 1},", key.value)
                    names.add(key.value)
                nodes += [key, value]
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value


def _twice(where: str, name: str) -> ConfigError:
    return ConfigError(f"{where} has {name!r} twice, and one of them would not count; leave it out")


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


def _nest(config: dict[str, Any], outer: str, schema: Mapping[str, Any]) -> None:
    """Accept the name `aws_region`, as other Singer connectors have it, for `aws.region`."""
    given = config.get(outer) or {}
    for name in schema["properties"].get(outer, {}).get("properties", ()):
        if (flat := f"{outer}_{name}") in config and isinstance(given, dict):
            if name in given:
                raise ConfigError(f"Settings {flat!r} and '{outer}.{name}' are the same; leave one out")
            config[outer] = given = {**given, name: config.pop(flat)}


def _unknown(value: Any, schema: Mapping[str, Any], where: str) -> Iterator[str]:
    free = schema.get("additionalProperties")  # the SDK's types default to true
    if isinstance(value, Mapping) and isinstance(free, Mapping) and not schema.get("properties"):
        for name, inner in value.items():
            yield from _unknown(inner, free, f"{where}.{name}")
    elif isinstance(value, Mapping) and schema.get("properties"):
        known = schema["properties"]
        for name, inner in value.items():
            path = f"{where}.{name}" if where else str(name)
            if name in known:
                yield from _unknown(inner, known[name], path)
            elif not isinstance(free, Mapping):
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


# Settings in environment variables: `TARGET_X_MAX_BATCH_MB=0.5` for `max_batch_mb`.

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
    if "string" in kinds and kinds & {"integer", "number"}:  # the text '1' differs from the number: a sheet's name
        return text
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


# Variables in files of settings: `root: ${BUCKET}/batches`, `port: ${PORT:-5439}`; `$${` is `${`.

_VARIABLE = re.compile(r"\$\$\{|\$\{(\w+)(?::-([^}]*))?\}")


def with_variables(given: Any, schema: Mapping[str, Any], environ: Mapping[str, str], what: str) -> Any:
    """Return settings of a file with their variables replaced, or raise ConfigError if one is not set.

    A text is what `_from_text` makes of it: Meltano writes numbers, booleans, lists and objects within `streams` as
    text, and objects of settings that may also be something else.
    """

    def value_of(found: re.Match[str]) -> str:
        name, default = found.groups()
        if name is None:
            return "${"
        if (value := environ.get(name) or default or environ.get(name)) is None:
            raise ConfigError(f"{what} needs variable {name}, which is not set; set it, or write ${{{name}:-DEFAULT}}")
        return value

    if isinstance(given, dict):
        known, others = schema.get("properties") or {}, schema.get("additionalProperties")
        others = others if isinstance(others, Mapping) else {}
        return {key: with_variables(value, known.get(key, others), environ, what) for key, value in given.items()}
    if isinstance(given, list):
        return [with_variables(item, schema.get("items") or {}, environ, what) for item in given]
    return _from_text(_VARIABLE.sub(value_of, given), schema) if isinstance(given, str) else given


# Settings of taps and targets checked, and log lines without secrets.
#
# The privates of the SDK that are used here are listed in tests of `tests/unit/singer_arrow/sdk`.

_CHATTY = ("botocore", "boto3", "urllib3", "s3transfer", "google.auth")
"""Libraries that log headers and tokens when asked for debug."""
_PLACES = ("path", "root", "plan_root", "report", "gcs_stage", "s3_stage", "manifest_url", "key_file")
_LEFT_VARIABLE = re.compile(r"\$\{\w+[^}]*\}")
_SUMMARY = "Config validation failed"
_NOT_KEPT = (_SUMMARY, "Error initializing target sink", "Skipping parse of env var settings")
"""Beginnings of lines of the SDK that repeat a line of ours, or are not true: `config_input` reads the environment."""


def _is_kept(line: logging.LogRecord) -> bool:
    return not str(line.msg).startswith(_NOT_KEPT)


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
    elif isinstance(config, str) and name in _PLACES and (found := _LEFT_VARIABLE.search(config)):
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
        if isinstance(others := schema.get("additionalProperties"), Mapping):
            for value in config.values():
                _drop_nulls(value, others)


def load_environment_file(folder: Path | None = None) -> None:
    """Add the variables of a file `.env`, in a folder (by default this one) or one above it, to the environment."""
    within = (folder or Path()).absolute()
    found = (place / ".env" for place in (within, *within.parents) if (place / ".env").is_file())
    parse_environment_config({}, "", next(found, ""))


def environment_settings(plugin: type[PluginBase]) -> dict[str, Any]:
    """Return the settings that environment variables give, also those in a file `.env`; see `from_environment`.

    The SDK alone reads no numbers with a fraction, and takes an object for the only thing that a setting may be.
    """
    schema = plugin.config_jsonschema
    plugin.append_builtin_config(schema)
    load_environment_file()
    return from_environment(os.environ, plugin._env_var_prefix, schema)


def file_settings(plugin: type[PluginBase], path: str, what: str) -> dict[str, Any]:
    """Return the settings of a file, with the variables of the environment, also of a file `.env`, replaced."""
    given = object_file(path, what)
    if "${" in json.dumps(given):
        load_environment_file()
    schema = plugin.config_jsonschema
    plugin.append_builtin_config(schema)
    replaced: dict[str, Any] = with_variables(given, schema, os.environ, what)
    return replaced


_ENVIRONMENT = "the environment"


def config_input(plugin: type[PluginBase], sources: Iterable[str]) -> _ConfigInput:
    """Return the settings of what `--config` names: files, and `ENV` for the environment, each over those before it.

    What is replaced is logged, unless a file replaces the environment before it, which is what that order is for.
    """
    merged: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for source in sources:
        is_file = source != "ENV"
        what = f"--config {source}" if is_file else _ENVIRONMENT
        given = file_settings(plugin, source, what) if is_file else environment_settings(plugin)
        for name, value in given.items():
            if name == "$schema":  # for editors
                continue
            is_usual = is_file and origins.get(name) == _ENVIRONMENT
            if name in merged and merged[name] != value and not is_usual:
                plugin.logger.warning("Setting %r: %s replaces the value of %s", name, what, origins[name])
            merged[name], origins[name] = value, what
    set_up_logs(plugin.name, merged, plugin.config_jsonschema)
    return _ConfigInput(config=merged)


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
        config_jsonschema["properties"].update(json_schema(RunSettings)["properties"])

    @classmethod
    def print_about(cls, output_format: str | None = None) -> None:
        """Print what the SDK does, and in text also which parser reads JSON."""
        from singer_arrow.formats.json_lines import parser_name

        super().print_about(output_format)
        if output_format in (None, "text"):
            click.echo(f"JSON parser: {parser_name()}")

    @classmethod
    def cb_config(cls, ctx: click.Context, param: click.Option, value: tuple[str, ...]) -> _ConfigInput:  # noqa: ARG003
        """Read configuration files and the environment, the later ones over the earlier ones."""
        return config_input(cls, value)

    def complete_settings(self, config: dict[str, Any]) -> None:
        """Complete the settings that are given, before defaults are filled in."""

    def check_settings(self) -> None:
        """Check what the JSON Schema of the settings cannot; raise ConfigError if something is wrong."""

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        """Return one line a problem, unknown settings included, or raise them; defaults are filled in."""
        schema = self.config_jsonschema
        self.append_builtin_config(schema)
        config = self._config  # the validator fills in defaults
        _nest(config, "aws", schema)
        given = {"defaults": config["defaults"]} if config.get("defaults") else {}
        of_defaults = {"properties": {"defaults": schema["properties"].get("defaults", {})}}
        if not problems(given, of_defaults, DEFAULT_JSONSCHEMA_VALIDATOR(of_defaults).iter_errors(given)):
            self.complete_settings(config)  # else their mistakes would be reported for each stream
        _drop_nulls(config, schema)  # and fails on null where an object with defaults is due
        try:
            errors = list(JSONSchemaValidator(schema).iter_errors(config))
        except AttributeError:  # it fills defaults also into what is no object
            errors = list(DEFAULT_JSONSCHEMA_VALIDATOR(schema).iter_errors(config))
        found = [*problems(config, schema, errors), *_left_variables(config)]
        if found and raise_errors:
            lines = [with_code(line, ConfigError.code) for line in found]
            raise ConfigValidationError(_SUMMARY, errors=lines, schema=schema)
        if not found:
            self.check_settings()
        return found


# Command-line options that set settings: the settings of `--config`, with those of the command line over them.

Merge = Callable[[dict[str, Any], Mapping[str, Any]], None]
"""Writes what the command line gives, by the names of its parameters, into settings."""


def add_setting_options(command: click.Command, params: Iterable[click.Parameter], merge: Merge = dict.update) -> None:
    """Add parameters that set settings to a command with `--config`; those that are not given change nothing.

    `--discover` and `--test` of the SDK run while the command line is parsed, so all of it that makes settings must be
    parsed before them: the parameters are eager, and a hidden one, parsed last of all that are eager, merges them.
    """
    added = list(params)
    for param in added:
        param.is_eager = True
    names = [param.name for param in added if param.name is not None]

    def merge_given(ctx: click.Context, param: click.Parameter, value: object) -> None:  # noqa: ARG001 - click's signature
        given = {name: value for name in names if (value := ctx.params.pop(name, None)) not in (None, ())}
        merge(ctx.params["config"].config, given)

    last = click.Option(
        ["--merge-settings"], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=merge_given
    )
    command.params.extend([*added, last])


def options_of(schema: Mapping[str, Any], names: Iterable[str]) -> list[click.Option]:
    """Return an option for each of some settings that are text or whole numbers: `--load-method` for `load_method`."""
    options = []
    for name in names:
        declared = schema["properties"][name]
        kind = click.INT if "integer" in declared["type"] else click.STRING
        words = f"Setting {name}: {declared['description']}"
        options.append(click.Option([f"--{name.replace('_', '-')}", name], type=kind, help=words, show_default=False))
    return options
