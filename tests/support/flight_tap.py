"""Runs of the tap against the local Flight SQL server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from local_cloud.programs import Programs, Ran

ROWS = 40_000


class Tap:
    """Runs the tap with settings of the environment, and batch files in a folder.

    Args:
        run: Runs programs in the environment of the server.
        folder: Where batch files and window logs are.
    """

    def __init__(self, run: Programs, folder: Path) -> None:
        self.run, self.folder = run, folder
        self.batches = {"encoding": {"format": "parquet"}, "storage": {"root": f"file://{folder}"}}

    def __call__(self, *streams: dict[str, Any], records: bool = False, **options: Any) -> Ran:
        """Run the tap; further settings and options of the command line are given by name."""
        line = {name: options.pop(name) for name in ("state", "catalog", "discover", "test", "env") if name in options}
        config = {"streams": list(streams), **({} if records else {"batch_config": self.batches}), **options}
        if not streams:
            del config["streams"]
        return self.run("tap-flight-sql", config=["ENV", config], **line)

    @staticmethod
    def table(ran: Ran) -> pa.Table:
        """Return the rows of the batch files of a run, in their order."""
        urls = [url.removeprefix("file://") for batch in ran.of_type("BATCH") for url in batch["manifest"]]
        return pa.concat_tables([pq.read_table(url) for url in urls], promote_options="default")

    def ids(self, ran: Ran) -> list[int]:
        """Return the column `id` of the batch files of a run, sorted."""
        found: list[int] = sorted(self.table(ran)["id"].to_pylist()) if ran.of_type("BATCH") else []
        return found


def numbers(count: int, first: int = 0) -> str:
    """Return a query with the columns id, name, score and at."""
    return (
        f"SELECT i AS id, 'name ' || i AS name, i / 4 AS score, "
        f"TIMESTAMP '2024-01-01' + i * INTERVAL 1 SECOND AS \"at\" FROM range({first}, {first + count}) r(i)"
    )
