"""Rows that cannot be read or converted are skipped and reported with positions; others are unchanged."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_target import Plain, column_of

from singer_arrow.batch.files import read_file
from singer_arrow.enforcement.bad_rows import line_to_json, row_to_json
from singer_arrow.errors import DataError
from singer_arrow.load.convert import UploadColumn
from singer_arrow.load.dead_letters import Rejects, TooManyRejectedError
from singer_arrow.records.parse import record_text, shown_record
from singer_arrow.storage.store import Storage

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
COLUMNS = (column_of("id", "id", pa.int64()), column_of("name", "name", pa.string()))
FATES = st.lists(st.sampled_from(["good"] * 5 + ["unread", "unfit", "null"]), max_size=60)


class Refusing(Plain):
    """Refuses negative ids."""

    __slots__ = ()

    def check(self, array: pa.Array, column: UploadColumn, url: str) -> None:
        if column.name == "id" and any((n or 0) < 0 for n in array.to_pylist()):
            msg = "it is negative"
            raise DataError(msg, url=url, column="id")


def content(fates: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each result."""
    ids = {"good": str, "unread": lambda n: f"no number {n}", "unfit": lambda n: str(-n), "null": lambda _: None}
    return [{"id": ids[fate](n), "name": f"name {n}"} for n, fate in enumerate(fates, 1)]


def parquet(fates: Sequence[str], folder: Path, group: int) -> Path:
    """Write a file in which ids are text."""
    path = folder / "f.parquet"
    table = pa.Table.from_pylist(content(fates), pa.schema([("id", pa.string()), ("name", pa.string())]))
    pq.write_table(table, path, row_group_size=group)
    return path


def jsonl(fates: Sequence[str], folder: Path) -> Path:
    """Write a file with bad lines of several kinds."""
    lines = list[str]()
    for number, (fate, row) in enumerate(zip(fates, content(fates), strict=True)):
        row["id"] = row["id"] if fate in ("unread", "null") else int(row["id"])
        is_text = fate == "unread" and number % 2
        lines.append("{ no JSON" if is_text else json.dumps(row))
    path = folder / "f.jsonl.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    return path


def read(path: Path, file_format: str, rejects: Rejects | None, **options: Any) -> list[dict[str, Any]]:
    url = path.as_uri()
    on_skip = None if rejects is None else rejects.skip_callback(url)
    batches = read_file(Storage(), url, format=file_format, schema=SCHEMA, on_skip=on_skip)
    made = Refusing(COLUMNS, SCHEMA, keys=("id",), **options)
    return [row for batch in made.all_batches([(url, batches)], rejects=rejects) for row in batch.to_pylist()]


@pytest.mark.parametrize("file_format", ["parquet", "jsonl"])
@given(FATES, st.sampled_from([1, 3, 7, 1000]))
def test_good_rows_are_exact_and_bad_ones_have_their_positions(file_format: str, fates: list[str], group: int) -> None:
    rejects = Rejects(1000)
    with tempfile.TemporaryDirectory() as folder:
        path = parquet(fates, Path(folder), group) if file_format == "parquet" else jsonl(fates, Path(folder))
        got = read(path, file_format, rejects)
    expected = [{"id": n, "name": f"name {n}"} for n, fate in enumerate(fates, 1) if fate == "good"]
    assert got == expected
    assert {(r.position, r.file) for r in rejects.rows} == {
        (n, path.as_uri()) for n, fate in enumerate(fates, 1) if fate != "good"
    }
    reasons = {"unfit": "it is negative", "null": "a key property is null"}
    for rejected in rejects.rows:
        fate, record = fates[rejected.position - 1], json.loads(rejected.record)
        assert rejected.reason == reasons.get(fate, rejected.reason)
        assert "_raw" in record or record["name"] == f"name {rejected.position}"
        assert rejected.column == "id" or record == {"_raw": "{ no JSON"}
    for some in (range(0, len(expected), 2), range(len(expected) // 2)):  # positions of the remaining rows
        rejects.rows.clear()
        rejects.refuse([(row, None, "refused", "{}") for row in some])
        assert [r.position for r in rejects.rows] == [expected[row]["id"] for row in some]
        expected = [kept for row, kept in enumerate(expected) if row not in some]


def test_the_first_bad_row_is_named_where_none_is_left_out(tmp_path: Path) -> None:
    for fates, words in [
        (["good"] * 4 + ["unfit", "good", "unfit"], "row 5, column 'id': it is negative"),
        (["good"] * 2 + ["null"], "row 3, column 'id': a key property is null"),
    ]:
        with pytest.raises(DataError, match=words):
            read(parquet(fates, tmp_path, 2), "parquet", None)


def test_a_file_of_bad_rows_alone_is_an_error(tmp_path: Path) -> None:
    for file_format, path in (
        ("parquet", parquet(["unread"] * 12, tmp_path, 5)),
        ("jsonl", jsonl(["unread"] * 12, tmp_path)),
        ("parquet", parquet(["unfit"] * 12, tmp_path, 5)),
    ):
        with pytest.raises(TooManyRejectedError, match=r"more rows are rejected than max_bad_rows allows \(10\)"):
            read(path, file_format, Rejects(10))


@pytest.mark.parametrize("name", ["f.parquet", "f.jsonl.gz"])
def test_a_broken_file_is_no_matter_of_rows(name: str, tmp_path: Path) -> None:
    whole = parquet(["good"] * 50, tmp_path, 10) if "parquet" in name else jsonl(["good"] * 50, tmp_path)
    path = tmp_path / f"broken-{name}"
    path.write_bytes(whole.read_bytes()[:-20])
    rejects = Rejects(1000)
    with pytest.raises(DataError):
        read(path, "parquet" if "parquet" in name else "jsonl", rejects)
    assert not rejects


def test_rows_as_text_contain_values_that_json_lacks() -> None:
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb"))
    moment = pa.array([253_402_300_800_000_000], pa.timestamp("us", "UTC"))
    columns = {
        "nan": pa.array([float("nan")]),
        "low": pa.array([float("-inf")]),
        "text": text,
        "late": moment,
        "none": pa.nulls(1),
        "list": pa.array([[1, None]]),
        "words": pa.array(["é"]).dictionary_encode(),
    }
    found = json.loads(row_to_json(pa.record_batch(columns), 0))
    assert "10000" in found.pop("late")
    assert found == {
        "nan": "NaN",
        "low": "-Infinity",
        "text": "a\\xffb",
        "none": None,
        "list": [1, None],
        "words": "é",
    }


def test_records_as_text_contain_values_that_json_lacks() -> None:
    line = b'{"type":"RECORD","stream":"s","record":{"a": 1.50, "n": [NaN, {"x": -Infinity}], "i": Infinity}}'
    assert json.loads(record_text(line)) == {"a": 1.5, "n": ["NaN", {"x": "-Infinity"}], "i": "Infinity"}
    assert record_text(b'{"record":{"a": 1.50}}') == '{"a": 1.50}'
    assert json.loads(shown_record({"a": float("inf"), "b": None})) == {"a": "Infinity", "b": None}


def test_lines_as_text() -> None:
    assert line_to_json(b' {"a": 1}\r') == '{"a": 1}'
    assert json.loads(line_to_json(b"{a\xff")) == {"_raw": "{a\\xff"}
    assert json.loads(line_to_json(b'{"a": NaN}')) == {"_raw": '{"a": NaN}'}
