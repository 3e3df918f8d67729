"""Plans of an earlier version of the tap are followed, and their batches keep their ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from convert_folder import Folder
from plan_runs import folder_of, info, log_in, names, run, segment

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError
from singer_arrow.read_options import ReadOptions
from singer_arrow.storage import log_compaction
from singer_arrow.storage.object_info import ObjectInfo
from singer_arrow.storage.urls import Url
from tap_s3_files.bookmark import Bookmark, Watermark
from tap_s3_files.plan.legacy import version_hash
from tap_s3_files.plan.log import PlanLog, task_name
from tap_s3_files.plan.model import Position, position, version_of
from tap_s3_files.stream_job import StreamJob
from tap_s3_files.write_batches import convert_task

SCHEMA = {"type": "object", "properties": {"id": {"type": ["integer", "null"]}, "name": {"type": ["string", "null"]}}}
COLUMNS = [["id", "int64", False], ["name", "string", False]]
JOB = StreamJob("orders", pa.schema([("id", pa.int64()), ("name", pa.string())]), False, "auto", ReadOptions())


def old_id(objects: list[ObjectInfo], columns: Any, *name: int) -> str:
    """Return the id of a batch as the earlier version computed it."""

    def text(*parts: Any) -> str:
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    versions = [[str(o.url), o.etag or [o.size, o.modified.isoformat()]] for o in objects]
    return text(text("orders", versions, columns), *name)


def write(folder: Path, name: str, value: Any) -> None:
    folder_of(folder).mkdir(parents=True, exist_ok=True)
    (folder_of(folder) / name).write_text(json.dumps(value))


def old_segment(number: int, *tasks: list[ObjectInfo], before: Watermark | None = None, **more: Any) -> dict[str, Any]:
    last = max(position(o) for t in tasks for o in t)
    return {
        "version": 1,
        "stream": "orders",
        "number": number,
        "fingerprint": "0123456789abcdef",
        "target_bytes": 1000,
        "form": {"schema": SCHEMA, "shape": "x", "on_bad_row": "fail", "on_drift": "evolve", "passthrough": ""},
        "before": before.to_json() if before else None,
        "after": last.to_json(),
        "tasks": [
            {
                "objects": [
                    {"url": str(o.url), "etag": o.etag, "size": o.size, "modified": o.modified.isoformat()} for o in t
                ]
            }
            for t in tasks
        ],
        **more,
    }


def test_segments_are_followed_with_the_columns_of_their_ids(tmp_path: Path) -> None:
    a, b, c = info("a", 1), info("b", 2), info("c", 3)
    write(tmp_path, "000000.json", old_segment(0, [a, b], [c]))
    wider = {"type": "object", "properties": {**SCHEMA["properties"], "x": {"type": ["number", "null"]}}}  # type: ignore[dict-item]
    form = {"schema": wider, "shape": "x", "on_bad_row": "fail", "on_drift": "evolve", "passthrough": ""}
    write(tmp_path, "000000-form-1.json", {"task": 1, "rows": 0, "form": form})
    write(tmp_path, "000000-form-2.json", {"task": 1, "rows": 70, "form": {**form, "schema": SCHEMA}})
    first, second = [task for task, _ in run(log_in(tmp_path), [a, b, c], None)]
    more = [*COLUMNS, ["x", "double", False]]
    assert (first.objects, first.columns) == ((a, b), ((0, COLUMNS),))
    assert (second.objects, second.columns) == ((c,), ((0, more), (70, COLUMNS)))
    assert old_id([a, b], COLUMNS) == hashed(task_name("orders", first, COLUMNS))


def hashed(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def test_what_came_from_a_queue_is_known_as_such(tmp_path: Path) -> None:
    write(tmp_path, "000003.json", old_segment(3, [info("a")], fingerprint="queue"))
    assert log_in(tmp_path).read(3).from_queue


def test_segments_are_compacted_with_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_compaction, "FANOUT", 3)
    write(tmp_path, "000000.json", old_segment(0, [info("a", 1)]))
    log = log_in(tmp_path)
    old = log.read(0)
    log.append(segment(1, info("b", 2), before=old.after))
    log.append(segment(2, info("c", 3)))
    assert [p.suffix for p in folder_of(tmp_path).iterdir()] == [".parquet"]
    assert next(log_in(tmp_path).segments(0, 3)) == old
    assert old.tasks[0].columns == ((0, COLUMNS),)


def test_what_remains_of_removed_segments_is_known(tmp_path: Path) -> None:
    """Segments 0 to 4 are removed; 5 exists, and the STATE has passed it."""
    since, late, known = info("since", 100), info("late", 450), info("known", 400)
    announced, last = info("announced", 50), info("last", 500)
    history = {
        "version": 1,
        "since": position(since).to_json(),
        "until": position(known).to_json(),
        "planned": [[*version_of(known), known.modified.isoformat()]],
        "ends": [],
        "number": 5,
        "announced": [version_hash(version_of(announced))],
    }
    write(tmp_path, "history.json", history)
    write(tmp_path, "000005.json", old_segment(5, [last], before=position(known)))
    objects = [announced, info("before", 99), since, known, late, last]
    state = Bookmark(position(last), 6)
    found = list(run(log_in(tmp_path), objects, state))
    assert [names(t.objects) for t, _ in found] == [["late"]]
    assert found[-1][1].segment == 7
    assert list(run(log_in(tmp_path), objects, found[-1][1])) == []


def test_no_number_of_a_removed_segment_is_given_again(tmp_path: Path) -> None:
    history = {"version": 1, "since": None, "until": None, "planned": [], "ends": [], "number": 5}
    write(tmp_path, "history.json", history)
    assert log_in(tmp_path).next_number == 5
    ((_, after),) = run(log_in(tmp_path), [info("a")], None)
    assert after.segment == 6
    assert log_in(tmp_path).first_number == 5


@pytest.mark.parametrize("name", ["history.json", "000000.json", "000000-form-1.json"])
@pytest.mark.parametrize("value", [[], {"version": 1}, 5])
def test_what_is_damaged_is_named(tmp_path: Path, name: str, value: Any) -> None:
    write(tmp_path, "000000.json", old_segment(0, [info("a")]))
    write(tmp_path, name, value)
    with pytest.raises(DataError, match=r"\.json") as caught:
        log_in(tmp_path).read(0)
    assert "\n" not in str(caught.value)


class Large:
    """A Parquet file that an earlier version has sent in part."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, Folder(path)
        rows = pa.table({"id": range(4000), "name": [f"{n * 7919:0100}" for n in range(4000)]})
        pq.write_table(rows, path / "a.parquet", row_group_size=500)
        self.info = self.folder.storage.head(Url.parse(str(path / "a.parquet")))
        write(path, "000000.json", old_segment(0, [self.info]))

    def parts(self, *rows: int) -> Iterator[dict[str, Any]]:
        """Return what is stored about removed files."""
        first = 0
        for number, count in enumerate(rows, 1):
            place = {"rows": first + count, "at": number * 2, "lines": 0}
            after = {"object": 0, "rows": first + count, "place": place}
            yield {"url": "file:///gone", "first_row": first, "rows": count, "bytes": 1, "after": after}
            first += count

    def send(self, start: Position | None = None) -> list[Batch]:
        log = PlanLog(self.folder.storage, Url.parse(str(self.path)), "orders")
        found = log.read(0)
        cuts = log.cuts(found, 0, task_name("orders", found.tasks[0]))
        task, size = found.tasks[0], found.target_bytes
        steps = convert_task(JOB, task, self.folder.worker, self.folder.batch, size * 20, start=start, cuts=cuts)
        return [s.batch for s in steps if s.batch]


def test_a_small_object_that_was_cut_is_cut_there_again(tmp_path: Path) -> None:
    """Also a small object: with many rows it was cut into several files too."""
    large = Large(tmp_path)
    write(tmp_path, "000000-parts-0.json", {"version": 1, "parts": list(large.parts(1000, 1000))})
    first, second, *rest = large.send()
    assert first.batch_id == old_id([large.info], COLUMNS, 0, 1000)
    assert second.batch_id == old_id([large.info], COLUMNS, 1000, 1000)
    assert (first.row_count, second.row_count) == (1000, 1000)
    assert sum(b.row_count or 0 for b in rest) == 2000
    again = large.send()
    assert [b.batch_id for b in again] == [b.batch_id for b in (first, second, *rest)]
    assert [b.batch_id for b in large.send(Position(0, 2000, None))] == [b.batch_id for b in rest]


def test_an_object_that_was_sent_whole_has_its_id(tmp_path: Path) -> None:
    large = Large(tmp_path)
    steps = large.folder.convert(large.info, job=JOB)
    log = log_in(tmp_path)
    task = log.read(0).tasks[0]
    (batch,) = [
        s.batch
        for s in convert_task(JOB, task, large.folder.worker, large.folder.batch, 1 << 30)
        if s.batch is not None
    ]
    assert batch.batch_id == old_id([large.info], COLUMNS, 0, -1)
    assert batch.batch_id != steps[0].batch_id
