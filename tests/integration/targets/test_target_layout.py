"""Log messages and errors for tables whose layout differs from the settings."""

from __future__ import annotations

import json
from typing import Any

from local_cloud.programs import Programs

APPLIES = "applies to new tables alone"


def test_an_existing_table_keeps_its_layout_and_a_warning_is_logged(run: Programs, dataset: str) -> None:
    at = {"type": ["null", "string"], "format": "date-time"}
    properties: dict[str, Any] = {"id": {"type": "integer"}, "a-b": {"type": "string"}, "at-x": at}
    schema = {"type": "object", "properties": properties}
    line = json.dumps({"type": "SCHEMA", "stream": "rows", "schema": schema, "key_properties": []}) + "\n"
    layout = {"partition_by": "at-x", "cluster_by": ["a-b", "id"]}
    for _ in range(2):
        assert APPLIES not in run("target-bigquery", config=["ENV", layout], stdin=line).check().stderr
    other = {"partition_by": "id", "cluster_by": ["id"]}
    log = run("target-bigquery", config=["ENV", other], stdin=line).check().stderr
    assert f"local.{dataset}.rows is partitioned by at_x; partition_by {APPLIES}" in log
    assert f"local.{dataset}.rows is clustered by a_b, id; cluster_by {APPLIES}" in log
