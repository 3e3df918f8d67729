"""Places with dates ahead of theirs: objects may be there long before a run lists the place."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import plan_runs
import pytest
from plan_runs import info, log_in, plan_for, run_of, stream

from singer_arrow.storage.urls import ObjectInfo
from tap_s3_files.listing import Listing
from tap_s3_files.plan_model import after_task
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Bookmark

START = datetime(2024, 1, 1, tzinfo=UTC)


def place_of(o: ObjectInfo) -> datetime:
    return datetime.fromisoformat(o.url.key.split("/")[1]).replace(tzinfo=UTC)


def objects_on(day: int) -> list[ObjectInfo]:
    """Each place has a file that was written five days before its date, and one of its day."""
    places = [(n, f"{START + timedelta(days=n):%Y-%m-%d}") for n in range(12)]
    found = [info(f"{place}/{kind}", 86_400 * at) for n, place in places for kind, at in (("a", n - 5), ("b", n))]
    return [o for o in found if o.modified <= START + timedelta(days=day)]


class Day(TapRun):
    """A run on a day, which lists the places up to the next one."""

    objects: Sequence[ObjectInfo]

    def listing(self, given: Any, **_: Any) -> Listing:
        found = Listing(o for o in self.objects if place_of(o) < self.now + timedelta(days=1))
        found.began = self.now
        return found

    def ahead(self, given: Any, listed_before: datetime) -> Listing:
        return Listing(o for o in self.objects if listed_before <= place_of(o) < self.now + timedelta(days=1))


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_each_object_is_sent_once_whenever_it_was_written(
    tmp_path: Path, has_log: bool, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dated = stream("s3://b/in/{date:%Y-%m-%d}/*")
    monkeypatch.setattr(plan_runs, "stream", lambda: dated)
    state: Bookmark | None = None
    sent = list[str]()
    for day in range(0, 11, step):
        shared: Any = run_of([], state, None, start=START).settings
        shared.window = lambda _: (None, None)  # dates bound them
        given = state.to_state() if state else {}
        tap_run = Day(shared, lambda _, given=given: given)  # type: ignore[misc]
        tap_run.now, tap_run.objects = START + timedelta(days=day), objects_on(day)
        plan = plan_for(tap_run, log_in(tmp_path) if has_log else None)
        at = plan.bookmark
        for segment in tap_run.listed_segments(dated, plan):
            for pending in plan.pending_tasks(segment):
                at = after_task(at, pending, durable=has_log)
                sent += [f"{o.url}" for o in pending.task.objects]
        state = plan.end(at)
    wanted = [str(o.url) for o in objects_on(day) if place_of(o) < START + timedelta(days=day + 1)]
    assert sorted(sent) == sorted(wanted)
