"""Destinations of text that is too long for its column."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from redshift_checks import checked

from singer_arrow.errors import DataError, SchemaError
from target_redshift.columns import (
    LONG_TEXTS_COLUMN,
    columns_of,
    json_bytes,
    long_texts_as_json,
    split_long_texts,
    upload_columns,
)
from target_redshift.conversion import Conversion, LongTextError, ValueReport
from target_redshift.types import new_columns, table_column

SCHEMA = pa.schema([("id", pa.string()), ("s", pa.string()), ("T", pa.string()), ("n", pa.int64())])


def test_long_and_short_texts_are_parted_by_bytes() -> None:
    short, long = split_long_texts(pa.array(["ééé", "éé", None, ""]), 5)
    assert short.to_pylist() == [None, "éé", None, ""]
    assert long.to_pylist() == ["ééé", None, None, None]


def test_objects_have_the_texts_of_a_row() -> None:
    texts = {"a": pa.array(["x", None, 'q"\\\né']), "b": pa.array([None, None, "y"])}
    out = long_texts_as_json(3, texts).to_pylist()
    assert [None if o is None else json.loads(o) for o in out] == [{"a": "x"}, None, {"a": 'q"\\\né', "b": "y"}]
    assert long_texts_as_json(2, {}).to_pylist() == [None, None]


def test_bytes_of_a_row_are_never_underestimated() -> None:
    row = {"s": "\u0001é" * 50, "y": b"\0" * 100, "n": -(2**63), "none": None}
    batch = pa.RecordBatch.from_pylist([row])
    line = json.dumps({**row, "y": "A" * 136, LONG_TEXTS_COLUMN: {"a": "x"}}, ensure_ascii=False)
    assert len(line.encode()) <= json_bytes(batch, 0, '{"a": "x"}') < len(line.encode()) + 400


def test_the_column_is_one_of_the_table() -> None:
    columns = columns_of(SCHEMA, rescued_texts={"s", "T", "n"})
    assert [(c.name, c.kind, c.is_rescued, c.holds_long_texts) for c in columns] == [
        ("id", "VARCHAR", False, False),
        ("s", "VARCHAR", True, False),
        ("t", "VARCHAR", True, False),
        ("n", "BIGINT", False, False),
        (LONG_TEXTS_COLUMN, "SUPER", False, True),
    ]
    have = [table_column("id", "character varying", 9), table_column("s", "character varying", 9, nullable=False)]
    fitted = columns_of(SCHEMA, have, rescued_texts={"s"})
    assert [c.name for c in fitted if c.is_rescued] == []  # a column that must not be null cannot be left out
    assert [c.name for c in new_columns(fitted, have)] == ["t", "n", LONG_TEXTS_COLUMN]
    assert [c.name for c in columns_of(SCHEMA)] == ["id", "s", "t", "n"]


def test_a_column_of_that_name_must_be_super() -> None:
    with pytest.raises(SchemaError, match=r"'_sdc_long_text' is of type VARCHAR\(9\) in the table, and SUPER"):
        columns_of(SCHEMA, [table_column(LONG_TEXTS_COLUMN, "character varying", 9)], rescued_texts=())
    assert columns_of(SCHEMA, [table_column(LONG_TEXTS_COLUMN, "super")], rescued_texts=())[-1].kind == "SUPER"


@pytest.mark.parametrize("name", [LONG_TEXTS_COLUMN, "_SDC_Long_Text"])
def test_a_property_of_that_name_is_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="has the name of the column that long_text: rescue"):
        columns_of(pa.schema([(name, pa.string())]), rescued_texts=())
    assert len(columns_of(pa.schema([(name, pa.string())]))) == 1


def test_long_texts_are_taken_out_of_their_columns() -> None:
    columns = columns_of(SCHEMA, varchar_max=5, rescued_texts={"s", "T"})
    rows = [{"id": "a", "s": "short", "n": 1}, {"id": "b", "s": "longer", "T": "\0" * 3, "n": 2}]
    conversion, noted, nuls = Conversion(columns, SCHEMA), ValueReport(), ValueReport()
    assert LONG_TEXTS_COLUMN not in conversion.read_schema.names
    read = [pa.RecordBatch.from_pylist(rows, schema=conversion.read_schema)]
    looked = checked(read, columns, "u", varchar_max=5, nul_text="replace", found=nuls, rescued=noted)
    (out,) = conversion.all_batches([("u", looked)])
    assert out.column("s").to_pylist() == ["short", None]
    assert out.column("t").to_pylist() == [None, None]
    assert out.column("n").to_pylist() == [1, 2]
    [none, long] = out.column(LONG_TEXTS_COLUMN).to_pylist()
    assert none is None
    assert json.loads(long) == {"s": "longer", "t": "␀␀␀"}  # too long only once its NULs were replaced
    assert (noted.count, noted.url, noted.place) == (2, "u", "row 2, column 's'")
    assert out.schema.names == [c.name for c in upload_columns(columns, "jsonl")]


def test_keys_are_not_rescued() -> None:
    columns = columns_of(SCHEMA, varchar_max=5, rescued_texts={"s", "T"})
    read = [pa.RecordBatch.from_pylist([{"id": "longer"}], schema=SCHEMA)]
    with pytest.raises(
        LongTextError, match=r"row 1, column 'id': the text has 6 bytes.*A key, or a column that must not"
    ):
        list(checked(read, columns, "u", varchar_max=5))


def test_rows_that_are_too_long_are_named() -> None:
    columns = columns_of(SCHEMA, rescued_texts={"s", "T"})
    rows = [{"id": "a", "s": "x" * 4_000_000}, {"id": "b", "s": "s", "T": "x" * (4 << 20)}]
    read = [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)]
    with pytest.raises(DataError, match=r"row 2, column 'T': the row has 4,194,\d+ bytes.*COPY takes 4,194,304"):
        list(checked(read, columns, "u"))
