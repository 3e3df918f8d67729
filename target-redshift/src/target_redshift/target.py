"""The target: its name, and the classes of its settings, tables and runs."""

from __future__ import annotations

from typing import Any, ClassVar

from singer_arrow.sdk.target import WarehouseTarget
from target_redshift.run import RedshiftRun
from target_redshift.settings import REQUIRED, SETTINGS, Settings
from target_redshift.stream_table import RedshiftStreamTable


class TargetRedshift(WarehouseTarget):
    """Singer target that loads BATCH files and records into Amazon Redshift, exactly once."""

    name = "target-redshift"
    package_name = "singer-arrow-target-redshift"
    config_jsonschema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": dict(SETTINGS),  # to which the SDK adds its own
        "required": list(REQUIRED),
    }
    setting_options = ("host", "port", "dbname", "user", "default_target_schema", "copy_role_arn", "load_method")
    settings_class = Settings
    table_class = RedshiftStreamTable
    run_class = RedshiftRun
