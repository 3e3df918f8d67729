"""kill -9 at random moments, then a rerun: the rows are exact with append-only.

The rerun starts from the last STATE that was written; every other one has lost it. There are ten moments for each
target and for the tap before it, of which `make test-all` tries two. Several tasks, batch files and loads are in
progress at once. One object is large: it makes many batch files, and an interrupted run is resumed within it. Some
runs have batch files in Arrow IPC, some stage their files on Google Cloud Storage, and some remove batch files once
the STATE after them is written, so that later runs create them again, and in some the jobs of each run are billed to
another project.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from killed_pipeline import LARGE_KEY, Pipeline, put_objects
from warehouses import Warehouse

from local_cloud.programs import Programs

ROWS_EACH = 30
LARGE = 6000
FIRST_OF_LARGE = 1_000_000


@dataclass(frozen=True)
class Size:
    """The amount of data, large enough to interrupt a load at every step.

    Attributes:
        objects: Number of objects.
        keys: Patterns of their keys.
        file_mb, group_mb: Sizes of batch files and of groups of them, in MB.
        longest: Seconds that an undisturbed run takes, or slightly less.
    """

    objects: int
    keys: tuple[str, ...]
    file_mb: float
    group_mb: float
    longest: float

    @property
    def ids(self) -> list[int]:
        return [*range(self.objects * ROWS_EACH), *range(FIRST_OF_LARGE, FIRST_OF_LARGE + LARGE)]


SIZES = {"bigquery": Size(280, ("*",), 0.02, 0.05, 4.5), "redshift": Size(200, ("000*", "001*"), 0.01, 0.02, 3.5)}
SMALL = Size(110, ("000*", "0010*"), 0.01, 0.025, 3.0)
QUICK_MOMENTS = 2
"""Number of moments that `make test-all` tries, with fewer objects."""
OBJECTS = max(size.objects for size in SIZES.values())
KILLS = [
    pytest.param(warehouse, victim, moment, marks=[pytest.mark.soak] if moment >= QUICK_MOMENTS else [])
    for warehouse in SIZES
    for victim in ("target", "tap")
    for moment in range(10)
]
IN_ARROW = {1, 4, 8}
STAGED = {1, 2, 5, 6, 8, 9}
BILLED_ELSEWHERE = {0, 3, 5, 6, 8}
CLEANED = {"target": {1, 3, 6, 7, 8}, "tap": {0, 2, 3, 6, 9}}


@pytest.fixture(scope="module")
def source(s3: Any) -> str:
    """Create a bucket of many small objects, shared by the tests, which only read it."""
    return put_objects(s3, OBJECTS, ROWS_EACH, range(FIRST_OF_LARGE, FIRST_OF_LARGE + LARGE))


def exact(warehouse: Warehouse) -> tuple[int, int, int]:
    return warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(score * 4) AS scores FROM {rows}")


@pytest.mark.parametrize(("warehouse", "victim", "moment"), KILLS, indirect=["warehouse"])
@pytest.mark.smoke("bigquery-tap-0", "redshift-target-1")
def test_kill_and_rerun(
    victim: str,
    moment: int,
    cold: Programs,
    source: str,
    bucket: str,
    gcs_bucket: Path,
    warehouse: Warehouse,
    tmp_path: Path,
) -> None:
    chance = random.Random(f"{victim}-{moment}")
    state = moment % 2 == 0  # every other rerun has lost its STATE too
    size = SMALL if moment < QUICK_MOMENTS else SIZES[warehouse.name]
    settings: dict[str, Any] = {"max_batch_mb": size.group_mb}
    if moment in STAGED and warehouse.name == "bigquery":
        settings["gcs_stage"] = f"gs://{gcs_bucket.name}/stage"
    if moment in CLEANED[victim]:
        settings |= {"clean_up_batch_files": True, "manifest_roots": [f"s3://{bucket}/batches"]}
    keys = [*(f"{k}.csv" for k in size.keys), LARGE_KEY]
    streams = [{"name": "rows", "path": [f"s3://{source}/in/{key}" for key in keys]}]
    pipeline = Pipeline(
        cold,
        warehouse.program,
        streams,
        bucket,
        tmp_path,
        file_mb=size.file_mb,
        target=settings,
        file_format="arrow" if moment in IN_ARROW else "parquet",
    )
    expected = (len(size.ids), len(size.ids), sum(size.ids))

    def bill(project: str) -> None:
        if moment in BILLED_ELSEWHERE and warehouse.name == "bigquery":
            pipeline.target["job_project"] = project

    bill("payer")
    tap, target = pipeline.start(state=state)
    time.sleep(chance.uniform(0.1, 1.0) * size.longest)
    (target if victim == "target" else tap).kill()
    pipeline.end(tap, target)
    bill("other-payer")
    pipeline.run_to_the_end(state=state)
    assert exact(warehouse) == expected

    if moment % 4 == 0 and (moment or victim == "tap"):  # then one complete run
        bill("")
        pipeline.run_to_the_end(state=False)
        assert exact(warehouse) == expected
