"""What counts as parsed while a task is read: its rows at once, its bytes once they have become rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from convert_folder import JOB, Folder

from tap_s3_files.plan_model import Task
from tap_s3_files.progress import Progress
from tap_s3_files.read import read


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_rows_and_share_grow_with_each_object_before_a_batch_file_is_written(folder: Folder) -> None:
    objects = tuple(folder.csv(f"{n}.csv", 1000 * n, 1000) for n in range(4))
    task, progress = Task(objects), folder.context.progress
    progress.plan(4, task.bytes)
    seen = [(progress.rows_read, progress.share or 0.0) for _ in read(folder.context, task)]
    rows, shares = zip(*seen, strict=True)
    assert list(rows) == sorted(rows)
    assert {1000, 2000, 3000, 4000} <= set(rows)
    assert list(shares) == sorted(shares)
    ended = [sum(info.size for info in objects[:count]) / task.bytes for count in range(4)]
    assert list(dict.fromkeys(shares)) == [*ended, 0.99]
    assert progress.counts.rows_written == 0


def test_the_share_of_one_large_object_grows_within_it(folder: Folder) -> None:
    info = folder.csv("large.csv", 0, 400_000)
    job = replace(JOB, options=replace(JOB.options, block_bytes=64 << 10))
    task, progress = Task((info,)), folder.context.progress
    progress.plan(1, task.bytes)
    shares = [progress.share for _ in read(replace(folder.context, job=job), task)]
    assert shares == sorted(share for share in shares if share is not None)
    assert shares[-1] == 0.99
    assert progress.rows_read == 400_000


def test_a_reading_that_is_given_up_takes_back_what_it_has_counted(folder: Folder) -> None:
    objects = tuple(folder.csv(f"{n}.csv", 1000 * n, 1000) for n in range(2))
    task, progress = Task(objects), folder.context.progress
    progress.plan(2, task.bytes)
    with closing(read(folder.context, task)) as pieces:
        while progress.rows_read < 1000:
            next(pieces)
    assert (progress.rows_read, progress.share) == (0, 0)
    for _ in read(folder.context, task):
        pass
    assert (progress.rows_read, progress.share) == (2000, 0.99)


def test_the_progress_of_a_run_has_each_row_once(folder: Folder) -> None:
    objects = tuple(folder.csv(f"{n}.csv", 1000 * n, 1000) for n in range(3))
    folder.convert(*objects)
    progress: Progress = folder.context.progress
    assert progress.rows_read == progress.counts.rows_read == progress.counts.rows_written == 3000
