"""The target: its name, and the classes of its settings, tables and runs."""

from __future__ import annotations

from typing import Any, ClassVar

from singer_arrow.sdk.target import WarehouseTarget
from target_bigquery.run import BigQueryRun
from target_bigquery.settings import SETTINGS, Settings
from target_bigquery.stream_table import BigQueryStreamTable


class TargetBigQuery(WarehouseTarget):
    """Singer target that loads BATCH files and records into BigQuery, exactly once."""

    name = "target-bigquery"
    package_name = "singer-arrow-target-bigquery"
    config_jsonschema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": dict(SETTINGS),  # to which the SDK adds its own
        "required": ["project"],
    }
    setting_options = ("project", "dataset", "location", "credentials_path", "load_method")
    settings_class = Settings
    table_class = BigQueryStreamTable
    run_class = BigQueryRun
