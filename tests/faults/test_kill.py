"""kill -9 at random moments, then a rerun from the last STATE that came out: the rows are exact, append-only.

Ten moments for each target and for the tap before it, of which `make test` tries two, half of the reruns without the
STATE, over enough objects that several tasks, batch files and loads are under way at once. One object is large: it
makes many batch files, and an interrupted run goes on within it. Some of the runs stage their files on Google Cloud
Storage, and some remove batch files once the STATE behind them is out, so that later runs have to make them again.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from warehouses import Warehouse

from local_cloud.programs import Programs

ROWS_EACH = 30
LARGE = 6000
FIRST_OF_LARGE = 1_000_000


@dataclass(frozen=True)
class Size:
    """How much is loaded, so that a load can be interrupted at every point of it.

    Attributes:
        objects: how many are read.
        keys: patterns of their keys.
        file_mb, group_mb: sizes of batch files and of groups of them.
        longest: seconds that a run takes which is not killed, or a little less.
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
OBJECTS = max(size.objects for size in SIZES.values())
KILLS = [
    pytest.param(warehouse, victim, moment, marks=[pytest.mark.soak] if moment > 1 else [])
    for warehouse in SIZES
    for victim in ("target", "tap")
    for moment in range(10)
]
STAGED = {1, 2, 5, 6, 8, 9}
CLEANED = {"target": {1, 3, 6, 7, 8}, "tap": {0, 2, 3, 6, 9}}


@pytest.fixture(scope="module")
def source(s3: Any) -> str:
    """A bucket of many small objects, shared by the tests, which only read it."""
    name = f"kill-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)

    def upload(number: int) -> None:
        first = number * ROWS_EACH
        lines = "".join(f"{i},text of row {i},{i / 4}\n" for i in range(first, first + ROWS_EACH))
        s3.put_object(Bucket=name, Key=f"in/{number:05d}.csv", Body=f"id,name,score\n{lines}".encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(upload, range(OBJECTS)))
    s3.put_object(Bucket=name, Key="in/large.parquet", Body=large(range(FIRST_OF_LARGE, FIRST_OF_LARGE + LARGE)))
    return name


def large(ids: range) -> bytes:
    """A file of many row groups, of which each is a batch."""
    columns = {"id": ids, "name": [f"text of row {i}" for i in ids], "score": [i / 4 for i in ids]}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=300)
    return out.getvalue()


class Pipeline:
    """`tap-s3-files | target-...`, as a shell starts it, with the last STATE kept as Meltano keeps it."""

    def __init__(
        self, run: Programs, warehouse: Warehouse, source: str, stage: str, folder: Path, **settings: Any
    ) -> None:
        self._run, self._program = run, warehouse.program
        self._out = folder / "target-stdout"
        size = SIZES[warehouse.name]
        keys = [*(f"{k}.csv" for k in size.keys), "large.parquet"]
        self._tap = {
            "streams": [{"name": "rows", "path": [f"s3://{source}/in/{k}" for k in keys]}],
            "batch_config": {
                "encoding": {"format": "parquet"},
                "storage": {"root": f"s3://{stage}/batches"},
                "target_file_mb": size.file_mb,
            },
        }
        self._target = {"max_batch_age_seconds": 0.3, "max_batch_mb": size.group_mb, **settings}
        self.state: dict[str, Any] | None = None

    def start(self, *, state: bool) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        known = {"state": self.state} if state and self.state else {}
        tap = self._popen(self._run.command("tap-s3-files", config=self._tap, **known), stdin=subprocess.DEVNULL)
        command = self._run.command(self._program, config=["ENV", self._target])
        with self._out.open("wb") as out:
            target = self._popen(command, stdin=tap.stdout, stdout=out)
        assert tap.stdout is not None
        tap.stdout.close()  # so that the tap learns of the target's death
        return tap, target

    def _popen(self, command: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        streams = {"stdout": subprocess.PIPE, **streams}
        return subprocess.Popen(command, stderr=subprocess.PIPE, env=self._run.env, **streams)

    def end(self, tap: subprocess.Popen[bytes], target: subprocess.Popen[bytes]) -> tuple[str, str]:
        """Wait for both; what they said on stderr. The last STATE that came out is kept."""
        with ThreadPoolExecutor(2) as pool:
            said = list(pool.map(lambda p: p.stderr.read().decode(errors="replace"), (tap, target)))
        tap.wait(60)
        target.wait(60)
        tap.stderr.close()
        target.stderr.close()
        for line in self._out.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self.state = json.loads(line)
        return said[0], said[1]

    def run_to_the_end(self, *, state: bool) -> None:
        tap, target = self.start(state=state)
        said = self.end(tap, target)
        assert (tap.returncode, target.returncode) == (0, 0), "\n".join(said)[-8000:]


def exact(warehouse: Warehouse) -> tuple[int, int, int]:
    return warehouse.one("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS ids, SUM(score * 4) AS scores FROM {rows}")


@pytest.mark.parametrize(("warehouse", "victim", "moment"), KILLS, indirect=["warehouse"])
def test_kill_and_rerun(
    victim: str,
    moment: int,
    run: Programs,
    source: str,
    bucket: str,
    gcs_bucket: Path,
    warehouse: Warehouse,
    tmp_path: Path,
) -> None:
    chance = random.Random(f"{victim}-{moment}")
    state = moment % 2 == 0  # every other rerun has lost its STATE too
    settings: dict[str, Any] = {}
    if moment in STAGED and warehouse.name == "bigquery":
        settings["gcs_stage"] = f"gs://{gcs_bucket.name}/stage"
    if moment in CLEANED[victim]:
        settings |= {"clean_up_batch_files": True, "manifest_roots": [f"s3://{bucket}/batches"]}
    pipeline = Pipeline(run, warehouse, source, bucket, tmp_path, **settings)
    size = SIZES[warehouse.name]
    expected = (len(size.ids), len(size.ids), sum(size.ids))

    tap, target = pipeline.start(state=state)
    time.sleep(chance.uniform(0.1, 1.0) * size.longest)
    (target if victim == "target" else tap).kill()
    pipeline.end(tap, target)
    pipeline.run_to_the_end(state=state)
    assert exact(warehouse) == expected

    if moment % 4 == 0:  # and everything once more
        pipeline.run_to_the_end(state=False)
        assert exact(warehouse) == expected
