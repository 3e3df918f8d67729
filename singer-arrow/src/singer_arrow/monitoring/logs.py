"""Log lines for people, or JSON for programs, without secrets; the settings of both."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

from singer_sdk import metrics
from singer_sdk.logging import StructuredFormatter

from singer_arrow.errors import one_line
from singer_arrow.settings import setting

# Which values of settings and of the environment are secret, and texts and settings without them. Pure.

MASK = "***"
_NAMES = re.compile(r"secret|token|passw|credential|private|headers|access_key|api_key|params", re.IGNORECASE)
"""Names of settings whose values may be secret, whether or not they are declared so."""
_SHORTEST = 6  # shorter values are not masked in texts: they may be parts of ordinary words


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


# The settings of every connector for the observation of its runs. Pure.

JSON = "json"


@dataclass(frozen=True, slots=True)
class LineageSettings:
    """The setting `openlineage`."""

    url: str = setting(
        "Where events are sent: `https://host/api/v1/lineage`; or a local file, to which each event is appended as a "
        "line.",
        default="",
    )
    api_key: str | None = setting("Key for the receiver, sent as a bearer token.", secret=True)
    namespace: str = setting("Namespace of the job; by default `singer`.", default="")
    job: str | None = setting("Name of the job; by default the connector's.")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is read before a connector checks its settings: by `config.get`, in monitoring."""

    report: str | None = setting(
        "Folder for reports of runs, a local path or a URL such as `s3://bucket/reports`: a JSON file and a page for "
        "each run. Tap and target may share one."
    )
    openlineage: LineageSettings | None = setting(
        "Events of OpenLineage: each run sends one when it begins and one when it ends."
    )
    log_format: Literal["text", "json"] = setting(
        "Format of the lines on standard error: text, or one JSON object a line, tracebacks included. A logging "
        "configuration in `SINGER_SDK_LOG_CONFIG`, as Meltano gives it, takes precedence.",
        default="text",
    )
    log_metrics: bool | None = setting(
        "Whether the SDK's metrics (`METRIC`) are logged. By default in JSON logs and with `SINGER_SDK_LOG_CONFIG` "
        "only."
    )


# Log lines on standard error, without secrets: text for people, without metrics, or JSON for programs.

CONFIG_FILE = "SINGER_SDK_LOG_CONFIG"
"""Environment variable with the path of a logging configuration, which the SDK applies."""


class _Gauge(NamedTuple):
    """Name of a metric that the SDK has no constant for."""

    value: str


class JsonFormatter(StructuredFormatter):
    """The SDK's structured format, one JSON object a line, with the name of the stream and with secrets masked."""

    def __init__(self, name: str) -> None:
        super().__init__(defaults={"app_name": name})
        self._of_stream = f"{name}."

    def format(self, record: logging.LogRecord) -> str:
        if record.name.startswith(self._of_stream) and not hasattr(record, "stream_name"):
            record.stream_name = record.name.removeprefix(self._of_stream)
        return mask_known(super().format(record))


class _TextFormatter(logging.Formatter):
    """Another format, with secrets masked."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return mask_known(self.inner.format(record))


_secret_texts: list[str] = []  # the secrets of this process, also as JSON writes them


def mask_known(text: str) -> str:
    """Return a text without the secrets of the settings and of the environment."""
    return mask_secrets(text, _secret_texts)


def set_up_logs(name: str, config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Apply the settings `log_format` and `log_metrics` to the lines on standard error, and mask secrets in them.

    The settings need not be valid.
    """
    is_json = config.get("log_format") == JSON and CONFIG_FILE not in os.environ
    secrets = secret_values(config, schema, os.environ)
    _secret_texts[:] = sorted({*secrets, *(json.dumps(secret)[1:-1] for secret in secrets)}, key=len, reverse=True)
    for handler in stderr_handlers():
        plain = handler.formatter or logging.Formatter()
        plain = plain.inner if isinstance(plain, _TextFormatter) else plain
        handler.setFormatter(JsonFormatter(name) if is_json else _TextFormatter(plain))
        if not logs_metrics(config):
            handler.addFilter(_is_no_metric)


def logs_metrics(config: Mapping[str, Any]) -> bool:
    """Return whether metrics are logged with these settings."""
    asked = config.get("log_metrics")
    return CONFIG_FILE in os.environ or config.get("log_format") == JSON if asked is None else bool(asked)


def log_gauge(name: str, value: float, tags: dict[str, Any]) -> None:
    """Log a metric that is a value at a time, as the SDK logs its counters."""
    point = metrics.Point("gauge", cast("metrics.Metric", _Gauge(name)), value, tags)
    metrics.log(metrics.get_metrics_logger(), point)


def writes_json() -> bool:
    """Return whether the lines on standard error are JSON by the setting `log_format`."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in stderr_handlers())


def log_exception(logger: logging.Logger, error: BaseException | None) -> None:
    """Log an unexpected error with its traceback."""
    text = " ".join(str(error).split()) or type(error).__name__
    logger.critical(text, exc_info=error)


def stderr_handlers() -> Iterator[logging.StreamHandler[Any]]:
    """Yield the handlers that write to standard error."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            yield handler


def _is_no_metric(record: logging.LogRecord) -> bool:
    return record.name != metrics.METRICS_LOGGER_NAME
