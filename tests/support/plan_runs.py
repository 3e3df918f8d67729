"""Run the tap on listed names without content: the plan, the tasks that are sent, and STATE."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files.listing import Listing
from tap_s3_files.plan import StreamPlan
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Segment, Task, after_task, make_tasks, place_in_order
from tap_s3_files.run import TapRun
from tap_s3_files.settings import Bookmark, Watermark

START = datetime(2024, 1, 1, tzinfo=UTC)
OVERLAP = timedelta(minutes=10)
TARGET_BYTES = 1 << 20
PATH = "s3://b/in/*"


def info(name: str, seconds: float = 0, *, size: int = 10, etag: str | None = "e") -> ObjectInfo:
    """Return an object below s3://b/in, changed so many seconds after `START`."""
    return ObjectInfo(Url("s3", "b", f"in/{name}"), size, etag, START + timedelta(seconds=seconds))


def names(objects: Iterable[ObjectInfo]) -> list[str]:
    """Return the names that `info` was given."""
    return [o.url.name for o in objects]


def log_in(folder: Path, storage: Storage | None = None, **options: Any) -> PlanLog:
    """Return the plan log of the stream `orders`."""
    return PlanLog(storage or Storage(), Url.parse(str(folder)), "orders", **options)


def folder_of(folder: Path) -> Path:
    """Return the folder of that log."""
    return folder / "_plans" / "orders"


def segment(number: int, *objects: ObjectInfo, before: Watermark | None = None, **options: Any) -> Segment:
    """Return a segment of small objects."""
    after = max((place_in_order(o) for o in objects), default=None)
    return Segment(number, "orders", TARGET_BYTES, before, after, tuple(make_tasks(objects)), **options)


def run_of(objects: Iterable[ObjectInfo], state: Bookmark | None, began: datetime | None, **settings: Any) -> TapRun:
    """Return a run that lists these objects."""
    own = {"start": None, "end": None, "sqs": None, "overlap": OVERLAP, "keys_ascend": False, "shard": None}
    own |= {"manifest": None, **settings}
    window = (own["start"], own["end"])
    replication = SimpleNamespace(overlap=own["overlap"], keys_ascend=own["keys_ascend"], manifest=own["manifest"])
    shared: Any = SimpleNamespace(
        **own,
        window=lambda _: window,
        plan_root=None,
        batch=None,
        replication=replication,
        moments=("", ""),
    )
    shared.behind = lambda _: shared

    class Listed(TapRun):
        def listing(self, stream: Any, *, begin: Url | None = None) -> Listing:
            found = Listing(o for o in objects if begin is None or o.url > begin)
            found.began = began or datetime.now(UTC)
            return found

    return Listed(shared, lambda _: state.to_state() if state else {})


def plan_for(tap_run: TapRun, log: PlanLog | None, identity: str = "", path: str = "") -> StreamPlan:
    """Return the stream's plan in a run."""
    return tap_run.plan(stream(path) if path else stream(), log, TARGET_BYTES, rows_identity=identity)


def stream(path: str = PATH) -> Any:
    """Return the settings of the stream that planning reads."""
    paths = (Url.parse(path),)
    return SimpleNamespace(
        name="orders",
        replication_method=None,
        load_method=None,
        is_table=False,
        paths=paths,
        pattern="{p}",
        pattern_urls=(),
    )


def run(
    log: PlanLog | None,
    objects: Iterable[ObjectInfo],
    state: Bookmark | None,
    *,
    began: datetime | None = None,
    identity: str = "",
    **settings: Any,
) -> Iterator[tuple[Task, Bookmark]]:
    """Run the tap: yield each task when it is sent, with the STATE after it."""
    tap_run = run_of(objects, state, began, **settings)
    plan = plan_for(tap_run, log, identity)
    at = plan.bookmark
    for found in tap_run.listed_segments(stream(), plan):
        for pending in plan.pending_tasks(found):
            at = after_task(at, pending, durable=log is not None)
            if pending.task.objects:
                yield pending.task, at
