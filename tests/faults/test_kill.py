"""kill -9 at random moments, then a rerun from the last STATE that came out: the rows are exact, append-only.

Ten moments for the target and ten for the tap, half of the reruns without the STATE, over enough objects that several
tasks, batch files and load jobs are under way at once.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local_cloud.programs import Programs

OBJECTS, ROWS_EACH = 420, 30
ROWS = OBJECTS * ROWS_EACH
LONGEST = 7.0  # seconds: a run that is not killed takes about as long
MOMENTS = range(10)


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
    return name


class Pipeline:
    """`tap-s3-files | target-bigquery`, as a shell starts it, with the last STATE kept as Meltano keeps it."""

    def __init__(self, run: Programs, source: str, stage: str, folder: Path) -> None:
        self._run = run
        self._out = folder / "target-stdout"
        self._tap = {
            "streams": [{"name": "rows", "path": f"s3://{source}/in/*.csv"}],
            "batch_config": {
                "encoding": {"format": "parquet"},
                "storage": {"root": f"s3://{stage}/batches"},
                "target_file_mb": 0.02,
            },
        }
        self._target = {"max_batch_age_seconds": 0.3, "max_batch_mb": 0.05}
        self.state: dict[str, Any] | None = None

    def start(self, *, state: bool) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        known = {"state": self.state} if state and self.state else {}
        tap = self._popen(self._run.command("tap-s3-files", config=self._tap, **known), stdin=subprocess.DEVNULL)
        command = self._run.command("target-bigquery", config=["ENV", self._target])
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


def exact(bq: Any, dataset: str) -> tuple[int, int, int]:
    query = f"SELECT COUNT(*), COUNT(DISTINCT id), CAST(SUM(score * 4) AS INT64) FROM `{dataset}.rows`"
    return tuple(next(iter(bq.query(query).result())))


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("victim", ["target", "tap"])
def test_kill_and_rerun(
    victim: str, moment: int, run: Programs, source: str, bucket: str, dataset: str, bq: Any, tmp_path: Path
) -> None:
    chance = random.Random(f"{victim}-{moment}")
    state = moment % 2 == 0  # every other rerun has lost its STATE too
    pipeline = Pipeline(run, source, bucket, tmp_path)

    tap, target = pipeline.start(state=state)
    time.sleep(chance.uniform(0.1, 1.0) * LONGEST)
    (target if victim == "target" else tap).kill()
    pipeline.end(tap, target)
    pipeline.run_to_the_end(state=state)
    assert exact(bq, dataset) == (ROWS, ROWS, sum(range(ROWS)))

    pipeline.run_to_the_end(state=False)  # and everything once more
    assert exact(bq, dataset) == (ROWS, ROWS, sum(range(ROWS)))
