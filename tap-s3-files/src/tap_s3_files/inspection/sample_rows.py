"""The first rows of some objects; requests little more than holds them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

import pyarrow as pa

from singer_arrow.reading.memory_budget import Budget
from singer_arrow.storage.object_info import ObjectInfo
from tap_s3_files.plan.model import Task
from tap_s3_files.progress import Progress
from tap_s3_files.read_task import read
from tap_s3_files.run import TapRun
from tap_s3_files.stream_job import StreamJob, Worker

_AHEAD = 1 << 20
"""Bytes that are requested ahead of what is parsed, about."""


def first_rows(
    run: TapRun, job: StreamJob, objects: Iterable[ObjectInfo], count: int
) -> tuple[pa.Table, list[ObjectInfo]]:
    """Return up to `count` rows of some objects, in order, with the objects that gave them."""
    worker = Worker(job, run.storage, Budget(_AHEAD), Progress(job.stream))
    batches, used, left = list[pa.RecordBatch](), list[ObjectInfo](), count
    for info in objects:
        with closing(read(worker, Task((info,)))) as pieces:
            for piece in pieces:
                if piece.batch is not None and piece.batch.num_rows:
                    batches.append(piece.batch.slice(0, left))
                    left -= batches[-1].num_rows
                    used = used if info in used else [*used, info]
                if left <= 0:
                    return pa.Table.from_batches(batches, job.schema), used
    return pa.Table.from_batches(batches, job.schema), used
