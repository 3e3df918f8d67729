"""Valid JSON at the limits of parsers: one bad record is one bad row, at any position."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.casting.to_json import from_json_text, json_text
from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import json_field

HUGE = "1e99999999999999999999"
TINY = "1e-99999999999999999999"


def _nested(levels: int, kind: str = "[") -> str:
    return "[" * levels + "]" * levels if kind == "[" else '{"k":' * levels + "1" + "}" * levels


COLUMNS = pa.schema([("n", pa.float64()), ("t", pa.string())])
BAD_VALUES = {  # in column n; none of them makes the rest of its record unreadable
    "huge": HUGE,
    "huge negative": f"-{HUGE}",
    "huge with a fraction": "1.5E+99999999999999999999",
    "large": "1e999999999999999999",
    "many digits": "9" * 5000,
    "more digits": "9" * 500_000,
}
BAD_RECORDS = {  # unreadable records
    "surrogate key": r'{"\ud800":1,"n":1.5}',
    "surrogate key within": r'{"n":1.5,"o":{"\udfff":1}}',
    "deep list": f'{{"n":1.5,"o":{_nested(3000)}}}',
    "deep object": f'{{"n":1.5,"o":{_nested(3000, "{")}}}',
    "abyss": f'{{"n":1.5,"o":{_nested(300_000)}}}',
    "abyss of objects": f'{{"n":1.5,"o":{_nested(100_000, "{")}}}',
    "abyss without an end": '{"n":1.5,"o":' + "[" * 300_000,
    "NaN": '{"n":NaN}',
    "Infinity": '{"n":-Infinity}',
    "NaN elsewhere": '{"n":1.5,"o":[NaN,"\\"]"]}',
}
UNREADABLE = {
    **BAD_RECORDS,
    "not UTF-8 in a key": b'{"\xff":1,"n":1.5}',
    "the same key twice": '{"n":1.5,"n":1.5}',
}
WHERE = [0, 9_000]


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _file(record: str | bytes, before: int, after: int = 3, *, as_list: bool = False) -> bytes:
    good = b'{"n":1.25,"t":"x"}'
    records = [good] * before + [_bytes(record)] + [good] * after
    return b"[" + b",\n".join(records) + b"]" if as_list else b"\n".join(records) + b"\n"


def _read(objects: Any, data: bytes, schema: pa.Schema = COLUMNS, **options: Any) -> tuple[pa.Table, ReadProgress]:
    progress = ReadProgress()
    reader = objects.reader(data, "object.jsonl")
    batches = FORMATS["jsonl"].read(reader, schema, ReadOptions(**options), progress)
    return pa.Table.from_batches(batches, schema), progress


@pytest.mark.parametrize("as_list", [False, True], ids=["lines", "list"])
@pytest.mark.parametrize("before", WHERE)
@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_number_out_of_all_bounds_is_a_value_that_does_not_fit(
    objects: Any, name: str, before: int, *, as_list: bool
) -> None:
    data = _file(f'{{"n":{BAD_VALUES[name]},"t":"y"}}', before, as_list=as_list)
    with pytest.raises(DataError, match=rf"object.jsonl, line {before + 1}, column .n.: the number .* is too large"):
        _read(objects, data)
    table, progress = _read(objects, data, on_bad_row="skip")
    assert (table.num_rows, progress.skipped) == (before + 3, 1)
    table, progress = _read(objects, data, COLUMNS.append(pa.field(RESCUED, pa.string())), on_bad_row="rescue")
    assert (table.num_rows, progress.rescued) == (before + 4, 1)
    rescued = table.slice(before, 1).to_pylist()[0]
    assert (rescued["n"], rescued["t"]) == (None, "y")
    assert rescued[RESCUED] == f'{{"n":{BAD_VALUES[name]}}}'


@pytest.mark.parametrize(("as_list", "drift"), [(False, "ignore"), (True, "raise")], ids=["lines", "list"])
@pytest.mark.parametrize("before", WHERE)
@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.full
def test_a_record_that_cannot_be_read_is_a_bad_row(
    objects: Any, name: str, before: int, drift: str, *, as_list: bool
) -> None:
    if as_list and name == "abyss without an end":
        pytest.skip("such a list has no end either")
    schema = COLUMNS.append(json_field("o"))
    data = _file(UNREADABLE[name], before, as_list=as_list)
    with pytest.raises(DataError, match=rf"object.jsonl, line {before + 1}[:,]"):
        _read(objects, data, schema, on_drift=drift)
    table, progress = _read(objects, data, schema, on_bad_row="skip", on_drift=drift)
    assert (table.num_rows, progress.skipped) == (before + 3, 1)
    rescued = schema.append(pa.field(RESCUED, pa.string()))
    table, progress = _read(objects, data, rescued, on_bad_row="rescue", on_drift=drift)
    assert (table.num_rows, progress.rescued) == (before + 4, 1)
    assert json.loads(table[RESCUED][before].as_py())["_error"]


@pytest.mark.parametrize("as_list", [False, True], ids=["lines", "list"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_inference_names_the_line_or_leaves_the_record_out(objects: Any, name: str, *, as_list: bool) -> None:
    if name == "the same key twice" or (as_list and name == "abyss without an end"):
        pytest.skip("its types are clear, or it has no end")
    data = _file(UNREADABLE[name], 2, as_list=as_list)
    with pytest.raises(DataError, match="object.jsonl, line 3[:,]"):
        objects.infer(data, "object.jsonl")
    assert objects.infer(data, "object.jsonl", on_bad_row="skip") == COLUMNS


@pytest.mark.parametrize("name", BAD_VALUES)
def test_inference_takes_any_number(objects: Any, name: str) -> None:
    data = _file(f'{{"n":{BAD_VALUES[name]}}}', 2)
    assert objects.infer(data, "object.jsonl") == COLUMNS


def test_a_number_next_to_nothing_is_zero_as_a_float(objects: Any) -> None:
    table, _ = _read(objects, _file(f'{{"n":{TINY},"t":5}}', 0), on_bad_row="rescue")
    assert table["n"][0].as_py() == 0.0


@pytest.mark.parametrize("kind", "[{")
@pytest.mark.parametrize("levels", [40, 300, 600, 700])
def test_what_nests_deeply_is_json_text(objects: Any, levels: int, kind: str) -> None:
    text = _nested(levels, kind)
    data = _file(f'{{"n":1.5,"o":{text}}}', 0, 0)
    schema = objects.infer(data, "object.jsonl")
    assert schema.equals(pa.schema([COLUMNS.field("n"), json_field("o")]), check_metadata=True)
    for more in (b"", b'{"n":"no number"}\n'):  # also when records are read one by one
        table, progress = _read(objects, data + more, schema, on_bad_row="skip")
        assert (table["o"].to_pylist(), progress.skipped) == ([text], len(more) > 0)


def test_a_few_levels_are_objects(objects: Any) -> None:
    data = _file(f'{{"o":{_nested(20, "{")}}}', 0, 0)
    schema = objects.infer(data, "object.jsonl")
    assert pa.types.is_struct(schema.field("o").type)
    assert _read(objects, data, schema)[0]["o"].to_pylist() == [json.loads(_nested(20, "{"))]


def test_names_of_keys_may_be_empty_and_a_mark_may_come_first(objects: Any) -> None:
    table = objects.read(b'\xef\xbb\xbf{"":1,"a":2}\n', "object.jsonl")
    assert table.to_pylist() == [{"": 1, "a": 2}]


def test_an_element_that_is_no_json_is_a_bad_row(objects: Any) -> None:
    data = b'[{"n":1},\n{"n":tru},\n{"n":"a\nb"},{"n":2}]'
    with pytest.raises(DataError, match=r"object.jsonl, line 2: not JSON"):
        _read(objects, data)
    table, progress = _read(objects, data, on_bad_row="skip")
    assert (table["n"].to_pylist(), progress.skipped) == ([1.0, 2.0], 2)


@pytest.mark.parametrize("digits", [HUGE, TINY, "-1.50E+99999999999999999999", "1.50"])
def test_json_text_keeps_its_numbers_through_python(digits: str) -> None:
    assert json_text(from_json_text(f'{{"a":[{digits}]}}', "o")) == f'{{"a":[{digits}]}}'
