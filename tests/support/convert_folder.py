"""Convert objects on local disk to batch files within this process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from singer_arrow.batch.message import Batch
from singer_arrow.batch.settings import BatchSettings
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.memory_budget import Budget
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.catalog import METADATA
from tap_s3_files.plan.model import Task
from tap_s3_files.progress import Progress
from tap_s3_files.read_task import Worker, read
from tap_s3_files.stream_job import StreamJob
from tap_s3_files.write_batches import convert_task

SOURCE = pa.schema([("id", pa.int64()), ("name", pa.string())])
JOB = StreamJob("orders", pa.schema([*SOURCE, *METADATA]), True, "auto", ReadOptions())


class Folder:
    """Objects on local disk, and a worker that reads them."""

    def __init__(self, path: Path) -> None:
        self.path, self.storage = path, Storage()
        self.batch = BatchSettings(Url.parse(str(path / "out")), "", "parquet", "zstd", 1 << 20)
        self.worker = Worker(self.storage, Budget(), Progress("orders"), threading.Event())

    def csv(self, name: str, first: int, rows: int) -> ObjectInfo:
        lines = "".join(f"{n},n{n}\n" for n in range(first, first + rows))
        return self.write(name, f"id,name\n{lines}")

    def write(self, name: str, text: str | bytes) -> ObjectInfo:
        path = self.path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return self.storage.head(Url.parse(str(path)))

    def convert(
        self, *objects: ObjectInfo, job: StreamJob = JOB, target_bytes: int = 1 << 20, **more: Any
    ) -> list[Batch]:
        found = []
        for step in convert_task(job, Task(objects), self.worker, replace(self.batch, **more), target_bytes):
            self.worker.progress.add(step.counts)
            found += [step.batch] if step.batch else []
        return found

    def rows(self, *objects: ObjectInfo, job: StreamJob = JOB) -> list[dict[str, Any]]:
        pieces = read(job, Task(objects), self.worker)
        return [row for piece in pieces if piece.batch for row in piece.batch.to_pylist()]


def file_of(batch: Batch) -> Path:
    (url,) = batch.manifest
    return Url.parse(url).local_path()
