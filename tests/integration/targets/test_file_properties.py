"""Which properties files and records have: what is required is checked, what is left out is named and counted."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from singer_lines import Batches, Message
from warehouses import Warehouse

from singer_arrow.errors import DataError

SCHEMA: dict[str, Any] = {
    "properties": {
        "id": {"type": "integer"},
        "v": {"type": ["string", "null"]},
        "o": {"type": ["object", "null"], "properties": {"k": {"type": ["string", "null"]}}},
        "l": {
            "type": ["array", "null"],
            "items": {"type": "object", "properties": {"k": {"type": ["integer", "null"]}}},
        },
    },
    "required": ["id"],
}
FORMATS = pytest.mark.parametrize("file_format", ["jsonl", "parquet"])


def schema_line(schema: dict[str, Any] = SCHEMA, keys: tuple[str, ...] = ("id",)) -> Message:
    return {"type": "SCHEMA", "stream": "rows", "schema": schema, "key_properties": list(keys)}


def columns_of(kinds: dict[str, str]) -> dict[str, Any]:
    return {"properties": {name: {"type": [kind, "null"]} for name, kind in kinds.items()}}


def left_out(caplog: pytest.LogCaptureFixture) -> dict[str, int]:
    lines = [r.getMessage() for r in caplog.records if "were left out: " in r.getMessage()]
    assert len(lines) <= 1
    found = re.findall(r"'([^']+)' \(([\d,]+) values?\)", lines[0]) if lines else []
    return {name: int(count.replace(",", "")) for name, count in found}


@FORMATS
@pytest.mark.parametrize("settings", [{}, {"on_bad_row": "dead_letter"}, {"load_method": "upsert"}])
def test_a_file_without_a_property_of_the_schema_is_an_error(
    file_format: str, settings: dict[str, str], warehouse: Warehouse, batch: Batches
) -> None:
    names = columns_of({"Id": "integer", "V": "string"})
    bad = batch([{"Id": n, "V": "x"} for n in range(40)], columns=names, file_format=file_format)
    with pytest.raises(DataError, match=r"none of the properties of its SCHEMA, but 'Id', 'V'"):
        warehouse.load([schema_line(), bad], **settings)
    assert warehouse.table() == []


@FORMATS
def test_a_file_without_a_required_property_is_an_error(file_format: str, warehouse: Warehouse, batch: Batches) -> None:
    bad = batch([{"v": "x"}], columns=columns_of({"v": "string"}), file_format=file_format)
    for keys in (("id",), ()):
        with pytest.raises(DataError, match=r"column 'id': .*SCHEMA requires it"):
            warehouse.load([schema_line(keys=keys), bad])
        assert warehouse.table() == []


@FORMATS
def test_rows_without_a_required_value_are_bad_rows(file_format: str, warehouse: Warehouse, batch: Batches) -> None:
    rows = [{"id": 1, "v": "a"}, {"id": None, "v": "b"}, {"id": 3, "v": None}]
    names = columns_of({"id": "integer", "v": "string"})
    run = [schema_line(), batch(rows, columns=names, file_format=file_format)]
    with pytest.raises(DataError, match=r"row 2, column 'id': it is null or missing"):
        warehouse.load(run)
    assert warehouse.table() == []
    warehouse.load(run, on_bad_row="dead_letter")
    assert [row["id"] for row in warehouse.table()] == [1, 3]
    assert [row["position"] for row in warehouse.table("_sdc_rejected", "stream")] == [2]


def test_missing_optional_properties_are_null(warehouse: Warehouse, batch: Batches) -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "count": {"type": "integer"}}}
    content = [{"id": 1}, {"id": 2, "v": "b"}]
    warehouse.load([schema_line(schema), batch(content, file_format="jsonl")])
    assert [(r["id"], r["v"], r["count"]) for r in warehouse.table()] == [(1, None, None), (2, "b", None)]


EXTRA: dict[str, Any] = {"note": "n", "o": {"k": "a", "x": 1}, "l": [{"k": 1, "y": "b"}, {"k": 2}], "empty": None}
MIXED: dict[str, list[Any]] = {"alike": ["n"], "mixed": ["n", 1, {"a": 2}]}


@pytest.mark.parametrize("kinds", MIXED)
@pytest.mark.parametrize("way", ["batch", "record", "mapped batch", "mapped record"])
def test_what_the_schema_lacks_is_counted_everywhere(
    kinds: str, way: str, warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    if warehouse.name == "redshift" and kinds == "mixed" and "mapped" in way:
        pytest.skip("the same code as for BigQuery")
    notes = MIXED[kinds]
    rows = [{"id": n, "v": "x"} for n in range(600)]
    rows[300:500] = [{**r, **EXTRA, "note": notes[n % len(notes)]} for n, r in enumerate(rows[300:500])]
    run = [schema_line()]
    if "record" in way:
        run += [{"type": "RECORD", "stream": "rows", "record": r} for r in rows]
    else:
        run += [batch(rows[part::2], file_format="jsonl") for part in range(2)]
    maps = {"stream_maps": {"rows": {"id": "id", "w": "v"}}} if "mapped" in way else {}
    with caplog.at_level(logging.INFO):
        warehouse.load(run, **maps)
    assert len(warehouse.table()) == 600
    holds_all = warehouse.name == "redshift" and way != "mapped batch"  # SUPER does
    assert left_out(caplog) == ({"note": 200} if holds_all else {"note": 200, "o.x": 200, "l.y": 200})


def test_what_a_parquet_file_has_beside_the_schema_is_counted(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    names = columns_of({"id": "integer", "note": "string", "_sdc_extracted_at": "string"})
    names["properties"]["o"] = {"properties": {"k": {"type": ["string", "null"]}, "x": {"type": ["integer", "null"]}}}
    content = [{"id": n, "note": "n", "o": {"k": "a", "x": n}} for n in range(3)]
    with caplog.at_level(logging.INFO):
        warehouse.load([schema_line(), batch(content, columns=names)])
    expected = {"note": 3, "_sdc_extracted_at": 3}
    assert left_out(caplog) == (expected if warehouse.name == "redshift" else expected | {"o.x": 3})


def test_metadata_of_the_tap_is_named_or_filled(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "_sdc_extracted_at": {"type": ["string", "null"]}}}
    content = batch([{"id": 1, "_sdc_extracted_at": "monday"}], file_format="jsonl")
    with caplog.at_level(logging.INFO):
        warehouse.load([schema_line(schema), content])
    assert "Stream 'rows': columns of the tap are left out, as add_record_metadata is not set: _sdc_extracted_at" in (
        caplog.text
    )
    assert left_out(caplog) == {}
    warehouse.drop()
    warehouse.load([schema_line(), content], add_record_metadata=True)
    assert warehouse.table()[0]["_sdc_extracted_at"] is not None


OPEN = {
    "rest": {"additionalProperties": True},
    "typed": {"additionalProperties": {"type": "integer"}},
    "pattern": {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
}


@pytest.mark.parametrize("way", ["record", "batch"])
@pytest.mark.parametrize("how", OPEN)
def test_members_that_the_schema_allows_are_loaded(
    how: str, way: str, warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    part = {"type": ["object", "null"], "properties": {"k": {"type": ["string", "null"]}}, **OPEN[how]}
    value = {"k": "a", "x1": 7}
    properties = {
        "id": {"type": "integer"},
        "o": part,
        "any": {"anyOf": [part, {"type": "null"}]},
        "deep": {"type": "object", "properties": {"l": {"type": "array", "items": part}, "k": {"type": "integer"}}},
    }
    row = {"id": 1, "o": value, "any": value, "deep": {"l": [value], "k": 1}}
    run = [schema_line({"properties": properties})]
    sent = {"type": "RECORD", "stream": "rows", "record": row} if way == "record" else batch([row], file_format="jsonl")
    with caplog.at_level(logging.INFO):
        warehouse.load([*run, sent])
    (found,) = warehouse.table()
    assert found == row
    assert left_out(caplog) == {}


def test_a_record_column_stays_one_and_what_it_lacks_is_named(
    warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    if warehouse.name != "bigquery":
        pytest.skip("Redshift has no RECORD")
    part: dict[str, Any] = {"type": ["object", "null"], "properties": {"k": {"type": ["string", "null"]}}}
    closed, opened = ({"properties": {"id": {"type": "integer"}, "o": o}} for o in (part, part | OPEN["rest"]))
    records = [{"type": "RECORD", "stream": "rows", "record": {"id": n, "o": {"k": "a", "x": n}}} for n in range(2)]
    warehouse.load([schema_line(closed), records[0]])
    with caplog.at_level(logging.INFO):
        caplog.clear()
        warehouse.load([schema_line(opened), records[1]])
    assert [r["o"] for r in warehouse.table()] == [{"k": "a"}, {"k": "a"}]
    assert left_out(caplog) == {"o.x": 1}
