"""Pipelines `tap-s3-files | target-...` that can be killed, and the objects that they read."""

from __future__ import annotations

import io
import json
import subprocess
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from forked_programs import ForkedPrograms

from local_cloud.programs import Programs

LARGE_KEY = "large.parquet"


def put_objects(s3: Any, count: int, rows_each: int, large: range) -> str:
    """Create a bucket with many small CSV files and a large file with the ids of `large`; return its name.

    Row `i` has the id `i` and the score `i / 4`. The large file has many row groups, each of which becomes a batch.
    """
    name = f"kill-{uuid.uuid4().hex[:12]}"
    s3.create_bucket(Bucket=name)

    def upload(number: int) -> None:
        first = number * rows_each
        lines = "".join(f"{i},text of row {i},{i / 4}\n" for i in range(first, first + rows_each))
        s3.put_object(Bucket=name, Key=f"in/{number:05d}.csv", Body=f"id,name,score\n{lines}".encode())

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(upload, range(count)))
    columns = {"id": large, "name": [f"text of row {i}" for i in large], "score": [i / 4 for i in large]}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=300)
    s3.put_object(Bucket=name, Key=f"in/{LARGE_KEY}", Body=out.getvalue())
    return name


class Pipeline:
    """Tap and target, connected as in a shell, with the last STATE kept as Meltano keeps it.

    Args:
        run: Starts the programs; runs to the end are forked.
        program: The target.
        streams: Settings of the tap except the batch files.
        stage: The bucket of the batch files.
        folder: The folder for the target's output.
        file_mb: Size of a batch file in MB.
        target: Settings of the target.
        tap_program: The tap.
        more: Further settings of the tap.
    """

    def __init__(
        self,
        run: Programs,
        program: str,
        streams: list[dict[str, Any]],
        stage: str,
        folder: Path,
        *,
        file_mb: float,
        target: dict[str, Any],
        file_format: str = "parquet",
        tap_program: str = "tap-s3-files",
        **more: Any,
    ) -> None:
        self._run, self._program, self._tap_program = run, program, tap_program
        self._forked = ForkedPrograms(run.env, folder)
        self._out = folder / "target-stdout"
        storage = {"root": f"s3://{stage}/batches"}
        batches = {"encoding": {"format": file_format}, "storage": storage, "target_file_mb": file_mb}
        self._tap = {"streams": streams, "batch_config": batches, **more}
        self.target = {"max_batch_age_seconds": 0.3, **target}  # settings, which may change between runs
        self.state: dict[str, Any] | None = None

    def start(self, *, state: bool) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        """Start the tap, from the last STATE or without one, and the target behind it."""
        return self._start(self._run, state=state)

    def _start(self, run: Programs, *, state: bool) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
        known = {"state": self.state} if state and self.state else {}
        tap = self._popen(run.command(self._tap_program, config=["ENV", self._tap], **known), stdin=subprocess.DEVNULL)
        command = run.command(self._program, config=["ENV", self.target])
        with self._out.open("wb") as out:
            target = self._popen(command, stdin=tap.stdout, stdout=out)
        assert tap.stdout is not None
        tap.stdout.close()  # the tap must receive SIGPIPE when the target dies
        return tap, target

    def _popen(self, command: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        streams = {"stdout": subprocess.PIPE, **streams}
        return subprocess.Popen(command, stderr=subprocess.PIPE, env=self._run.env, **streams)

    def end(self, tap: subprocess.Popen[bytes], target: subprocess.Popen[bytes]) -> tuple[str, str]:
        """Wait for both; keep the last STATE that was written, and return their standard error."""
        with ThreadPoolExecutor(2) as pool:
            logs = list(pool.map(lambda p: p.stderr.read().decode(errors="replace"), (tap, target)))
        for process in (tap, target):
            process.wait(60)
            assert process.stderr is not None
            process.stderr.close()
        for line in self._out.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                self.state = json.loads(line)
        return logs[0], logs[1]

    def run_to_the_end(self, *, state: bool) -> None:
        """Run both, which must succeed."""
        tap, target = self._start(self._forked, state=state)
        logs = self.end(tap, target)
        assert (tap.returncode, target.returncode) == (0, 0), "\n".join(logs)[-8000:]
