"""CSV and fixed width that differ from the schema: new columns, and columns of other types."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pyarrow as pa
import pytest

from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions, ReadProgress

A = pa.schema([("a", pa.int64())])
RESCUING = A.append(pa.field(RESCUED, pa.string()))
NEW = b"a,b,c,d\n" + b"1,,2.5,\n" * 2000 + b"2,q,3,\n"


def read(objects: Any, data: bytes, schema: pa.Schema = A, **how: Any) -> tuple[list[pa.RecordBatch], ReadProgress]:
    progress = ReadProgress()
    kind, name = ("fixed_width", "a.fwf") if "fixed_width" in how else ("csv", "a.csv")
    return list(FORMATS[kind].read(objects.reader(data, name), schema, ReadOptions(**how), progress)), progress


def refused(objects: Any, data: bytes, schema: pa.Schema = A, **how: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        read(objects, data, schema, on_drift="raise", **how)
    return caught.value


def test_new_columns_are_drift_before_any_row(objects: Any) -> None:
    error = refused(objects, NEW, known_columns=frozenset(), block_bytes=100)
    assert isinstance(error, DriftError)
    assert [(f.name, f.type) for f in error.fields] == [("b", pa.string()), ("c", pa.float64()), ("d", pa.string())]
    assert "the file has new columns: 'b' (string), 'c' (double)" in str(error)
    error = refused(objects, NEW, known_columns=frozenset("bd"))
    assert isinstance(error, DriftError)
    assert [f.name for f in error.fields] == ["c"]
    for how in (
        {"known_columns": frozenset("bcd")},
        {"known_columns": None},
        {"known_columns": frozenset(), "on_drift": "ignore"},
    ):
        batches, _ = read(objects, NEW, **{"on_drift": "raise", **how})
        assert sum(b.num_rows for b in batches) == 2001
    assert read(objects, b"a,b\n", on_drift="raise", known_columns=frozenset())[0] == []


def test_values_of_new_columns_are_rescued(objects: Any) -> None:
    how: Any = {"on_drift": "rescue", "block_bytes": 1000}
    batches, progress = read(objects, NEW, RESCUING, known_columns=frozenset(), **how)
    rows = pa.Table.from_batches(batches).to_pylist()
    assert json.loads(rows[0][RESCUED]) == {"c": "2.5"}
    assert json.loads(rows[-1][RESCUED]) == {"b": "q", "c": "3"}
    assert (progress.rescued, len(rows)) == (2001, 2001)
    batches, progress = read(objects, NEW, RESCUING, known_columns=frozenset("cd"), **how)
    assert (progress.rescued, sum(b.num_rows for b in batches)) == (1, 2001)
    both = b'a,b\n1,\nx,"q\n"\ny,\n\xff,1\n3,\xff\n4,z\n'
    batches, progress = read(objects, both, RESCUING, on_drift="rescue", on_bad_row="skip", known_columns=frozenset())
    found = [(r["a"], r[RESCUED] and json.loads(r[RESCUED])) for b in batches for r in b.to_pylist()]
    assert found == [(1, None), (None, {"a": "x", "b": "q\n"}), (None, {"a": "y"}), (4, {"b": "z"})]
    assert (progress.rescued, progress.skipped) == (3, 2)


@pytest.mark.parametrize("on_bad_row", ["fail", "skip", "rescue"])
def test_a_value_that_does_not_fit_is_drift_where_the_files_head_shows_it(objects: Any, on_bad_row: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("t", pa.date32()), ("s", pa.string()), (RESCUED, pa.string())])
    data = b"a,t,s\n1.0,2024-01-01,1\n" + b"2,2024-01-01,1\n" * 500 + b"2.5,2024-01-01 10:00:00,1\n"
    error = refused(objects, data, schema, on_bad_row=on_bad_row)
    assert isinstance(error, DriftError)
    assert error.fields == (pa.field("a", pa.float64()), pa.field("t", pa.timestamp("us", "UTC")))
    assert error.line == 503
    reason = "line 503, column 'a': '2.5' is not an integer, as the file has 'a' as double, the schema as int64; "
    assert reason in str(error)
    widened = pa.schema([*error.fields, *list(schema)[2:]])
    (batch,), _ = read(objects, data, widened, on_drift="raise", on_bad_row=on_bad_row)
    assert batch.num_rows == 502


@pytest.mark.full
def test_a_value_that_does_not_fit_is_a_bad_row_where_the_files_head_does_not_show_it(objects: Any) -> None:
    late = b"a\n" + b"1\n" * 600_000 + b"x\n2\n"
    error = refused(objects, late)
    assert not isinstance(error, DriftError)
    assert "line 600002, column 'a': 'x' is not an integer" in str(error)
    batches, progress = read(objects, late, on_drift="raise", on_bad_row="skip")
    assert (sum(b.num_rows for b in batches), progress.skipped) == (600_001, 1)
    wide = pa.schema([("a", pa.string())])
    assert sum(b.num_rows for b in read(objects, late, wide, on_drift="raise")[0]) == 600_002


def test_drift_comes_at_the_place_where_it_is_met(objects: Any) -> None:
    """Rows before it are delivered, and the reading resumes there with another schema."""
    data = b"a\n" + b"1\n" * 500 + b"1.5\n" * 500
    options = ReadOptions(on_drift="raise", block_bytes=100)
    progress, kind = ReadProgress(), FORMATS["csv"]
    batches = kind.read(objects.reader(data, "a.csv"), A, options, progress)
    with pytest.raises(DriftError) as caught:
        deque(batches, 0)
    assert progress.resume_point is not None
    rows = progress.resume_point.rows
    assert 400 < rows <= 500
    rest = kind.read(objects.reader(data, "a.csv"), pa.schema(caught.value.fields), options, progress)
    assert sum(b.num_rows for b in rest) == 1000 - rows
    assert progress.resume_point.rows == 1000


def test_fixed_width_drifts_too(objects: Any) -> None:
    how: Any = {"fixed_width": (FixedColumn("a", 1, 3), FixedColumn("b", 4, 3)), "known_columns": frozenset()}
    error = refused(objects, b"  1 5 \n", **how)
    assert isinstance(error, DriftError)
    assert error.fields == (pa.field("b", pa.int64()),)
    (batch,), progress = read(objects, b"  1 5 \n  x\n", RESCUING, on_drift="rescue", **how)
    assert batch.to_pylist() == [{"a": 1, RESCUED: '{"b":"5"}'}, {"a": None, RESCUED: '{"a":"x"}'}]
    assert progress.rescued == 2
    error = refused(objects, b"  1\n1.5\n", **{**how, "known_columns": frozenset("b")})
    assert isinstance(error, DriftError)
    assert error.fields == (pa.field("a", pa.float64()),)


def test_a_column_of_which_no_value_was_known_becomes_what_the_file_has(objects: Any) -> None:
    empty = pa.schema([("a", pa.null())])
    for data, t in ((b"a\n1\n", pa.int64()), (b"a\n" + b'""\n' * 400_000 + b"1\n", pa.string())):
        error = refused(objects, data, empty)
        assert isinstance(error, DriftError)
        assert error.fields == (pa.field("a", t),)
