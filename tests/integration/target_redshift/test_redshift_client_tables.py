"""Schemas and tables that target-redshift creates and alters, against the local Redshift with faults."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from redshift_lines import ORDERS, Open

from local_cloud import Cloud
from singer_arrow.errors import ConfigError, SchemaError
from singer_arrow.naming import LEDGER, staging_name
from target_redshift import tables
from target_redshift.client import UNKNOWN_SLICES, Redshift
from target_redshift.resources import QueryResult
from target_redshift.types import ddl_type


class TestSchema:
    def test_it_is_made_with_its_ledger_by_many_at_once(self, open_client: Open, rs: Any, schema: str) -> None:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(tables.prepare_schema, [open_client(grants={"select": ["public"]}) for _ in range(6)]))
        found = open_client().table(LEDGER)
        assert found
        assert [c.name for c in found.columns] == ["batch_id", "stream", "rows", "loaded_at"]

    def test_those_to_whom_a_stream_is_granted_may_use_the_schema(
        self, open_client: Open, rs: Any, schema: str
    ) -> None:
        client = open_client(streams={"orders": {"grants": {"select": ["public"]}}})
        tables.prepare_schema(client)
        tables.prepare_table(client, "orders", ORDERS)
        tables.prepare_table(client, "others", ORDERS)
        text = (
            "SELECT has_schema_privilege('public', %s, 'usage'), has_table_privilege('public', %s, 'select'), "
            "has_table_privilege('public', %s, 'select')"
        )
        found = rs.execute(text, [schema, f"{schema}.orders", f"{schema}.others"]).fetchone()
        assert found == (True, True, False)

    def test_slices_are_asked_for_unless_they_are_set(self, open_client: Open, cloud: Cloud) -> None:
        assert open_client().slices() == 2
        assert open_client(slices=12).slices() == 12
        cloud.redshift_faults({"match": "stv_slices", "action": "error", "code": "42501", "message": "denied"})
        assert open_client().slices() == UNKNOWN_SLICES


class TestTables:
    def test_a_variant_that_another_run_adds_while_a_table_is_read_is_used(
        self, client: Redshift, open_client: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tables.prepare_table(client, "rows", pa.schema([("n", pa.int64())]))
        texts, other, ask = pa.schema([("n", pa.string())]), open_client(), client.query
        rest = ["the other run comes between the first query about the table and the second"]

        def query(text: str, params: Sequence[Any] = (), *, what: str) -> QueryResult:
            found = ask(text, params, what=what)
            if what.startswith("Reading table") and rest:
                rest.pop()
                tables.prepare_table(other, "rows", texts)
            return found

        monkeypatch.setattr(client, "query", query)
        (column,) = tables.prepare_table(client, "rows", texts).columns
        assert (column.name, rest) == ("n__string", [])
        found = open_client().table("rows")
        assert found
        assert [(c.name, c.variant_of) for c in found.columns] == [("n", None), ("n__string", "n")]

    def test_a_table_has_the_layout_of_the_settings(self, open_client: Open, rs: Any, schema: str) -> None:
        client = open_client(
            dist_key="ID", sort_keys={"Ord*": ["at", "id"]}, grants={"select": ["public"]}, varchar_max=100
        )
        tables.prepare_schema(client)
        made = tables.prepare_table(client, "Orders", ORDERS)
        assert made.name == "orders"
        assert [ddl_type(c) for c in made.columns] == ["BIGINT", "VARCHAR(100)", "TIMESTAMPTZ"]
        assert made.lengths == {"note": 100}
        assert client.layout("orders") == ("id", ["at", "id"])
        assert rs.execute("SELECT has_table_privilege('public', %s, 'select')", [f"{schema}.orders"]).fetchone() == (
            True,
        )

    def test_grants_to_missing_grantees(self, open_client: Open, client: Redshift) -> None:
        with pytest.raises(ConfigError, match="'?nobody_at_all.*does not exist; check the setting grants"):
            tables.prepare_table(open_client(grants={"select": ["nobody_at_all"]}), "orders", ORDERS)
        assert client.table("orders") is None

    def test_it_is_made_once_by_many_at_once(self, open_client: Open, client: Redshift) -> None:
        clients = [open_client() for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            made = list(pool.map(lambda c: tables.prepare_table(c, "orders", ORDERS), clients))
        assert {m.table.created for m in made} == {made[0].table.created}

    def test_streams_whose_names_collide_get_tables_of_their_own(self, client: Redshift) -> None:
        names = [tables.prepare_table(client, s, ORDERS).name for s in ("a-b", "a.b", "A_B", "a-b")]
        assert names[0] == names[3] == "a_b"
        assert len(set(names)) == 3

    def test_a_table_of_somebody_else_is_taken(self, client: Redshift) -> None:
        client.query(
            f"CREATE TABLE {client.quoted('orders')} (id BIGINT, more INTEGER DEFAULT 7 NOT NULL)", what="test"
        )
        made = tables.prepare_table(client, "orders", ORDERS)
        assert [c.name for c in made.table.columns] == ["id", "more", "note", "at"]
        assert [c.name for c in made.columns] == ["id", "note", "at"]

    def test_new_columns_are_added_by_many_at_once(self, open_client: Open, client: Redshift) -> None:
        tables.prepare_table(client, "orders", ORDERS)
        wider = ORDERS.append(pa.field("x", pa.float64())).append(pa.field("y", pa.list_(pa.int64())))
        clients = [open_client() for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(lambda c: tables.prepare_table(c, "orders", wider), clients))
        for one in made:
            assert [ddl_type(c) for c in one.table.columns][3:] == ["DOUBLE PRECISION", "SUPER"]

    def test_what_does_not_fit_is_named(self, client: Redshift) -> None:
        client.query(f"CREATE TABLE {client.quoted('orders')} (id INTEGER)", what="test")
        with pytest.raises(SchemaError, match=r"Table test_\w+\.orders: Column 'id' is of type INTEGER in the table"):
            tables.prepare_table(client, "orders", ORDERS, ["id"])
        assert "id__integer" in [c.name for c in tables.prepare_table(client, "orders", ORDERS).columns]
        client.query(f"CREATE TABLE {client.quoted('other')} (must BIGINT NOT NULL)", what="test")
        with pytest.raises(SchemaError, match="requires column 'must'"):
            tables.prepare_table(client, "other", ORDERS)

    def test_settings_that_name_no_column(self, open_client: Open, caplog: pytest.LogCaptureFixture) -> None:
        client = open_client(dist_key="nothing")
        tables.prepare_schema(client)
        tables.prepare_table(client, "orders", ORDERS)
        assert "has no column 'nothing', so dist_key does not apply" in caplog.text
        with pytest.raises(ConfigError, match="'sort_keys' names column 'nothing'"):
            tables.prepare_table(open_client(sort_keys={"a": ["nothing"]}), "a", ORDERS)
        nested = pa.schema([("s", pa.list_(pa.int64()))])
        with pytest.raises(ConfigError, match="which is SUPER"):
            tables.prepare_table(open_client(dist_key="s"), "b", nested)

    def test_tables_that_are_laid_out_otherwise(self, open_client: Open, caplog: pytest.LogCaptureFixture) -> None:
        first = open_client(dist_key="id", sort_keys=["at"])
        tables.prepare_schema(first)
        tables.prepare_table(first, "orders", ORDERS)
        tables.prepare_table(first, "orders", ORDERS)
        assert "applies to new tables alone" not in caplog.text
        tables.prepare_table(open_client(dist_key="note", sort_keys=["id", "at"]), "orders", ORDERS)
        assert "orders is distributed by id; dist_key applies to new tables alone" in caplog.text
        assert "orders is sorted by at; sort_keys applies to new tables alone" in caplog.text

    def test_keys_that_cannot_be_compared(self, client: Redshift) -> None:
        made = tables.prepare_table(client, "a", pa.schema([("s", pa.list_(pa.int64()))]))
        with pytest.raises(SchemaError, match="cannot be a key"):
            tables.check_keys(client, made, ["s"])

    def test_texts_get_wider_columns(self, open_client: Open, client: Redshift) -> None:
        made = tables.prepare_table(client, "orders", ORDERS)
        late, later = [tables.prepare_table(open_client(), "orders", ORDERS) for _ in range(2)]
        tables.widen(client, made, {"note": 300})
        tables.widen(client, made, {"note": 900})
        assert made.lengths == {"note": 1024}
        tables.widen(client, late, {"note": 300})  # another process has done it
        tables.widen(client, late, {"note": 65_535})
        tables.widen(client, later, {"note": 300})
        assert later.lengths == {"note": 65_535}
        table = client.table("orders")
        assert table
        assert str(table.columns[1]) == "VARCHAR(65535)"

    def test_leftovers_of_yesterday_are_removed(self, client: Redshift, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("old", "other"):
            client.query(f"CREATE TABLE {client.quoted(staging_name(name, 'x'))} (a INTEGER)", what="test")
        tables.remove_leftovers(client, "old")
        assert client.tables_named(staging_name("old"))
        later = client.now() + dt.timedelta(days=2)
        monkeypatch.setattr(client, "now", lambda: later)
        tables.remove_leftovers(client, "old")
        assert not client.tables_named(staging_name("old"))
        assert client.tables_named(staging_name("other"))
