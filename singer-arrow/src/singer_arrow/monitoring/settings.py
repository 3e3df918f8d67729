"""The settings of every connector for the observation of its runs, declared as JSON Schema. Pure."""

from __future__ import annotations

from typing import Any

JSON = "json"

RUN_SETTINGS: dict[str, dict[str, Any]] = {
    "report": {
        "type": ["string", "null"],
        "description": "Folder for reports of runs, a local path or a URL such as `s3://bucket/reports`: a JSON file "
        "and a page for each run. Tap and target may share one.",
    },
    "openlineage": {
        "type": ["object", "null"],
        "description": "Events of OpenLineage: each run sends one when it begins and one when it ends.",
        "properties": {
            "url": {
                "type": ["string", "null"],
                "description": "Where events are sent: `https://host/api/v1/lineage`; or a local file, to which each "
                "event is appended as a line.",
            },
            "api_key": {
                "type": ["string", "null"],
                "description": "Key for the receiver, sent as a bearer token.",
                "secret": True,
                "writeOnly": True,
            },
            "namespace": {"type": ["string", "null"], "description": "Namespace of the job; by default `singer`."},
            "job": {"type": ["string", "null"], "description": "Name of the job; by default the connector's."},
        },
    },
    "log_format": {
        "type": "string",
        "enum": ["text", JSON],
        "default": "text",
        "description": "Format of the lines on standard error: text, or one JSON object a line, tracebacks included. "
        "A logging configuration in `SINGER_SDK_LOG_CONFIG`, as Meltano gives it, takes precedence.",
    },
    "log_metrics": {
        "type": ["boolean", "null"],
        "description": "Whether the SDK's metrics (`METRIC`) are logged. By default in JSON logs and with "
        "`SINGER_SDK_LOG_CONFIG` only.",
    },
}
