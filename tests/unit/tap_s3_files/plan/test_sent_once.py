"""A version of an object that is in several tasks of a log is sent once by a run, in the last one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from plan_runs import info, log_in, run

from singer_arrow.storage import log_head
from singer_arrow.storage.urls import ObjectInfo
from tap_s3_files.plan_log import task_name
from tap_s3_files.settings import Bookmark

DAY = 86_400


def object_of(name: str, day: int, content: str, size: int = 10) -> ObjectInfo:
    return info(name, day * DAY, etag=content, size=size)


def sent(
    folder: Path, objects: Sequence[ObjectInfo], state: Bookmark | None
) -> tuple[list[tuple[str, list[str]]], Bookmark | None]:
    """Return the id and the contents of each task that a run reads, and the STATE behind it."""
    found = list(run(log_in(folder), objects, state))
    return [(task_name("orders", task), [o.etag or "" for o in task.read_objects]) for task, _ in found], (
        found[-1][1] if found else state
    )


@pytest.mark.parametrize("size", [10, 9 << 20], ids=["in a bundle", "alone"])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_run_that_sends_the_whole_sends_a_version_that_is_there_again_once(
    tmp_path: Path, compacts: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A, then B, then A again, and a neighbour that stays."""
    monkeypatch.setattr(log_head, "FANOUT", 2 if compacts else 16)
    z, state, days = object_of("z", 0, "Z"), None, list[list[tuple[str, list[str]]]]()
    states = [state]
    for day, content in enumerate("ABA"):
        tasks, state = sent(tmp_path, [object_of("a", day, content, size), z], state)
        days.append(tasks)
        states.append(state)
    own = {name: contents for tasks in days for name, contents in tasks}
    assert sorted(c for contents in own.values() for c in contents) == ["A", "A", "B", "Z"]

    whole, _ = sent(tmp_path, [object_of("a", 2, "A", size), z], None)
    assert [c for _, contents in whole for c in contents] == ["Z", "B", "A"]
    assert {name for name, _ in whole} <= own.keys()  # the ids are those under which a ledger knows them
    if size == 10:
        assert [name for name, _ in whole] == list(own)
    # a run that was killed goes on from any STATE, and from none
    late, _ = sent(tmp_path, [object_of("a", 2, "A", size), z], states[1])
    assert [c for _, contents in late for c in contents] == ["B", "A"]


def test_what_is_there_again_since_the_last_run_is_planned_before_the_log_is_sent_anew(tmp_path: Path) -> None:
    z = object_of("z", 0, "Z")
    _, state = sent(tmp_path, [object_of("a", 0, "A"), z], None)
    sent(tmp_path, [object_of("a", 1, "B"), z], state)
    whole, _ = sent(tmp_path, [object_of("a", 2, "A"), z], None)
    assert [contents for _, contents in whole] == [["Z"], ["B"], ["A"]]


def test_the_last_task_that_a_run_selects_counts(tmp_path: Path) -> None:
    z, state = object_of("z", 0, "Z"), None
    for day, content in enumerate("ABA"):
        _, state = sent(tmp_path, [object_of("a", day, content), z], state)
    end = info("x", DAY).modified
    found = list(run(log_in(tmp_path), [object_of("a", 2, "A"), z], None, end=end))
    assert [[o.etag for o in task.read_objects] for task, _ in found] == [["A", "Z"]]
