"""Settings of single streams, and load methods that a tap sends."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
from singer_lines import Batches, Message, activate, rows, schema, state
from warehouses import Warehouse

from singer_arrow.errors import ConfigError, IdentityError, SchemaError

STREAMS = {
    "orders": {"load_method": "upsert", "table": "all_orders"},
    "prices": {"load_method": "overwrite", "on_bad_row": None, "table": None},
    "log_*": {"key_properties": []},
}


def named(first: int, count: int, name: str) -> list[dict[str, Any]]:
    return [row | {"name": name} for row in rows(first, count)]


def test_each_stream_is_loaded_by_its_own_method(warehouse: Warehouse, batch: Batches) -> None:
    for run, name in enumerate(("old", "new")):
        lines: list[Message] = []
        for stream in ("orders", "prices", "log_a"):
            lines += [schema(stream), batch(named(run, 2, name), stream=stream, batch_id=f"{stream}-{run}"), state(run)]
        warehouse.load(lines, streams=STREAMS)
    found = {
        table: [(row["id"], row["name"]) for row in warehouse.table(table, "id, name")]
        for table in ("all_orders", "prices", "log_a")
    }
    assert found == {
        "all_orders": [(0, "old"), (1, "new"), (2, "new")],
        "prices": [(1, "new"), (2, "new")],
        "log_a": [(0, "old"), (1, "new"), (1, "old"), (2, "new")],
    }


def test_the_methods_of_a_stream_change_between_runs(warehouse: Warehouse, batch: Batches) -> None:
    """Each order of three methods gives the rows that each of them promises for what came before."""
    for number, order in enumerate(itertools.permutations(("append-only", "upsert", "overwrite"))):
        expected: list[tuple[int, str]] = []
        for run, method in enumerate(order):
            name, stream = f"run {run}", f"s{number}"
            came = [(id_, name) for id_ in (run, run + 1)]
            if method == "upsert":
                expected = [row for row in expected if row[0] not in (run, run + 1)]
            expected = came if method == "overwrite" else [*expected, *came]
            lines = [schema(stream), batch(named(run, 2, name), stream=stream, batch_id=f"{stream}-{run}"), state(run)]
            warehouse.load(lines, load_method="append-only", streams={stream: {"load_method": method}})
        found = [(row["id"], row["name"]) for row in warehouse.table(f"s{number}", "id, name")]
        assert found == sorted(expected), order


def test_the_method_that_a_tap_sends_counts_where_none_is_set(warehouse: Warehouse, batch: Batches) -> None:
    def load(name: str, **settings: Any) -> None:
        lines: list[Message] = []
        for stream in ("a", "b", "c"):
            lines += [schema(stream) | {"load_method": "upsert"}, batch(named(0, 1, name), stream=stream)]
        warehouse.load([*lines, state(1)], **settings)

    load("old", streams={"b": {"load_method": "append-only"}})
    load("new", streams={"b": {"load_method": "append-only"}}, stream_maps={"c": {"__alias__": "d"}})
    load("newer", streams={"b": {"load_method": "append-only"}}, stream_maps={"c": {"__alias__": "d"}})
    counts = {table: [row["name"] for row in warehouse.table(table, "name")] for table in "abcd"}
    assert counts == {"a": ["newer"], "b": ["new", "newer", "old"], "c": ["old"], "d": ["newer"]}
    load("last", load_method="append-only")
    assert sorted(row["name"] for row in warehouse.table("a")) == ["last", "newer"]


def test_streams_of_one_table_come_with_one_method(warehouse: Warehouse, batch: Batches) -> None:
    maps = {name: {"__alias__": "all"} for name in "ab"}
    lines = [
        *(schema("a") | {"load_method": "upsert"}, batch(named(0, 1, "a"), stream="a", batch_id="a")),
        *(schema("b"), batch(named(0, 1, "b"), stream="b", batch_id="b"), state(1)),
    ]
    with pytest.raises(
        ConfigError, match="'b' comes with load_method append-only, and what came for 'all' before with"
    ):
        warehouse.load(lines, stream_maps=maps)
    warehouse.load(lines, stream_maps=maps, streams={"all": {"load_method": "append-only"}})
    assert [row["name"] for row in warehouse.table("all", "name")] == ["a", "b"]


def test_what_cannot_be_loaded_so_is_refused_before_anything_is_written(warehouse: Warehouse, batch: Batches) -> None:
    part = schema("a") | {"sent_whole": False}
    with pytest.raises(IdentityError, match="'a' comes with what is new since its STATE alone"):
        warehouse.load([part, batch(rows(0, 1), stream="a")], streams={"a": {"load_method": "overwrite"}})
    with pytest.raises(IdentityError, match="'a' comes with what is new since its STATE alone"):
        warehouse.load([part | {"load_method": "overwrite"}, batch(rows(0, 1), stream="a")])
    with pytest.raises(ConfigError, match="'a' comes with load_method 'merge', which must be append-only, upsert or"):
        warehouse.load([schema("a") | {"load_method": "merge"}, batch(rows(0, 1), stream="a")])
    with pytest.raises(SchemaError, match="Key property 'number' of stream 'a' is not among the properties"):
        warehouse.load([schema("a"), batch(rows(0, 1), stream="a")], streams={"a": {"key_properties": ["number"]}})
    assert [t for t in warehouse.tables() if t == "a"] == [] or warehouse.table("a") == []


def test_a_name_that_no_stream_has_is_an_error_once_all_is_loaded(warehouse: Warehouse, batch: Batches) -> None:
    announced, end = schema("orders") | {"end_of_stream": True}, state(7) | {"end_of_stream": "orders"}
    lines = [announced, batch(rows(0, 2), stream="orders"), end]
    states: list[Message] = []
    with pytest.raises(ConfigError, match="'streams' has 'ordres', and no stream of that name came; did you mean 'ord"):
        warehouse.load(lines, streams={"ordres": {"load_method": "upsert"}, "x_*": {}}, on_state=states.append)
    assert ([row["id"] for row in warehouse.table("orders")], states) == ([0, 1], [{"n": 7}])


@pytest.mark.parametrize("tap", ["ended early", "sent nothing", "marks no ends"])
def test_a_name_is_no_error_unless_the_input_ended_well(
    tap: str, warehouse: Warehouse, batch: Batches, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [schema("orders"), batch(rows(0, 2), stream="orders"), state(7)]
    if tap == "ended early":  # a signal, or an error, came before the end of the first stream
        lines[0] |= {"end_of_stream": True}
    with caplog.at_level(logging.WARNING):
        warehouse.load([] if tap == "sent nothing" else lines, streams={"events": {"load_method": "upsert"}})
    found = [line for line in caplog.messages if "'streams' has 'events'" in line]
    warned = "Setting 'streams' has 'events', and no stream of that name came; if the tap has no such stream, remove "
    assert [line.startswith(warned) for line in found] == [True] * (tap == "marks no ends")


def test_old_versions_are_deleted_where_a_stream_is_set_so(warehouse: Warehouse, batch: Batches) -> None:
    for version in (1, 2):
        lines: list[Message] = []
        for stream in ("hard", "soft"):
            sent = batch(rows(version, 1), stream=stream, version=version, batch_id=f"{stream}-{version}")
            lines += [schema(stream), sent, activate(version, stream)]
        warehouse.load([*lines, state(version)], add_record_metadata=True, streams={"hard": {"hard_delete": True}})
    assert [row["id"] for row in warehouse.table("hard")] == [2]
    assert [(row["id"], row["_sdc_deleted_at"] is None) for row in warehouse.table("soft")] == [(1, False), (2, True)]


def test_streams_whose_names_differ_by_case_have_tables_of_their_own(warehouse: Warehouse, batch: Batches) -> None:
    """In BigQuery their tables differ by case; in Redshift, whose names have no case, one of them has a suffix."""
    for method in ("append-only", "upsert", "overwrite"):
        for run in (0, 1):
            lines: list[Message] = []
            for stream in ("Orders", "orders", "ORDERS"):
                sent = batch(named(run, 1, stream), stream=stream, batch_id=f"{method}-{stream}-{run}")
                lines += [schema(stream), sent]
            warehouse.load([*lines, state(run)], load_method=method, table_prefix=method.replace("-", "_") + "_")
    for method, ids in (("append_only", [0, 1]), ("upsert", [0, 1]), ("overwrite", [1])):
        found = [warehouse.table(t, "id") for t in warehouse.tables() if t.startswith(method)]
        held = {row["name"]: [row["id"] for row in table] for table in found for row in table}
        assert held == dict.fromkeys(("Orders", "orders", "ORDERS"), ids)
        assert len(found) == 3
    if warehouse.name == "bigquery":
        assert {t for t in warehouse.tables() if t.startswith("upsert")} == {
            "upsert_Orders",
            "upsert_orders",
            "upsert_ORDERS",
        }


def test_streams_whose_names_differ_by_case_do_not_share_a_table_that_is_named(
    warehouse: Warehouse, batch: Batches
) -> None:
    lines: list[Message] = []
    for stream in ("Orders", "orders"):
        lines += [schema(stream), batch(named(0, 1, stream), stream=stream, batch_id=stream)]
    tables = {"Orders": "sold", "orders": "Sold"}
    if warehouse.name == "redshift":  # where names have no case
        with pytest.raises(ConfigError, match="names table \\S*sold, which belongs to another stream"):
            warehouse.load([*lines, state(1)], tables=tables)
        return
    warehouse.load([*lines, state(1)], tables=tables)
    found = [[row["name"] for row in warehouse.table(t, "id")] for t in warehouse.tables() if "sold" in t.lower()]
    assert sorted(found) == [["Orders"], ["orders"]]
