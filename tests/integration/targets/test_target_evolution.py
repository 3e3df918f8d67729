"""Type changes of streams, with the same result in both warehouses: wider columns, variants, errors."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from local_settings import GONE
from singer_lines import Batches, Message, lines, record, schema, state
from waiting import wait_until
from warehouses import RANK, Warehouse

from local_cloud.programs import Programs
from singer_arrow.errors import NotFoundError, SchemaError
from target_bigquery.client import BigQuery
from target_bigquery.resources import QuotaError

DAY, MOMENT = date(2024, 2, 29), datetime(2024, 2, 29, 12, 30, 0, 123456, UTC)
Rows = list[dict[str, Any]]
LEDGER_COUNT = "SELECT COUNT(*) AS n FROM {_sdc_batches} WHERE batch_id IN ('a', 'b')"


def of(**types: pa.DataType) -> pa.Schema:
    """Return the properties of a SCHEMA, with `id` first."""
    return pa.schema({"id": pa.int64(), **types})


WHOLE, WORDS, PARTS = of(n=pa.int64()), of(n=pa.string()), of(n=pa.float64())


def numbered(first: int, count: int, value: Any) -> Rows:
    return [{"id": n, "n": value} for n in range(first, first + count)]


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
@pytest.mark.smoke("bigquery-append-only", "redshift-upsert")
def test_each_value_goes_into_the_column_that_fits(method: str, warehouse: Warehouse, batch: Batches) -> None:
    """SCHEMA changes twice within one run and back; each change loads the rows before it."""
    messages = [
        schema(columns=WHOLE),
        batch(numbered(0, 2, 7), columns=WHOLE, batch_id="a"),
        schema(columns=WORDS),
        batch(numbered(2, 1, "seven"), columns=WORDS, batch_id="b"),
        batch(numbered(3, 1, "eight"), columns=WORDS, file_format="jsonl", batch_id="c"),
        record(id=4, n="nine"),
        schema(columns=PARTS),
        record(id=5, n=0.5),
        schema(columns=WHOLE),
        record(id=6, n=8),
        state(1),
    ]
    for _ in range(1 if method == "append-only" else 2):  # the second run finds the first one's variants
        warehouse.load(messages, load_method=method)
    assert set(warehouse.columns("rows")) - {"_sdc_rank"} == {"id", "n", "n__string", "n__float"}
    expected = [(0, 7), (1, 7), (2, "seven"), (3, "eight"), (4, "nine"), (5, 0.5), (6, 8)]
    values = [(r["id"], [r["n"], r["n__string"], r["n__float"]]) for r in warehouse.table()]
    assert [(n, *(v for v in found if v is not None)) for n, found in values] == expected


def test_an_upsert_leaves_no_earlier_value_behind(warehouse: Warehouse, batch: Batches) -> None:
    own = of(n=pa.int64(), n__string=pa.bool_())
    steps = [
        *[(WHOLE, {"n": 5}), (WORDS, {"n": "x"}), (WORDS, {"n": None}), (WORDS, {"n": "y"}), (WHOLE, {"n": 7})],
        *[(PARTS, {"n": 0.5}), (WHOLE, {"n": None}), (WORDS, {"n": "z"}), (own, {"n": 8, "n__string": True})],
        *[(WORDS, {"n": "a"}), (of(m=pa.int64()), {"m": 1})],
    ]
    found = []
    for types, values in steps:
        warehouse.load([schema(columns=types), batch([{"id": 1, **values}], columns=types)], load_method="upsert")
        (row,) = warehouse.table(order="id" + " " * len(found))  # psycopg caches the plans of repeated statements
        found.append({name: value for name, value in row.items() if name != "id" and value is not None})
    names = warehouse.columns("rows").keys() - {RANK}
    (other,) = names - {"id", "n", "n__string", "n__float", "m"}  # the property n__string
    assert found == [
        *[{"n": 5}, {"n__string": "x"}, {}, {"n__string": "y"}, {"n": 7}, {"n__float": 0.5}, {}, {"n__string": "z"}],
        *[{"n": 8, other: True}, {"n__string": "a"}, {"m": 1}],
    ]


def test_what_is_always_null_needs_no_variant(warehouse: Warehouse, batch: Batches) -> None:
    columns = {
        "bigquery": "r STRUCT<a INT64, b STRUCT<c DATE>>, l ARRAY<INT64>, s ARRAY<STRUCT<a INT64>>, j JSON, n BOOL",
        "redshift": "r SUPER, l TIMESTAMP, s CHAR(3), j TIME, n BOOLEAN",
    }[warehouse.name]
    warehouse.load([schema("other", columns=WHOLE)])
    warehouse.run(
        f"CREATE TABLE {warehouse.quoted('rows')} (id {'INT64' if 'INT64' in columns else 'BIGINT'}, {columns})"
    )
    before = warehouse.columns("rows")
    given = of(r=pa.null(), l=pa.null(), s=pa.null(), j=pa.null(), n=pa.null())
    if warehouse.name == "bigquery":
        given = of(r=pa.struct([("a", pa.null()), ("b", pa.null())]), l=pa.list_(pa.null()), s=pa.null(), j=pa.null())
    nothing = dict.fromkeys(given.names[1:])
    messages = [schema(columns=given), batch([{"id": 1, **nothing}], columns=given), record(id=2, **nothing), state(1)]
    for method in ("append-only", "upsert"):
        warehouse.load(messages, load_method=method)
    assert {name: kind for name, kind in warehouse.columns("rows").items() if name != RANK} == before
    for row in warehouse.table():
        assert all(value in (None, [], {"a": None, "b": None}) for name, value in row.items() if name != "id")


def test_a_replay_after_the_column_got_a_variant(warehouse: Warehouse, batch: Batches) -> None:
    before = [schema(columns=WHOLE), batch(numbered(0, 2, 7), columns=WHOLE, batch_id="a"), state(1)]
    after = [schema(columns=WORDS), batch(numbered(2, 2, "x"), columns=WORDS, batch_id="b"), state(2)]
    warehouse.load(before)
    for messages in (before + after, before + after, after, before):
        warehouse.load(messages)
        rows = [(r["id"], r["n"], r["n__string"]) for r in warehouse.table()]
        assert rows == [(0, 7, None), (1, 7, None), (2, None, "x"), (3, None, "x")]
    assert warehouse.one(LEDGER_COUNT) == (2,)


BEFORE = {
    **{"whole": pa.int32(), "words": pa.string(), "day": pa.date32(), "list": pa.list_(pa.int64())},
    **{"price": pa.decimal128(10, 2), "yes": pa.bool_(), "at": pa.timestamp("us", "UTC")},
}
AFTER = {
    **{"whole": pa.float64(), "words": pa.int64(), "day": pa.timestamp("us", "UTC"), "list": pa.bool_()},
    **{"price": pa.float64(), "yes": pa.date32(), "at": pa.date32()},
}
VARIANTS = {
    "whole": "float",
    "words": "integer",
    "day": "timestamp",
    "list": "boolean",
    "price": "float",
    "yes": "date",
}


def test_variants_are_called_the_same_everywhere(warehouse: Warehouse, batch: Batches) -> None:
    first = {"whole": 1, "words": "one", "day": DAY, "list": [1], "price": Decimal("0.10"), "yes": True, "at": MOMENT}
    second = {"whole": 0.5, "words": 2**62, "day": MOMENT, "list": True, "price": 0.1, "yes": DAY, "at": DAY}
    for number, (types, values) in enumerate([(BEFORE, first), (AFTER, second)]):
        given = of(**types)
        content = [{"id": number, **values}]
        warehouse.load([schema(columns=given), batch(content, columns=given)])
    one, two = warehouse.table()
    assert {name.partition("__")[0]: name.partition("__")[2] for name in one if "__" in name} == VARIANTS
    assert {name: one[name] for name in first} == first
    found = {name: two[f"{name}__{VARIANTS[name]}"] for name in VARIANTS}
    midnight = datetime(2024, 2, 29, tzinfo=UTC)
    assert found | {"at": two["at"]} == second | {"at": midnight}  # the table is wider, and keeps its type
    assert all(two[name] is None for name in VARIANTS if name != "list")
    assert all(one[f"{name}__{word}"] is None for name, word in VARIANTS.items())


def test_a_table_is_still_laid_out_by_a_column_that_got_a_variant(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    layout = {"bigquery": {"partition_by": "n"}, "redshift": {"sort_keys": ["n"], "dist_key": "n"}}[warehouse.name]
    for number, (kind, value) in enumerate([(pa.date32(), DAY), (pa.timestamp("us", "UTC"), MOMENT)]):
        given = of(n=kind)
        warehouse.load([schema(columns=given), batch(numbered(number, 1, value), columns=given)], **layout)
    assert "values of stream 'rows' that do not fit column 'n' go into column 'n__timestamp'" in caplog.text
    assert "applies to new tables alone" not in caplog.text
    assert [(r["n"], r["n__timestamp"]) for r in warehouse.table()] == [(DAY, None), (None, MOMENT)]


def test_what_evolved_before_a_load_failed(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE, batch_id="a")])
    messages = [schema(columns=WORDS), batch(numbered(1, 1, "x"), columns=WORDS, batch_id="b")]
    gone = messages[1] | {"manifest": [GONE]}
    with pytest.raises(NotFoundError):
        warehouse.load([messages[0], gone])
    assert "n__string" in warehouse.columns("rows")
    warehouse.load(messages)
    assert [(r["id"], r["n"], r["n__string"]) for r in warehouse.table()] == [(0, 7, None), (1, None, "x")]


@pytest.mark.parametrize(("settings", "keys"), [({"on_drift": "fail"}, ("id",)), ({}, ("id", "n"))])
def test_what_may_not_have_a_variant(
    settings: dict[str, Any], keys: tuple[str, ...], warehouse: Warehouse, batch: Batches
) -> None:
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE)])
    messages = [schema(columns=WORDS, keys=keys), batch(numbered(1, 1, "x"), columns=WORDS)]
    with pytest.raises(SchemaError, match=r"Table .*rows: Column 'n' is of type \w+ in the table, and "):
        warehouse.load(messages, **settings)
    assert warehouse.table() == numbered(0, 1, 7)


def test_a_property_may_have_the_name_of_a_variant(warehouse: Warehouse, batch: Batches) -> None:
    both = of(n=pa.int64(), n__string=pa.bool_())
    warehouse.load([schema(columns=both), batch([{"id": 0, "n": 1, "n__string": True}], columns=both)])
    both = of(n=pa.string(), n__string=pa.bool_())
    for number in (1, 2):
        warehouse.load([schema(columns=both), batch([{"id": number, "n": "x", "n__string": None}], columns=both)])
    (other,) = warehouse.columns("rows").keys() - {"id", "n", "n__string"}
    assert other.startswith("n__string_")
    assert [r[other] for r in warehouse.table()] == [None, "x", "x"]


def test_killed_between_the_change_and_the_load(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE, batch_id="a")])
    rest = [batch(numbered(1, 1, "x"), columns=WORDS, batch_id="b"), state(1)]
    process = run.start(warehouse.program, config=["ENV"])
    assert process.stdin
    process.stdin.write(lines([schema(columns=WORDS), rest[0]]).encode())
    process.stdin.flush()
    wait_until(lambda: "n__string" in warehouse.columns("rows"))
    process.send_signal(signal.SIGKILL)
    assert process.communicate()[0] == b""
    for _ in range(2):
        warehouse.load([schema(columns=WORDS), *rest])
        assert [(r["id"], r["n"], r["n__string"]) for r in warehouse.table()] == [(0, 7, None), (1, None, "x")]


def _at_once(run: Programs, program: str, inputs: Sequence[list[Message]]) -> list[tuple[int, str]]:
    """Run targets concurrently; return their exit codes and errors."""
    started = [run.start(program, config=["ENV"]) for _ in inputs]
    for process, messages in zip(started, inputs, strict=True):
        assert process.stdin
        process.stdin.write(lines(messages).encode())
        process.stdin.flush()
    ends = [process.communicate(timeout=120) for process in started]
    return [(p.returncode, err.decode()) for p, (_, err) in zip(started, ends, strict=True)]


def test_two_runs_change_a_table_at_once(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE, batch_id="a")])
    inputs: list[list[Message]] = []
    for number, more in enumerate(("left", "right")):
        given = of(n=pa.string(), both=pa.bool_(), **{more: pa.float64()})
        content = [{"id": 1 + number, "n": more, "both": True, more: 0.5}]
        inputs.append([schema(columns=given), batch(content, columns=given, batch_id=more), state(number)])
    for code, log in _at_once(run, warehouse.program, inputs):
        assert code == 0, log
    assert set(warehouse.columns("rows")) == {"id", "n", "n__string", "both", "left", "right"}
    assert [(r["n"], r["n__string"], r["left"], r["right"]) for r in warehouse.table()] == [
        (7, None, None, None),
        (None, "left", 0.5, None),
        (None, "right", None, 0.5),
    ]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_columns_are_widened_where_bigquery_can(warehouse: Warehouse, batch: Batches) -> None:
    steps: list[tuple[pa.DataType, Any, str]] = [
        (pa.int64(), 2**63 - 1, "INTEGER"),
        (pa.decimal128(20, 2), Decimal("0.25"), "NUMERIC"),
        (pa.decimal128(38, 18), Decimal("0.000000000000000001"), "BIGNUMERIC"),
        (pa.int64(), -1, "BIGNUMERIC"),
    ]
    for number, (kind, value, expected) in enumerate(steps):
        given = of(n=kind, s=pa.struct([("x", pa.int64()), *[(f"y{i}", pa.bool_()) for i in range(number)]]))
        content = [{"id": number, "n": value, "s": {"x": number}}]
        warehouse.load([schema(columns=given), batch(content, columns=given)])
        assert warehouse.columns("rows")["n"] == expected
    table = warehouse.table()
    assert [r["n"] for r in table] == [value for _, value, _ in steps]
    assert table[3]["s"] == {"x": 3, "y0": None, "y1": None, "y2": None}


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_field_of_a_record_has_its_variant_beside_it(warehouse: Warehouse, batch: Batches) -> None:
    for number, (kind, value) in enumerate([(pa.int64(), 1), (pa.string(), "x"), (pa.int64(), 2)]):
        given = of(s=pa.struct([("a", kind), ("l", pa.list_(pa.struct([("b", kind)])))]))
        content = [{"id": number, "s": {"a": value, "l": [{"b": value}]}}]
        warehouse.load([schema(columns=given), batch(content, columns=given)])
    empty = {"a": None, "a__string": None}
    assert [
        {**empty, **r["s"], "l": [{k: v for k, v in b.items() if v is not None} for b in r["s"]["l"]]}
        for r in warehouse.table()
    ] == [
        {"a": 1, "a__string": None, "l": [{"b": 1}]},
        {"a": None, "a__string": "x", "l": [{"b__string": "x"}]},
        {"a": 2, "a__string": None, "l": [{"b": 2}]},
    ]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_required_columns_are_relaxed(warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema("other", columns=WHOLE)])
    warehouse.run(f"CREATE TABLE {warehouse.quoted('rows')} (id INT64 NOT NULL, n INT64 NOT NULL)")
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, None), columns=WHOLE)])
    assert warehouse.table() == numbered(0, 1, None)


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_overwrite_with_a_column_that_is_widened_meanwhile(warehouse: Warehouse, batch: Batches) -> None:
    wide = of(n=pa.decimal128(20, 2))
    messages = [
        *[schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE)],
        *[schema(columns=wide), batch(numbered(1, 1, Decimal("0.25")), columns=wide)],
    ]
    warehouse.load(messages, load_method="overwrite")
    assert warehouse.table() == [{"id": 0, "n": 7}, {"id": 1, "n": Decimal("0.25")}]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_two_runs_widen_a_column_at_once(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    """One may fail because the other has widened the table since; then its batch is loaded whole or not at all."""
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE, batch_id="a")])
    inputs: list[list[Message]] = []
    for number, digits in ((1, 2), (2, 18)):
        given = of(n=pa.decimal128(28, digits))
        content = numbered(number, 1, Decimal("0.25"))
        inputs.append([schema(columns=given), batch(content, columns=given, batch_id=f"{number}"), state(number)])
    ends = _at_once(run, warehouse.program, inputs)
    assert all(code == 0 or "run again" in log for code, log in ends), ends
    for messages in inputs:
        warehouse.load(messages)
    assert warehouse.columns("rows")["n"] == "BIGNUMERIC"
    assert [r["n"] for r in warehouse.table()] == [7, Decimal("0.25"), Decimal("0.25")]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_column_that_bigquery_does_not_widen(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run changed it in another way after this one read it: this one reads it again."""
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE)])
    query = BigQuery.query

    def late(self: BigQuery, text: str, *others: Any, **options: Any) -> Any:
        if "SET DATA TYPE" in text:
            monkeypatch.undo()
            warehouse.run(f"ALTER TABLE {warehouse.quoted('rows')} ALTER COLUMN n SET DATA TYPE FLOAT64")
        return query(self, text, *others, **options)

    monkeypatch.setattr(BigQuery, "query", late)
    given = of(n=pa.decimal128(20, 2))
    warehouse.load([schema(columns=given), batch(numbered(1, 1, Decimal("0.25")), columns=given)])
    assert [(r["n"], r["n__decimal"]) for r in warehouse.table()] == [(7, None), (None, Decimal("0.25"))]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_a_widening_that_fails_for_another_reason_makes_no_variant(
    warehouse: Warehouse, batch: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.load([schema(columns=WHOLE), batch(numbered(0, 1, 7), columns=WHOLE)])
    given = of(n=pa.decimal128(20, 2))
    messages = [schema(columns=given), batch(numbered(1, 1, Decimal("0.25")), columns=given)]
    query = BigQuery.query

    def lost(self: BigQuery, text: str, *others: Any, **options: Any) -> Any:
        if "SET DATA TYPE" in text:
            raise QuotaError("Widening: quotaExceeded: columns may not change so often")
        return query(self, text, *others, **options)

    monkeypatch.setattr(BigQuery, "query", lost)
    with pytest.raises(QuotaError, match="so often"):
        warehouse.load(messages)
    monkeypatch.undo()
    assert warehouse.columns("rows") == {"id": "INTEGER", "n": "INTEGER"}
    warehouse.load(messages)
    assert warehouse.columns("rows") == {"id": "INTEGER", "n": "NUMERIC"}
    assert [r["n"] for r in warehouse.table()] == [7, Decimal("0.25")]


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_variants_in_records_and_of_lists_evolve_further(warehouse: Warehouse, batch: Batches) -> None:
    small, fine = Decimal("0.25"), Decimal("0.000000000012")
    steps: list[tuple[pa.Schema, dict[str, Any]]] = [
        (of(x=pa.string(), l=pa.bool_(), r=pa.struct([("p", pa.bool_())])), {"x": "a", "l": True, "r": {"p": True}}),
        (of(x=pa.struct([("a", pa.int64())]), l=pa.list_(pa.decimal128(10, 2))), {"x": {"a": 1}, "l": [small]}),
        (of(x=pa.struct([("a", pa.string())]), l=pa.list_(pa.decimal128(20, 12))), {"x": {"a": "b"}, "l": [fine]}),
        (of(r=pa.struct([("p", pa.decimal128(10, 2))])), {"r": {"p": small}}),
        (of(r=pa.struct([("p", pa.decimal128(20, 12))])), {"r": {"p": fine}}),
    ]
    for number, (types, values) in enumerate(steps):
        warehouse.load([schema(columns=types), batch([{"id": number, **values}], columns=types)])
    assert set(warehouse.columns("rows")) == {"id", "x", "x__record", "l", "l__array_decimal", "r"}
    rows = warehouse.table()
    assert [r["x__record"] for r in rows[1:3]] == [{"a": 1, "a__string": None}, {"a": None, "a__string": "b"}]
    assert [r["l__array_decimal"] for r in rows[1:3]] == [[small], [fine]]
    assert [(r["r"]["p"], r["r"]["p__decimal"]) for r in (rows[0], *rows[3:])] == [
        (True, None),
        (None, small),
        (None, fine),
    ]


def test_a_new_column_is_named_in_one_line(
    warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        warehouse.load([schema(columns=of()), batch([{"id": 1}], columns=of(), batch_id="a")])
        assert "gets new column" not in caplog.text
        more = of(n=pa.int64(), words=pa.string())
        warehouse.load([schema(columns=more), batch([{"id": 2, "n": 1, "words": "x"}], columns=more, batch_id="b")])
    (line,) = [m for m in caplog.messages if "gets new column" in m]
    assert "gets new columns from stream 'rows': 'n' (" in line
    assert ", 'words' (" in line
