"""Lines that end with CR alone are lines; a file whose lines are lists says so."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError
from singer_arrow.formats import DIVISIBLE, FORMATS
from singer_arrow.formats.base import divide, range_bounds
from singer_arrow.read_options import ReadOptions, ReadProgress

ROWS = [{"id": n, "name": f"näme {n}"} for n in range(200)]
BY_CR = "".join(json.dumps(row, ensure_ascii=False) + "\r" for row in ROWS).encode()


@pytest.mark.parametrize("block", [64, 500, 4 << 20])
@pytest.mark.parametrize("end", [b"", b"\r\r\r", b"\r\n"])
def test_lines_may_end_with_cr_alone(objects: Any, block: int, end: bytes) -> None:
    text = BY_CR.removesuffix(b"\r") + end
    assert objects.read(text, "mac.jsonl", block_bytes=block).to_pylist() == ROWS


def test_a_reading_resumes_between_lines_that_end_with_cr(objects: Any) -> None:
    schema, options = objects.infer(BY_CR, "mac.jsonl"), ReadOptions(block_bytes=500)
    progress, found = ReadProgress(), list[Any]()
    for batch in FORMATS["jsonl"].read(objects.reader(BY_CR, "mac.jsonl"), schema, options, progress):
        found += batch.to_pylist()
        rest = ReadProgress(resume_point=progress.resume_point)
        more = FORMATS["jsonl"].read(objects.reader(BY_CR, "mac.jsonl"), schema, options, rest)
        assert found + [row for later in more for row in later.to_pylist()] == ROWS


def test_a_file_with_such_lines_is_not_divided(objects: Any) -> None:
    kind, reader, options = DIVISIBLE["jsonl"], objects.reader(BY_CR, "mac.jsonl"), ReadOptions()
    scans = [kind.scan(reader, options, span) for span in divide(len(BY_CR), 3)]
    starts = kind.row_starts(reader, options, scans[:-1])
    assert [range_bounds(starts, number) is None for number in range(3)] == [False, True, True]


def test_cr_within_a_record_is_a_blank(objects: Any) -> None:
    assert objects.read(b'{"id":\r1}', "one.jsonl").to_pylist() == [{"id": 1}]
    assert objects.read(b'{"id":\r1}\n{"id": 2}\n', "two.jsonl").to_pylist() == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("text", [b"[1, 2]\n[3, 4]\n", b'[{"a": 1}]\r\n\n [{"a": 2}]', b"[]\n[1]\n"])
def test_lines_that_are_lists_are_named(objects: Any, text: bytes) -> None:
    for read in (objects.infer, objects.read):
        with pytest.raises(DataError, match="line 1: each line must hold an object, this one (holds|begins) an array"):
            read(text, "lists.jsonl", *(() if read == objects.infer else (pa.schema([("a", pa.int64())]),)))


@pytest.mark.parametrize("text", [b'[{"a": 1}]\n', b'[{"a": 1}]', b'[{"a": [\n1]}\n]', b'[\n{"a": 1},\n{"a": 2}]\n\n'])
def test_a_document_that_is_a_list_stays_one(objects: Any, text: bytes) -> None:
    assert objects.read(text, "list.jsonl").to_pylist() == json.loads(text)
