"""Members of objects that a catalog excludes stay excluded, whatever else a file contains."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import WRITERS
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.enforcement.enforce import without_excluded
from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats import FORMATS, json_lines
from singer_arrow.read_options import RESCUED, ReadOptions, ReadProgress
from singer_arrow.schema.arrow_schema import is_json, json_field, merge_schemas

SECRET = "not to be seen"
LEFT_OUT = frozenset({"o.secret", "o.p.secret", "l.secret", "m.secret", "gone"})
A = pa.struct([("a", pa.int64())])
SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("o", pa.struct([("a", pa.int64()), ("p", A)])),
    ("l", pa.list_(A)),
    ("m", pa.map_(pa.string(), A)),
])  # fmt: skip
WITH_SECRET = pa.struct([("a", pa.int64()), ("secret", pa.string())])
FILE = pa.schema([
    ("id", pa.int64()),
    ("o", pa.struct([("a", pa.int64()), ("secret", pa.string()), ("p", WITH_SECRET)])),
    ("l", pa.list_(WITH_SECRET)),
    ("m", pa.map_(pa.string(), WITH_SECRET)),
])  # fmt: skip
NAMES = ["a.jsonl", "list.json", "a.parquet", "a.arrow", "a.avro", "a.orc"]
each = pytest.mark.parametrize("name", NAMES)


def row(number: int, value: Any = 1, **more: Any) -> dict[str, Any]:
    """Return a row with `value` at every place, beside the excluded members."""
    part = {"a": value, "secret": SECRET, **more}
    return {"id": number, "o": {**part, "p": part}, "l": [part, part], "m": {"k": part}}


def rows_of(name: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows as schemaless formats contain them, where maps are objects with keys as members."""
    return [{k: v for k, v in row.items() if k != "m"} for row in rows] if "json" in name else list(rows)


def widened(t: pa.DataType, file: pa.Schema = FILE, *more: pa.Field) -> pa.Schema:
    """Return the schema of a file with `a` of another type, and further members."""

    def _other(old: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(old):
            parts = [f.with_type(t if f.name == "a" else _other(f.type)) for f in old]
            return pa.struct([*parts, *more])
        if pa.types.is_list(old):
            return pa.list_(_other(old.value_type))
        return pa.map_(pa.string(), _other(old.item_type)) if pa.types.is_map(old) else old

    return pa.schema([f.with_type(_other(f.type)) for f in file])


def written(name: str, rows: list[dict[str, Any]], file: pa.Schema) -> bytes:
    if name == "a.jsonl":
        return b"".join(json.dumps(r).encode() + b"\n" for r in rows)
    if name == "list.json":
        return json.dumps(rows).encode()
    table = pa.Table.from_pylist([{**r, "m": list(r["m"].items())} for r in rows], file)
    return WRITERS[name[2:]](table)


class Reading:
    """Reads all rows of a file, with schemas that are widened on drift."""

    def __init__(self, objects: Any, name: str, data: bytes, schema: pa.Schema, **options: Any) -> None:
        self.schema, self.rows, self.drifts, progress = schema, list[dict[str, Any]](), list[str](), ReadProgress()
        read = FORMATS["jsonl" if "json" in name else name[2:]].read
        how = ReadOptions(**{"known_columns": frozenset(), "excluded_members": LEFT_OUT, **options})
        while len(self.drifts) < 10:
            try:
                for batch in read(objects.reader(data, name), self.schema, how, progress):
                    batch.validate(full=True)
                    assert batch.schema.equals(self.schema, check_metadata=True)
                    self.rows += batch.to_pylist()
            except DriftError as error:
                self.drifts.append(f"{error} {error.fields}")
                new = {f.name: f for f in error.fields}
                kept = pa.schema([new.get(f.name, f) for f in self.schema])
                self.schema = merge_schemas(kept, pa.schema(error.fields))
            else:
                break

    @property
    def rescued(self) -> list[Any]:
        return [r[RESCUED] and json.loads(r[RESCUED]) for r in self.rows]

    def contains(self, what: str) -> bool:
        """Whether rows, drifts or schema contain the text."""
        return what in f"{self.rows} {self.drifts} {self.schema}"


@each
@pytest.mark.parametrize("drift", ["raise", "rescue"])
def test_they_are_no_news(
    objects: Any,
    name: str,
    drift: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_lines.LineParser, "read_one_by_one", None)  # they need no further check
    schema = pa.schema([*SCHEMA, json_field(RESCUED)]) if drift == "rescue" else SCHEMA
    found = Reading(objects, name, written(name, [row(n) for n in range(200)], FILE), schema, on_drift=drift)
    assert not found.drifts
    assert len(found.rows) == 200
    assert found.rows[9]["o"] == {"a": 1, "p": {"a": 1}}
    assert found.rows[9]["m"] == [("k", {"a": 1})]
    assert not found.contains(SECRET)
    if drift == "rescue":
        assert found.rescued == [None] * 200


@each
def test_schemas_widen_without_them(objects: Any, name: str) -> None:
    data = written(
        name, rows_of(name, row(0), row(1, e=True), row(2)), widened(pa.int64(), FILE, pa.field("e", pa.bool_()))
    )
    found = Reading(objects, name, data, SCHEMA, on_drift="raise")
    assert found.drifts
    assert not found.contains("secret")
    assert not found.contains(SECRET)
    assert found.rows[1]["o"] == {"a": 1, "p": {"a": 1, "e": True}, "e": True}
    assert found.rows[1]["l"] == [{"a": 1, "e": True}] * 2
    if "json" not in name:
        assert found.rows[1]["m"] == [("k", {"a": 1, "e": True})]

    data = written(name, rows_of(name, row(0, 1.5), row(1, 2.5)), widened(pa.float64()))
    found = Reading(objects, name, data, SCHEMA, on_drift="raise")
    assert found.drifts
    assert not found.contains("secret")
    assert [r["o"] for r in found.rows] == [{"a": a, "p": {"a": a}} for a in (1.5, 2.5)]


@each
def test_a_column_that_becomes_json_is_without_them(objects: Any, name: str) -> None:
    """Although other files have no objects there."""
    schema = pa.schema([SCHEMA.field("id"), json_field("o"), json_field("l"), json_field("m")])
    rows = [row(0), row(1, 2)]
    found = Reading(objects, name, written(name, rows, FILE), schema, on_drift="raise")
    assert not found.drifts
    assert [json.loads(r["o"]) for r in found.rows] == [{"a": a, "p": {"a": a}} for a in (1, 2)]
    assert [json.loads(r["l"]) for r in found.rows] == [[{"a": a}] * 2 for a in (1, 2)]
    within = pa.schema([("id", pa.int64()), ("o", pa.struct([("a", pa.int64()), json_field("p")]))])
    found = Reading(
        objects, name, written(name, rows, FILE), within, on_drift="raise", known_columns=frozenset({"l", "m"})
    )
    assert [r["o"]["p"].replace(" ", "") for r in found.rows] == ['{"a":1}', '{"a":2}']
    assert not found.contains(SECRET)


@pytest.mark.parametrize("name", ["a.jsonl", "list.json"])
def test_objects_beside_other_kinds_become_json_without_them(objects: Any, name: str) -> None:
    rows = rows_of(name, row(0), {"id": 1, "o": 5, "l": [7]}, row(2), row(3, []))
    found = Reading(objects, name, written(name, rows, FILE), SCHEMA, on_drift="raise")
    assert is_json(found.schema.field("o"))
    assert [json.loads(r["o"]) for r in found.rows[:3]] == [{"a": 1, "p": {"a": 1}}, 5, {"a": 1, "p": {"a": 1}}]
    assert [json.loads(r["l"]) for r in found.rows[:3]] == [[{"a": 1}] * 2, [7], [{"a": 1}] * 2]
    assert not found.contains(SECRET)


@each
@pytest.mark.parametrize("known", [frozenset(), None])
def test_what_is_rescued_is_without_them(objects: Any, name: str, known: Any, caplog: pytest.LogCaptureFixture) -> None:
    file = widened(pa.string(), FILE, pa.field("e", pa.bool_()))
    rows = [row(0, "x", e=True), row(1, "1", e=None), row(2, "y", e=False)]
    schema = pa.schema([*SCHEMA, json_field(RESCUED)])
    for options in ({"on_drift": "rescue"}, {"on_bad_row": "rescue"}):
        found = Reading(objects, name, written(name, rows, file), schema, known_columns=known, **options)
        assert found.rescued[0]["o"]["a"] == "x"
        assert found.rescued[0]["o"]["p"]["a"] == "x"
        assert [part["a"] for part in found.rescued[2]["l"]] == ["y", "y"]
        assert found.rescued[2]["m"]["k"]["a"] == "y"
        assert not found.contains(SECRET)
        assert found.rescued[0]["o"]["e"] is True
        assert SECRET not in caplog.text


@each
def test_new_members_are_rescued_without_them(objects: Any, name: str) -> None:
    file = widened(pa.int64(), FILE, pa.field("e", pa.bool_()))
    data = written(name, [row(0), row(1, e=True)], file)
    found = Reading(objects, name, data, pa.schema([*SCHEMA, json_field(RESCUED)]), on_drift="rescue")
    assert found.rescued[0] is None
    assert found.rescued[1]["o"]["e"] is True
    assert found.rescued[1]["o"]["p"]["e"] is True
    assert not found.contains(SECRET)


@each
def test_new_columns_and_members_are_without_them(objects: Any, name: str) -> None:
    """With a schema that is older than the catalog."""
    data = written(name, rows_of(name, row(0)), FILE)
    found = Reading(objects, name, data, pa.schema([("id", pa.int64())]), on_drift="raise")
    assert {"id", "o", "l"} <= set(found.schema.names)
    assert found.rows[0]["o"] == {"a": 1, "p": {"a": 1}}
    assert not found.contains("secret")
    younger = pa.schema([("id", pa.int64()), ("o", A), json_field(RESCUED)])
    rescued = Reading(objects, name, data, younger, on_drift="rescue")
    assert rescued.rescued[0]["o"]["p"] == {"a": 1}
    assert not rescued.contains(SECRET)


@each
def test_what_the_schema_has_stays(objects: Any, name: str) -> None:
    """A segment planned before they were deselected is finished with its schema."""
    found = Reading(objects, name, written(name, [row(0, 1.5)], widened(pa.float64())), FILE, on_drift="raise")
    assert found.rows[0]["o"] == row(0, 1.5)["o"]
    assert found.rows[0]["l"] == row(0, 1.5)["l"]


def test_a_row_that_is_no_record_is_still_a_bad_row(objects: Any) -> None:
    data = written("a.jsonl", [row(0)], FILE) + b'{"o":{"secret":"s","p":}}\n{"id":1,"id":2,"o":{"secret":"s"}}\n'
    with pytest.raises(DataError, match="line 2: not JSON"):
        Reading(objects, "a.jsonl", data, SCHEMA, on_drift="raise")
    found = Reading(objects, "a.jsonl", data, SCHEMA, on_drift="raise", on_bad_row="skip")
    assert [r["id"] for r in found.rows] == [0]


def _field(t: Any, name: str = "c") -> pa.Field:
    return pa.field(name, t)


def test_types_are_pruned() -> None:
    both = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    x = pa.struct([("x", pa.int64())])
    assert without_excluded(_field(both), None, frozenset({"c.y"})) == _field(x)
    assert without_excluded(_field(both), None, frozenset({"other.y", "y", "c"})) == _field(both)
    assert without_excluded(_field(both), _field(both), frozenset({"c.y"})) == _field(both)
    assert without_excluded(_field(both), _field(x), frozenset()) == _field(both)
    assert without_excluded(_field(pa.list_(pa.list_(both))), None, frozenset({"c.y"})) == _field(pa.list_(pa.list_(x)))
    assert without_excluded(_field(pa.list_(both)), _field(pa.list_(both)), frozenset({"c.y"})) == _field(
        pa.list_(both)
    )
    deep = pa.struct([("p", both), ("q", pa.list_(both))])
    assert without_excluded(_field(deep), None, frozenset({"c.p.y", "c.q.x", "c.q.y"})) == _field(pa.struct([("p", x)]))
    assert without_excluded(_field(deep), None, frozenset({"c.p", "c.q"})) == _field(pa.null())
    assert without_excluded(_field(pa.int64()), None, frozenset({"c.y"})) == _field(pa.int64())
