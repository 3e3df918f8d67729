"""Columns in the form of the BigQuery API, with descriptions from the SCHEMA."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from singer_arrow.warehouse.settings import marked
from singer_arrow.warehouse.table import Descriptions, descriptions_of
from target_bigquery.columns import api_field, columns_of, relaxed, with_columns

SCHEMA = pa.schema([("id", pa.int64()), ("place", pa.struct([("lat", pa.float64()), ("a b", pa.string())]))])
DESCRIPTIONS = Descriptions(None, {("id",): "key", ("place",): "where", ("place", "a b"): "spaced"})


def test_descriptions_are_those_of_properties_at_every_depth() -> None:
    number, place = (api_field(c, DESCRIPTIONS) for c in columns_of(SCHEMA))
    assert (number["description"], place["description"]) == ("key", "where")
    assert [(f["name"], f.get("description")) for f in place["fields"]] == [
        ("lat", None),
        ("a_b", 'singer_property: "a b"\nspaced'),
    ]
    variant = replace(columns_of(SCHEMA)[0], name="id__integer", variant_of="id")
    assert api_field(variant, DESCRIPTIONS)["description"] == "singer_variant: id\nkey"
    long = api_field(variant, descriptions_of({"properties": {"id": {"description": "k" * 2000}}}))["description"]
    assert (len(long), marked(long)) == (1024, "id")


def test_fields_are_relaxed_at_every_depth() -> None:
    inner = [{"name": n, "type": "STRING", "mode": "REQUIRED", "maxLength": "3"} for n in ("a", "b")]
    fields = [{"name": "a", "type": "STRING", "mode": "REQUIRED"}, {"name": "r", "type": "RECORD", "fields": inner}]
    made = relaxed(fields, {"r.b"})
    assert made == [fields[0], {**fields[1], "fields": [inner[0], {**inner[1], "mode": "NULLABLE"}]}]


def test_what_has_a_description_keeps_it() -> None:
    columns = columns_of(SCHEMA)
    bare = [api_field(c) for c in columns]
    described = with_columns(bare, columns, DESCRIPTIONS)
    assert described == [api_field(c, DESCRIPTIONS) for c in columns]
    assert with_columns(described, columns, DESCRIPTIONS) == described
    assert with_columns(bare, columns, Descriptions("only the table", {})) == bare
    own = [{**bare[0], "description": "mine"}, *described[1:]]
    assert with_columns(own, columns, DESCRIPTIONS)[0]["description"] == "mine"


def test_new_fields_come_with_theirs() -> None:
    columns = columns_of(SCHEMA)
    small = [{"name": "place", "type": "RECORD", "mode": "NULLABLE", "fields": []}]
    place, number = with_columns(small, columns, DESCRIPTIONS)
    assert (place["description"], number["description"]) == ("where", "key")
    assert place["fields"] == api_field(columns[1], DESCRIPTIONS)["fields"]
