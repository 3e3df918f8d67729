"""Log lines on standard error, without secrets: text for people, without metrics, or JSON for programs."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from singer_sdk import metrics
from singer_sdk.logging import StructuredFormatter

from singer_arrow.monitoring.secrets import mask_secrets, secret_values
from singer_arrow.monitoring.settings import JSON

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


_secrets: list[str] = []
"""The secrets of this process, also as JSON writes them."""


def mask_known(text: str) -> str:
    """Return a text without the secrets of the settings and of the environment."""
    return mask_secrets(text, _secrets)


def set_up_logs(name: str, config: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Apply the settings `log_format` and `log_metrics` to the lines on standard error, and mask secrets in them.

    The settings need not be valid.
    """
    is_json = config.get("log_format") == JSON and CONFIG_FILE not in os.environ
    secrets = secret_values(config, schema, os.environ)
    _secrets[:] = sorted({*secrets, *(json.dumps(secret)[1:-1] for secret in secrets)}, key=len, reverse=True)
    for handler in _handlers():
        plain = handler.formatter or logging.Formatter()
        plain = plain.inner if isinstance(plain, _TextFormatter) else plain
        handler.setFormatter(JsonFormatter(name) if is_json else _TextFormatter(plain))
        if not logs_metrics(config):
            handler.addFilter(_is_no_metric)
    if is_json:
        logger = logging.getLogger(name)
        of_threads, unraisable = threading.excepthook, sys.unraisablehook  # which end the process without memory
        threading.excepthook = lambda thrown: _log_thrown(logger, thrown, of_threads)
        sys.unraisablehook = lambda thrown: _log_thrown(logger, thrown, unraisable)


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
    return any(isinstance(handler.formatter, JsonFormatter) for handler in _handlers())


def log_exception(logger: logging.Logger, error: BaseException | None) -> None:
    """Log an unexpected error with its traceback."""
    text = " ".join(str(error).split()) or type(error).__name__
    logger.critical(text, exc_info=error)


def _log_thrown(logger: logging.Logger, thrown: Any, before: Callable[[Any], object]) -> None:
    if isinstance(thrown.exc_value, MemoryError):
        before(thrown)
    else:
        log_exception(logger, thrown.exc_value)


def _handlers() -> Iterator[logging.Handler]:
    """Yield the handlers that write to standard error."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
            yield handler


def _is_no_metric(record: logging.LogRecord) -> bool:
    return record.name != metrics.METRICS_LOGGER_NAME
