"""Nanoseconds in text: kept if the schema has them, else cut with a warning that names file and column."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.formats import FORMATS
from singer_arrow.read_options import FixedColumn, ReadOptions
from singer_arrow.records.parse import RecordParser

TEXTS = ["2024-05-01T12:00:00.123456789Z", "2024-05-01 12:00:00.123456788", "2024-05-01T12:00:00.5+02:00", "2024-05-01"]
TIMES = ["12:00:00.000000001", "12:00:00.000000002", "12:00:01", "12:00:02.5"]
FILES = {
    "csv": "a,t\n" + "".join(f"{a},{t}\n" for a, t in zip(TEXTS, TIMES, strict=True)),
    "jsonl": "".join(f'{{"a":"{a}","t":"{t}"}}\n' for a, t in zip(TEXTS, TIMES, strict=True)),
    "fixed_width": "".join(f"{a:30}{t}\n" for a, t in zip(TEXTS, TIMES, strict=True)),
}


def _schema(unit: str) -> pa.Schema:
    return pa.schema([("a", pa.timestamp(unit, "UTC")), ("t", pa.time64(unit))])


OPTIONS = ReadOptions(fixed_width=(FixedColumn("a", 1, 30), FixedColumn("t", 31, 18)))


@pytest.mark.parametrize("form", FILES)
def test_digits_are_kept_where_the_schema_has_them(objects: Any, caplog: Any, form: str) -> None:
    with caplog.at_level(logging.WARNING):
        read = list(FORMATS[form].read(objects.reader(FILES[form].encode()), _schema("ns"), OPTIONS))
    table = pa.Table.from_batches(read)
    assert [v.value % 1000 for v in table["a"]] == [789, 788, 0, 0]
    assert [v.value % 1000 for v in table["t"]] == [1, 2, 0, 0]
    assert caplog.messages == []


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("form", FILES)
def test_each_column_whose_digits_are_cut_has_one_warning(objects: Any, caplog: Any, form: str, *, bad: bool) -> None:
    more = {"csv": "x,y\n", "jsonl": '{"a":"x"}\n', "fixed_width": "x\n"}[form] if bad else ""
    data = (FILES[form] + more).encode()
    with caplog.at_level(logging.WARNING):
        options = ReadOptions(fixed_width=OPTIONS.fixed_width, on_bad_row="skip", block_bytes=100)
        list(FORMATS[form].read(objects.reader(data), _schema("us"), options))
    warnings = [m for m in caplog.messages if "digits beyond microseconds are cut off" in m]
    assert [("object, column 'a'" in m, "object, column 't'" in m) for m in sorted(warnings)] == [
        (True, False), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_small_files_that_are_parsed_together_are_no_exception(objects: Any, form: str) -> None:
    readers = [objects.reader(FILES[form].encode(), f"{n}.{form}") for n in range(3)]
    kind: Any = FORMATS[form]
    assert kind.join(readers, _schema("us"), ReadOptions()) is None
    assert kind.join(readers, _schema("ns"), ReadOptions()) is not None


@pytest.mark.parametrize("form", FILES)
def test_zeros_are_cut_silently(objects: Any, caplog: Any, form: str) -> None:
    data = FILES[form].replace("789", "000").replace("788", "000").replace("000000001", "000001000")
    data = data.replace("000000002", "000002000")
    with caplog.at_level(logging.WARNING):
        list(FORMATS[form].read(objects.reader(data.encode()), _schema("us"), OPTIONS))
    assert caplog.messages == []


def test_records_have_a_warning_with_their_stream(caplog: Any) -> None:
    parser = RecordParser(
        _schema("us"), around=(), rules=None, check=lambda _: None, checks_types=False, stream="orders"
    )
    lines = FILES["jsonl"].splitlines()
    data = "".join(f'{{"type":"RECORD","stream":"orders","record":{line}}}\n' for line in lines).encode()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert parser(data, len(lines)).rows.num_rows == len(lines)
    assert len([m for m in caplog.messages if m.startswith("stream 'orders', column")]) == 2
