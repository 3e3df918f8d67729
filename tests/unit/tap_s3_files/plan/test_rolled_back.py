"""The newest version of an object is removed, as in a versioned bucket, so that an older one is there again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from plan_runs import info, log_in, run

from singer_arrow.storage import log_head
from singer_arrow.storage.urls import ObjectInfo
from tap_s3_files.settings import Bookmark

DAY = 86_400
OTHER = info("z", 9 * DAY, etag="Z")


def object_of(day: int, content: str) -> ObjectInfo:
    return info("a", day * DAY, etag=content)


def sent(folder: Path, *objects: ObjectInfo, state: Bookmark | None = None) -> tuple[list[str | None], Bookmark | None]:
    """Return the contents that a run sends, and its STATE."""
    found = list(run(log_in(folder), objects, state))
    return [o.etag for task, _ in found for o in task.read_objects], found[-1][1] if found else state


@pytest.mark.parametrize("compacts", [False, True])
def test_a_warning_names_the_version_that_is_gone(
    tmp_path: Path, compacts: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log_head, "FANOUT", 2 if compacts else 16)
    _, state = sent(tmp_path, object_of(0, "A"))
    _, state = sent(tmp_path, object_of(1, "B"), state=state)
    _, state = sent(tmp_path, object_of(1, "B"), OTHER, state=state)
    assert "removed" not in caplog.text
    caplog.clear()
    contents, state = sent(tmp_path, object_of(0, "A"), OTHER, state=state)
    (record,) = caplog.records
    text = record.getMessage()
    assert contents == []
    assert "s3://b/in/a: its version of 2024-01-02 00:00:00+00:00 was removed since it was read" in text
    assert "one of 2024-01-01 00:00:00+00:00 is there instead" in text


def test_an_older_version_that_no_run_has_seen_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _, state = sent(tmp_path, object_of(5, "B"), OTHER)
    contents, state = sent(tmp_path, object_of(3, "A"), OTHER, state=state)
    assert contents == ["A"]
    assert "was removed since it was read" in caplog.text
    assert sent(tmp_path, object_of(3, "A"), OTHER, state=state)[0] == []


def test_a_version_that_is_uploaded_again_later_is_read_again(tmp_path: Path) -> None:
    _, state = sent(tmp_path, object_of(0, "A"))
    _, state = sent(tmp_path, object_of(1, "B"), state=state)
    _, state = sent(tmp_path, object_of(0, "A"), state=state)
    assert sent(tmp_path, object_of(2, "A"), state=state)[0] == ["A"]


def test_one_of_a_fraction_of_a_second_before_is_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    at = object_of(0, "A")
    _, state = sent(tmp_path, at._replace(modified=at.modified + timedelta(milliseconds=700)))
    sent(tmp_path, at, state=state)
    assert not caplog.records
