"""A segment keeps the schema it was planned with; what changes it is noted, and holds on every later run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tap_s3_files.forms import Forms, evolved, left_out
from tap_s3_files.store import Change, SegmentStore

from singer_arrow.errors import DataError, DriftError
from singer_arrow.object_info import ObjectInfo
from singer_arrow.storage import Storage
from singer_arrow.urls import Url
from tap_s3_files.plan import Form, Position, Segment, Task, Todo

TASKS = tuple(Task((ObjectInfo(Url("s3", "b", f"{n}"), 1, "e", datetime(2024, 1, 1, tzinfo=UTC)),)) for n in range(4))


def schema(**columns: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": [kind, "null"]} for name, kind in columns.items()}}


OLD, NEW = Form(schema(id="integer")), Form(schema(id="integer", a="integer"))


def planned(forms: Forms, number: int = 0) -> Segment:
    return forms.dress(Segment(number, "rows", "f", 100, None, TASKS))


def todo(segment: Segment, task: int, rows: int) -> Todo:
    return Todo(segment, task, TASKS[task], Position(0, rows, None))


def drift(**fields: pa.DataType) -> DriftError:
    return DriftError("news", [pa.field(n, t) for n, t in fields.items()], url="s3://b/1", column=next(iter(fields)))


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(Storage(), Url.parse(str(tmp_path)), "rows")


def test_a_segment_keeps_the_schema_that_it_was_planned_with(store: SegmentStore) -> None:
    segment = planned(Forms(OLD, store))
    store.write(segment)
    later = Forms(NEW, store)
    assert later.at(store.read(0), 0) == OLD
    assert later.at(planned(later, 1), 0) == NEW


def test_one_whose_columns_come_from_elsewhere_by_now_does_not(store: SegmentStore) -> None:
    segment = planned(Forms(replace(OLD, shape="metadata"), store))
    later = Forms(NEW, store)
    assert later.at(segment, 0) == NEW
    assert Forms(OLD, store).at(segment, 0) == NEW  # noted, so that it is so in every run


def test_one_that_was_planned_without_a_form_gets_one_for_good(store: SegmentStore) -> None:
    segment = Segment(0, "rows", "f", 100, None, TASKS)
    assert Forms(OLD, store).at(segment, 2, 7) == OLD
    assert Forms(NEW, store).at(segment, 0) == OLD


def test_a_change_holds_from_its_row_on_in_every_run(store: SegmentStore) -> None:
    first = Forms(OLD, store)
    segment = planned(first)
    first.answer(drift(a=pa.int64()), todo(segment, 1, 500))
    for forms in (first, Forms(Form(schema(other="string")), store)):
        assert [forms.at(segment, *at) for at in ((0, 0), (1, 0), (1, 499))] == [OLD] * 3
        assert [forms.at(segment, *at) for at in ((1, 500), (1, 501), (2, 0))] == [NEW] * 3
    assert first.now == NEW


def test_segments_planned_before_the_change_keep_their_form(store: SegmentStore) -> None:
    """Another run may have sent of them already."""
    forms = Forms(OLD, store)
    now, later = planned(forms), planned(forms, 1)
    forms.answer(drift(a=pa.int64()), todo(now, 1, 0))
    assert forms.at(later, 0) == OLD
    assert forms.at(planned(forms, 2), 0) == NEW


def test_of_two_runs_the_first_decides(store: SegmentStore) -> None:
    one, other = Forms(OLD, store), Forms(OLD, store)
    segment = planned(one)
    planned(other)
    assert other.at(segment, 1) == OLD
    one.answer(drift(a=pa.int64()), todo(segment, 1, 0))
    other.answer(drift(b=pa.int64()), todo(segment, 1, 0))
    assert other.at(segment, 1) == NEW == other.now


def test_what_the_run_knows_better_is_tried_first(store: SegmentStore) -> None:
    segment = planned(Forms(OLD, store))
    mended = Forms(Form(schema(id="string"), on_drift="fail"), store)
    error = DataError("'x' is no integer", url="s3://b/1", column="id")
    mended.answer(error, todo(segment, 2, 0))
    assert mended.at(segment, 2) == mended.now
    with pytest.raises(DataError, match="'x' is no integer"):
        mended.answer(error, todo(segment, 2, 0))


@pytest.mark.parametrize(
    ("form", "more"),
    [
        (replace(OLD, on_drift="fail"), {}),
        (OLD, {"own": ["id"]}),
        (OLD, {"types": {"id": pa.field("id", pa.int64())}}),
    ],
)
def test_what_must_not_change_is_an_error(store: SegmentStore, form: Form, more: dict[str, Any]) -> None:
    forms = Forms(form, store, **more)
    with pytest.raises(DriftError):
        forms.answer(drift(id=pa.string()), todo(planned(forms), 0, 0))
    assert store.read_changes(0) == []


def test_a_new_column_has_the_type_that_the_settings_say(store: SegmentStore) -> None:
    forms = Forms(OLD, store, types={"a": pa.field("a", pa.string())})
    forms.answer(drift(a=pa.int64()), todo(planned(forms), 0, 0))
    assert forms.now.schema == schema(id="integer", a="string")


def test_what_the_schema_holds_already_is_an_error(store: SegmentStore) -> None:
    forms = Forms(NEW, store)
    with pytest.raises(DriftError):
        forms.answer(drift(a=pa.int64()), todo(planned(forms), 0, 0))


def test_rules_of_the_settings_are_those_that_the_segment_was_planned_with(store: SegmentStore) -> None:
    segment = planned(Forms(OLD, store))
    lenient = Forms(replace(OLD, on_bad_row="skip"), store)
    assert lenient.at(segment, 0) == OLD
    lenient.answer(DataError("broken"), todo(segment, 1, 40))
    assert [lenient.at(segment, 1, rows).on_bad_row for rows in (39, 40)] == ["fail", "skip"]


def test_where_forms_begin_within_a_task_is_told(store: SegmentStore) -> None:
    forms = Forms(OLD, store)
    segment = planned(forms)
    forms.answer(drift(a=pa.int64()), todo(segment, 1, 500))
    forms.answer(drift(b=pa.int64()), todo(segment, 1, 900))
    assert [forms.ends(todo(segment, *at)) for at in ((0, 0), (1, 0), (1, 500), (1, 900))] == [
        [],
        [500, 900],
        [900],
        [],
    ]
    assert "b" not in forms.at(segment, 1, 500).schema["properties"]


def test_keys_stay_keys() -> None:
    wider = evolved(OLD.schema, [pa.field("id", pa.string()), pa.field("a", pa.int64())], ["id"])
    assert {n: p["type"] for n, p in wider["properties"].items()} == {"id": ["string"], "a": ["integer", "null"]}


def test_notes_are_removed_with_their_segment(store: SegmentStore, tmp_path: Path) -> None:
    for number in (0, 1):
        store.write(Segment(number, "rows", "f", 100, None, TASKS))
        store.write_change(number, 0, Change(0, 0, NEW))
    store.remove([0])
    assert sorted(p.name for p in tmp_path.rglob("*.json")) == ["000001-form-1.json", "000001.json"]
    assert store.numbers() == [1]


def test_a_damaged_note_is_told(store: SegmentStore, tmp_path: Path) -> None:
    store.write_change(0, 0, Change(0, 0, NEW))
    (path,) = tmp_path.rglob("*.json")
    path.write_text('{"task": 1}')
    with pytest.raises(DataError, match=r"000000-form-1\.json: this is no note of a plan"):
        store.read_changes(0)


def test_what_is_left_out_is_told_by_its_path() -> None:
    inner = {"type": "object", "properties": {"x": {}, "y": {}}}
    full = {"properties": {"a": {}, "b": {}, "o": inner, "l": {"items": inner}, "m": {"additionalProperties": inner}}}
    less = {"type": "object", "properties": {"x": {}}}
    some = {"properties": {"a": {}, "o": less, "l": {"items": less}, "m": {"additionalProperties": inner}}}
    assert set(left_out(full, some)) == {"b", "o.y", "l.y"}
