"""Target from the SDK's template, with the SDK's BATCH support; tests run it as a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from singer_sdk import BatchSink, Target
from singer_sdk import typing as th


class LinesSink(BatchSink):
    """Writes each record as a line."""

    def process_batch(self, context: dict[str, Any]) -> None:
        """Append the records."""
        with Path(self.config["out"]).open("a") as out:
            out.writelines(json.dumps(r, default=str) + "\n" for r in context["records"])


class StockTarget(Target):
    """The target."""

    name = "target-stock"
    config_jsonschema = th.PropertiesList(th.Property("out", th.StringType, required=True)).to_dict()
    default_sink_class = LinesSink


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows that the target wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    StockTarget.cli()
