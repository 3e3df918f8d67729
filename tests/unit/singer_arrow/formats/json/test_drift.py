"""JSON that does not match its schema: new keys, new members of objects, other types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats import FORMATS, json_lines
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import is_json, json_field, merge_schemas

JSONL = FORMATS["jsonl"]
A = pa.schema([("a", pa.int64())])
S = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])


def _lines(rows: list[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _watching(schema: pa.Schema, drift: str = "raise", **more: Any) -> ReadOptions:
    return ReadOptions(on_drift=drift, known_columns=frozenset(schema.names), **more)


def _evolved(
    objects: Any, data: bytes, schema: pa.Schema, options: ReadOptions
) -> tuple[list[dict[str, Any]], list[DriftError]]:
    """Return the rows; the schema is widened at each drift, and the reading continues from there."""
    progress, rows, found = ReadProgress(), list[dict[str, Any]](), list[DriftError]()
    while True:
        reader = objects.reader(data, "a.jsonl")
        try:
            for batch in JSONL.read(reader, schema, options, progress):
                rows += batch.to_pylist()
        except DriftError as error:
            found.append(error)
            assert progress.resume_point is not None
            assert progress.resume_point.rows == len(rows)
            schema = pa.schema([f for f in schema if f.name not in {g.name for g in error.fields}])
            schema = merge_schemas(schema, pa.schema(error.fields))
        else:
            return rows, found


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_schema_that_evolves_reads_every_value(objects: Any, form: str) -> None:
    rows = [
        {"a": 1},
        {"a": 2, "b": None},
        {"a": 3, "b": "x"},
        {"a": 4, "s": {"x": 1}, "c": [1.5]},
        {"a": 5, "s": {"x": 2, "y": {"z": True}}},
        {"a": 6, "s": {"y": {"z": False, "w": "t"}}, "c": [2.5]},
    ] + [{"a": 7}] * 50
    data = _lines(rows) if form == "lines" else json.dumps(rows).encode()
    for block in (1, 40, 4 << 20):
        found, drifts = _evolved(objects, data, A, _watching(A, block_bytes=block))
        assert [_without_nulls(row) for row in found] == [_without_nulls(row) for row in rows]
        first = drifts[0]
        assert (first.column, first.line) == ("b", 3 if form == "lines" else 1)
        assert "the file has a new column: 'b' (string)" in str(first)
        if block == 4 << 20:  # all changes of a block at once
            struct = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.bool_()), ("w", pa.string())]))])
            assert [(f.name, f.type) for f in first.fields] == [
                ("b", pa.string()), ("s", struct), ("c", pa.list_(pa.float64())),
            ]  # fmt: skip
            assert len(drifts) == 1
            assert "so it is with 2 more" in str(first)
        if block == 1:
            assert [[f.name for f in d.fields] for d in drifts] == [["b"], ["s", "c"], ["s"], ["s"]]


def test_what_is_known_is_no_news(objects: Any) -> None:
    data = _lines([{"a": 1, "left": [1], "out": {"deep": n}, "mixed": n if n % 2 else "t"} for n in range(200)])
    known = frozenset({"a", "left", "out", "mixed"})
    for options in (ReadOptions(on_drift="raise", known_columns=known, block_bytes=500), ReadOptions(on_drift="raise")):
        batches = list(JSONL.read(objects.reader(data, "a.jsonl"), A, options))
        assert sum(b.num_rows for b in batches) == 200
    with pytest.raises(DriftError, match="new column: 'mixed'") as caught:
        list(JSONL.read(objects.reader(data), A, ReadOptions(on_drift="raise", known_columns=known - {"mixed"})))
    assert is_json(caught.value.fields[0])
    ignoring = ReadOptions(on_drift="ignore", known_columns=frozenset("a"))
    assert sum(b.num_rows for b in JSONL.read(objects.reader(data), A, ignoring)) == 200


@pytest.mark.parametrize("other", [None, json_field("j"), pa.field("m", pa.map_(pa.string(), pa.int64()))])
@pytest.mark.parametrize("at", [0, 77, 499])
def test_one_new_key_in_many_lines_is_noticed(objects: Any, at: int, other: pa.Field | None) -> None:
    """Also for columns that Arrow's reader cannot parse, and when known columns are not read."""
    schema = A if other is None else A.append(other)
    known = frozenset([*schema.names, "left out"])
    for known_here in (known, frozenset(schema.names)):
        rows: list[dict[str, Any]] = [{"a": n, **({"m": {"k": n}, "j": [n, "x"]} if other else {})} for n in range(500)]
        for row in rows:
            if other is not None:
                del row["j" if other.name == "m" else "m"]
            if "left out" in known_here:
                row["left out"] = row["a"] if row["a"] % 2 else "x"
        options = ReadOptions(on_drift="raise", known_columns=known_here)
        assert sum(b.num_rows for b in JSONL.read(objects.reader(_lines(rows)), schema, options)) == 500
        rows[at]["n\u00e9w"] = 1
        with pytest.raises(DriftError) as caught:
            list(JSONL.read(objects.reader(_lines(rows)), schema, options))
        assert (caught.value.line, caught.value.fields) == (at + 1, (pa.field("n\u00e9w", pa.int64()),))


def test_unknown_members_are_rescued_in_their_place(objects: Any) -> None:
    schema = S.append(pa.field("l", pa.list_(pa.struct([("x", pa.int64())])))).append(pa.field(RESCUED, pa.string()))
    rows = [
        {"a": 1, "n": None},
        {"a": 2, "n": 5, "s": {"x": 1, "y": {"z": 1}}},
        {"a": "x", "l": [{"x": 1}, {"x": 2, "w": "t"}]},
        {"a": 3, RESCUED: "of its own"},
    ]
    progress = ReadProgress()
    data = b"\n".join([*_lines(rows).splitlines(), b'{"a":4,"exact":1.10,"a\\u0062":1e400}'])
    batches = list(JSONL.read(objects.reader(data), schema, _watching(schema, "rescue"), progress))
    found = pa.Table.from_batches(batches)
    assert found["a"].to_pylist() == [1, 2, None, 3, 4]
    assert found["l"].to_pylist()[2] == [{"x": 1}, {"x": 2}]
    assert found[RESCUED].to_pylist() == [
        None,
        '{"n":5,"s":{"y":{"z":1}}}',
        '{"l":[null,{"w":"t"}],"a":"x"}',
        '{"_sdc_rescued":"of its own"}',
        '{"exact":1.10,"ab":1e400}',
    ]
    assert (progress.rescued, progress.skipped) == (4, 0)


def test_another_type_is_drift_where_the_beginning_of_the_file_shows_it(objects: Any) -> None:
    rows = [{"a": 1}] * 500 + [{"a": 2.5}] * 3
    with pytest.raises(DriftError) as caught:
        objects.read(_lines(rows), "a.jsonl", A, on_drift="raise")
    assert (caught.value.line, caught.value.fields) == (501, (pa.field("a", pa.float64()),))
    assert "line 501, column 'a': the file has it as double, the schema as int64" in str(caught.value)
    found, _ = _evolved(objects, _lines(rows), A, ReadOptions(on_drift="raise", block_bytes=100))
    assert found == rows
    mixed, _ = _evolved(objects, b'{"a":1}\n{"a":"x"}\n', A, ReadOptions(on_drift="raise"))
    assert mixed == [{"a": "1"}, {"a": '"x"'}]


def test_a_value_that_comes_late_is_a_bad_row(objects: Any) -> None:
    data = b'{"a":1}\n' * 140_000 + b'{"a":"x"}\n{"a":2}\n'
    with pytest.raises(DataError, match="line 140001, column 'a'") as caught:
        objects.read(data, "a.jsonl", A, on_drift="raise")
    assert not isinstance(caught.value, DriftError)
    assert objects.read(data, "a.jsonl", A, on_drift="raise", on_bad_row="skip").num_rows == 140_001


def test_a_bad_row_at_the_beginning_hides_no_types(objects: Any) -> None:
    with pytest.raises(DriftError) as caught:
        objects.read(b'{"a":\n{"a":1.5}\n', "a.jsonl", A, on_drift="raise", on_bad_row="skip")
    assert caught.value.fields == (pa.field("a", pa.float64()),)


def test_a_column_of_which_no_value_was_seen_takes_the_type_of_those_that_come(objects: Any) -> None:
    data = b'{"a":null}\n' * 200_000 + b'{"a":"2024-01-01"}\n'
    rows, drifts = _evolved(objects, data, pa.schema([("a", pa.null())]), ReadOptions(on_drift="raise"))
    assert drifts[0].fields == (pa.field("a", pa.date32()),)
    assert str(rows[-1]["a"]) == "2024-01-01"
    assert len(rows) == 200_001


def test_news_of_a_line_that_is_no_record_are_none(objects: Any) -> None:
    data = b'{"a":1,"a":2,"new":1}\n{"new":"\xff"}\n{"a":1,"s":{"x":"q","y":1}}\n'
    options = ReadOptions(on_bad_row="skip", on_drift="raise", known_columns=frozenset(S.names))
    with pytest.raises(DriftError) as caught:  # only the struct of the last line
        objects.read(
            data, "a.jsonl", S, **{f: getattr(options, f) for f in ("on_bad_row", "on_drift", "known_columns")}
        )
    assert [f.name for f in caught.value.fields] == ["s"]


def test_skips_before_a_drift_are_counted_once(objects: Any) -> None:
    data = b"{\n" + b'{"a":1}\n' + b"{\n" * 3 + b'{"a":1,"new":1}\n'
    progress = ReadProgress()
    options = _watching(A, block_bytes=2, on_bad_row="skip")
    with pytest.raises(DriftError):
        list(JSONL.read(objects.reader(data), A, options, progress))
    assert progress.skipped == 4
    wider = A.append(pa.field("new", pa.int64()))
    rest = list(JSONL.read(objects.reader(data), wider, options, progress))
    assert [b.to_pylist() for b in rest] == [[{"a": 1, "new": 1}]]
    assert progress.skipped == 4


def test_bad_lines_cost_what_they_are(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few lines are read one by one if few are bad, whatever their error."""
    read: list[int] = []
    exact = json_lines.LineParser.read_one_by_one
    monkeypatch.setattr(
        json_lines.LineParser,
        "read_one_by_one",
        lambda self, numbers, lines: read.append(len(lines)) or exact(self, numbers, lines),
    )
    for bad in (b'{"a":"x"}', b"{", b'{"a":1.5,"t":5}'):
        read.clear()
        clean = [b'{"a":%d,"t":"text"}' % n for n in range(100)]
        data = b"\n".join((clean * 10 + [bad]) * 40)
        schema = pa.schema([("a", pa.int64()), ("t", pa.string())])
        found = objects.read(data, "a.jsonl", schema, on_bad_row="skip")
        assert found.num_rows == 40_000
        assert sum(read) < 1000


def test_new_keys_that_are_null_cost_nothing(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines.LineParser, "read_one_by_one", None)
    data = b'{"a":1,"b":null}\n{"a":2}\n' * 1000
    assert objects.read(data, "a.jsonl", A, on_drift="raise", known_columns=frozenset("a")).num_rows == 2000
