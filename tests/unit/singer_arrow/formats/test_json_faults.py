"""Values that files hold and JSON does not are bad rows in every format and mode: dates in UTC beyond the year 9999, or
before the year 1, and maps with a key twice."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions

INSTANT = pa.timestamp("us", "UTC")
GOOD, LATE, EARLY = "2023-11-05T00:00:00-03:00", "9999-12-31T22:00:00-03:00", "0001-01-01T01:00:00+03:00"
CSV = f"id,t\n1,{GOOD}\n2,{LATE}\n3,{GOOD}\n4,{EARLY}\n"
LINES = "".join(f'{{"id":{n},"t":"{t}"}}\n\n' for n, t in enumerate((GOOD, LATE, GOOD, EARLY), 1))
FIXED = "".join(f"{n} {t}\n" for n, t in enumerate((GOOD, LATE, GOOD, EARLY), 1))
FIXED_COLUMNS = {"fixed_width": (FixedColumn("id", 1, 1), FixedColumn("t", 3, 25))}
TEXTS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("csv", CSV, 3, {}),
    ("csv", CSV.replace("-03:00", "-0300"), 3, {}),  # not in the syntax of Arrow's reader
    ("jsonl", LINES, 3, {}),
    ("fixed_width", FIXED, 2, FIXED_COLUMNS),
]


def _read(objects: Any, name: str, data: bytes, schema: pa.Schema, **options: Any) -> list[dict[str, Any]]:
    more = [pa.field(RESCUED, pa.string())] if options.get("on_bad_row") == "rescue" else []
    file_format = FORMATS[name]
    read = file_format.read(objects.reader(data, f"a.{name}"), pa.schema([*schema, *more]), ReadOptions(**options))
    return pa.Table.from_batches(list(read), pa.schema([*schema, *more])).to_pylist()


@pytest.mark.parametrize(("name", "text", "line", "more"), TEXTS)
def test_dates_of_text(objects: Any, name: str, text: str, line: int, more: dict[str, Any]) -> None:
    schema, options = pa.schema([("id", pa.int64()), ("t", INSTANT)]), {**more, "json_output": True}
    with pytest.raises(
        DataError, match=rf"a\.{name}, line {line}, column 't': .9999-12-31T22:00:00-03.* is not a date"
    ):
        _read(objects, name, text.encode(), schema, **options)
    assert [row["id"] for row in _read(objects, name, text.encode(), schema, on_bad_row="skip", **options)] == [1, 3]
    rescued = _read(objects, name, text.encode(), schema, on_bad_row="rescue", **options)
    assert [row["t"] is None for row in rescued] == [False, True, False, True]
    assert json.loads(rescued[3][RESCUED])["t"].startswith("0001-01-01T01:00:00+03")
    assert rescued[0][RESCUED] is None


MAPS = pa.table(
    {"id": [1, 2, 3], "m": pa.array([[("a", 1)], [("b", 1), ("b", 2)], [("c", 3)]], pa.map_("string", "int64"))}
)


@pytest.mark.parametrize("name", ["parquet", "arrow", "orc"])
@pytest.mark.parametrize("to_text", [False, True])
def test_maps_with_a_key_twice(objects: Any, name: str, *, to_text: bool) -> None:
    data, m = WRITERS[name](MAPS), pa.string() if to_text else MAPS.schema.field("m").type
    schema = pa.schema([("id", pa.int64()), ("m", m)])
    with pytest.raises(DataError, match=rf"a\.{name}.*row 2, column 'm': .*'b'.* is not a .*JSON"):
        _read(objects, name, data, schema, json_output=True)
    assert [row["id"] for row in _read(objects, name, data, schema, json_output=True, on_bad_row="skip")] == [1, 3]
    second = _read(objects, name, data, schema, json_output=True, on_bad_row="rescue")[1]
    assert second["m"] is None
    assert json.loads(second[RESCUED]) == {"m": [["b", 1], ["b", 2]]}
