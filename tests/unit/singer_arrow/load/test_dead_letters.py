"""Records of rows that are not loaded, with their positions."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.load.dead_letters import (
    BatchRejects,
    HeldRejects,
    RecordOrigins,
    Rejected,
    Rejects,
    TooManyRejectedError,
    parts_of,
)
from singer_arrow.read_options import Skipped
from singer_arrow.records.queue import Block, first_runs

FILES = st.lists(st.lists(st.sampled_from(["good", "unread", "unfit", "refused"]), max_size=30), min_size=1, max_size=3)


def rejects_of(files: list[list[str]], origins: RecordOrigins | None = None) -> Rejects:
    """Return the dead letters of files whose rows have these results in reading and loading."""
    rejects = Rejects(1000, origins)
    for number, fates in enumerate(files):
        on_skip, given = rejects.skip_callback(f"f{number}"), 0
        for position, fate in enumerate(fates, 1):
            if fate == "unread":
                on_skip(Skipped(position, None, fate, "{}"))
        for fate in fates:
            if fate == "unfit":
                rejects.leave_out(f"f{number}", given, DataError(fate, column="c"), "{}")
            given += fate != "unread"
        rejects.count_kept(f"f{number}", sum(fate in ("good", "refused") for fate in fates))
    kept = [fate for fates in files for fate in fates if fate in ("good", "refused")]
    refused = [(row, "c", fate, "{}") for row, fate in enumerate(kept) if fate == "refused"]
    first, later = refused[::2], refused[1::2]
    rejects.refuse(first)
    gone = [row for row, *_ in first]
    rejects.refuse((row - sum(other < row for other in gone), *rest) for row, *rest in later)
    return rejects


@given(FILES)
def test_positions_are_those_in_the_file(files: list[list[str]]) -> None:
    expected = {
        (f"f{number}", position, fate)
        for number, fates in enumerate(files)
        for position, fate in enumerate(fates, 1)
        if fate != "good"
    }
    assert {(r.file, r.position, r.reason) for r in rejects_of(files).rows} == expected


@given(st.lists(st.sampled_from(["good", "unread", "unfit", "refused"]), max_size=30), st.data())
def test_records_have_the_line_numbers_of_their_messages(fates: list[str], data: st.DataObject) -> None:
    lines, origins, line = list[int](), RecordOrigins(), 0
    for _ in fates:
        line += data.draw(st.sampled_from([1, 1, 1, 2, 50]))
        lines.append(line)
        origins.add(line, 1)
    origins.refuse(Rejected(None, 9999, None, "before", "{}"))
    found = rejects_of([fates], origins).rows
    expected = {(None, line, fate) for line, fate in zip(lines, fates, strict=True) if fate != "good"}
    assert {(r.file, r.position, r.reason) for r in found} == expected | {(None, 9999, "before")}


def test_lines_that_follow_each_other_take_no_room() -> None:
    messages = RecordOrigins()
    for first, count in ((5, 3), (8, 2), (20, 1), (21, 4), (7, 1)):
        messages.add(first, count)
    assert [messages.line(n) for n in range(11)] == [5, 6, 7, 8, 9, 20, 21, 22, 23, 24, 7]
    many = RecordOrigins()
    for line in range(10_000):
        many.add(line, 1)
    assert len(pickle.dumps(many)) < 1000


@given(st.lists(st.integers(1, 5), max_size=6), st.data())
def test_runs_of_a_block_without_some_lines(runs: list[int], data: st.DataObject) -> None:
    block, at = Block(), 1
    for count in runs:
        at += data.draw(st.integers(0, 2))
        block.add(b"x\n" * count, at, count)
        at += count
    numbers = [n for first, count in block.runs for n in range(first, first + count)]
    lines = data.draw(st.integers(0, len(numbers)))
    out = sorted(data.draw(st.sets(st.integers(0, lines - 1)))) if lines else []
    found = list(block.runs_of(lines, out))
    expected = [n for index, n in enumerate(numbers[:lines]) if index not in out]
    assert [n for first, count in found for n in range(first, first + count)] == expected
    start = data.draw(st.integers(0, len(expected)))
    count = data.draw(st.integers(0, len(expected) - start))
    some = list(first_runs(found, start, count))
    assert [n for first, length in some for n in range(first, first + length)] == expected[start : start + count]


def test_one_row_more_than_may_be_is_an_error_that_names_the_first() -> None:
    rejects = Rejects(2)
    on_skip = rejects.skip_callback("s3://b/f")
    on_skip(Skipped(3, "c", "no number", "{}"))
    on_skip(Skipped(4, None, "no object", "{}"))
    with pytest.raises(
        TooManyRejectedError, match=r"more rows .* \(2\).*row 3 of s3://b/f, column 'c': no number"
    ) as e:
        on_skip(Skipped(5, None, "no object", "{}"))
    assert "max_bad_rows" in str(e.value)
    origins = RecordOrigins()
    for n in range(3):
        origins.refuse(Rejected(None, n, None, "r", "{}"))
    with pytest.raises(TooManyRejectedError):
        Rejects(2, origins)


def test_rows_are_held_back_until_they_are_taken() -> None:
    first, second = (BatchRejects(name, [Rejected("f", n, None, "why", "{}")]) for n, name in enumerate("ab"))
    held = HeldRejects()
    held.add([first], 1)
    with pytest.raises(TooManyRejectedError, match=r"more rows are rejected than .* \(1\).*row 0 of f"):
        held.add([second], 1)
    assert held.take() == [first, second]
    assert held.take() == []


def test_what_was_written_is_not_written_again_when_the_item_is_read_again() -> None:
    rejects = rejects_of([["unread", "good", "unfit"]])
    assert [r.position for r in rejects.pending()] == [1, 3]
    rejects.mark_written(rejects.pending())
    rejects.reset()
    assert not rejects
    on_skip = rejects.skip_callback("f0")
    on_skip(Skipped(1, None, "unread", "{}"))
    on_skip(Skipped(2, None, "new", "{}"))
    assert [r.position for r in rejects.pending()] == [2]


@given(st.text(), st.integers(4, 20))
def test_parts_of_a_long_record_make_it_up(text: str, most: int) -> None:
    record = json.dumps(text, ensure_ascii=False)
    rejected: dict[str, Any] = {"file": "f", "position": 1, "column": None, "reason": "r"}
    try:
        record.encode()
    except UnicodeEncodeError:
        return
    parts = list(parts_of(Rejected(**rejected, record=record), most))
    assert "".join(part.record for part in parts) == record
    assert all(0 < len(part.record.encode()) <= most for part in parts)


@pytest.mark.parametrize(
    ("file", "place"),
    [("s3://b/a.csv.gz", "line 19 of s3://b/a.csv.gz"), ("s3://b/a.parquet", "row 19 of s3://b/a.parquet")],
)
def test_the_position_of_a_row_is_what_a_user_finds_in_its_file(file: str, place: str) -> None:
    assert str(Rejected(file, 19, "v", "why", "{}")) == f"{place}, column 'v': why"
