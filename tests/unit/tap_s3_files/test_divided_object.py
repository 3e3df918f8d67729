"""Where the ranges of a divided object begin, and what of it a task reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from convert_folder import JOB, Folder

from singer_arrow.errors import DataError
from singer_arrow.read_options import ResumePoint
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.plan_model import ObjectRange, Position, RangeStarts, Task
from tap_s3_files.read import find_ranges, find_row_starts, read, syntax_of


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def starts_in(folder: Folder) -> RangeStarts:
    return RangeStarts(folder.storage, Url.parse(str(folder.path / "ranges.json")))


def ranges(info: ObjectInfo, count: int = 3) -> list[Task]:
    return [Task((info,), range=ObjectRange(n, count)) for n in range(count)]


def ids(folder: Folder, task: Task, starts: RangeStarts, start: Position | None = None, job: Any = JOB) -> list[int]:
    pieces = read(replace(folder.context, job=job), task, start, starts=starts)
    return [row["id"] for piece in pieces if piece.batch for row in piece.batch.to_pylist()]


def test_each_task_reads_its_range(folder: Folder) -> None:
    info, starts = folder.csv("a.csv", 0, 1000), starts_in(folder)
    found = [ids(folder, task, starts) for task in reversed(ranges(info))]
    assert [i for some in reversed(found) for i in some] == list(range(1000))
    assert all(300 < len(some) < 370 for some in found)
    assert sum(len(task.ended_objects) for task in ranges(info)) == 1


def test_a_range_continues_behind_the_rows_that_were_sent(folder: Folder) -> None:
    info, starts = folder.csv("a.csv", 0, 1000), starts_in(folder)
    task = ranges(info)[1]
    whole = ids(folder, task, starts)
    assert ids(folder, task, starts, Position(0, 100, None)) == whole[100:]


def test_a_setting_of_today_may_name_a_format_without_ranges(folder: Folder) -> None:
    """The log keeps the tasks: the first one then has all rows."""
    info, starts = folder.csv("a.csv", 0, 100), starts_in(folder)
    job = replace(JOB, format="lines", schema=JOB.schema.remove(0).remove(0).insert(0, JOB.schema.field("name")))
    assert find_row_starts(replace(folder.context, job=job), ranges(info)[0])[1].at > info.size
    job = replace(JOB, options=replace(JOB.options, escape="\\"))
    assert [len(ids(folder, task, starts, job=job)) for task in ranges(info)] == [100, 0, 0]


def test_later_settings_must_not_change_where_rows_begin(folder: Folder) -> None:
    info, starts = folder.csv("a.csv", 0, 100), starts_in(folder)
    first = ids(folder, ranges(info)[0], starts)
    other = replace(JOB, options=replace(JOB.options, null_values=("x",), on_bad_row="skip"))
    rest = [i for task in ranges(info)[1:] for i in ids(folder, task, starts_in(folder), job=other)]
    assert first + rest == list(range(100))
    for name, now in (("quote", "'"), ("encoding", "latin-1"), ("delimiter", ";")):
        job = replace(JOB, options=replace(JOB.options, **{name: now}))
        with pytest.raises(DataError, match=f"was divided with {name} .*, which is .* now"):
            ids(folder, ranges(info)[1], starts_in(folder), job=job)


def test_another_spelling_of_a_setting_is_no_change(folder: Folder) -> None:
    task = ranges(folder.csv("a.csv", 0, 100))[0]
    other = replace(JOB, format="csv", options=replace(JOB.options, encoding="UTF8", compression="none"))
    assert syntax_of(other, task) == syntax_of(JOB, task)
    never = replace(JOB, format="csv", options=replace(JOB.options, escape=""))  # otherwise one may be detected
    assert syntax_of(never, task) != syntax_of(JOB, task)
    lines = ranges(folder.write("a.jsonl", "{}\n"))[0]
    other = replace(JOB, options=replace(JOB.options, quote="'", encoding="latin-1"))
    assert syntax_of(other, lines) == syntax_of(JOB, lines)


def test_an_object_is_skipped_once_whichever_of_its_ranges_are_read(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    info, starts = folder.csv("a.csv", 0, 1000), starts_in(folder)
    first, *others = ranges(info)
    assert ids(folder, first, starts)
    (folder.path / "a.csv").unlink()
    assert not [i for task in others for i in ids(folder, task, starts)]
    assert folder.context.progress.counts.skipped_objects == 1
    assert caplog.text.count("a.csv was replaced or deleted") == 1


def test_a_plan_is_written_although_an_object_cannot_be_read(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    old = folder.csv("a.csv", 0, 100)._replace(etag="of another version")
    new = folder.csv("b.csv", 0, 100)
    files = {old: RangeStarts(folder.storage, Url.parse(str(folder.path / "old.json"))), new: starts_in(folder)}
    log: Any = SimpleNamespace(range_starts=lambda task: files[task.objects[0]] if task.range else None)
    tasks = [Task((new,)), *ranges(old), *ranges(new)]
    find_ranges(folder.context, log, tasks)
    assert files[old].known(syntax_of(JOB, ranges(old)[0])) is None
    assert len(files[new].known(syntax_of(JOB, ranges(new)[0])) or ()) == 3
    assert caplog.text.count("its tasks are planned") == 1


def test_a_header_that_cannot_be_read_is_an_error(folder: Folder) -> None:
    info = folder.write("a.csv", 'id,"name\n' + "1,a\n" * 100)
    with pytest.raises(DataError, match="header"):
        find_row_starts(folder.context, ranges(info)[0])


def test_the_first_range_begins_with_the_file(folder: Folder) -> None:
    info = folder.csv("a.csv", 0, 100)
    assert find_row_starts(folder.context, ranges(info)[0])[0] == ResumePoint()
