"""Columns that the tap renames and hides, in tables of both warehouses that earlier runs have made."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import yaml
from documented import ROOT, block
from tap_source import Source, moment, state_of
from warehouses import Warehouse

from local_cloud.programs import Programs

LOAD_METHODS = (ROOT / "docs/load-methods.md").read_text()
SALT = {"HASH_SALT": "pepper of the test"}
COLUMNS = {"mail": {"from": "email", "hash": True}, "land": {"value": "de"}}


def hashed(text: str) -> str:
    return hashlib.sha256(f"{SALT['HASH_SALT']}{text}".encode()).hexdigest()


class Tables(Source):
    """A bucket whose rows are loaded into a warehouse."""

    warehouse: Warehouse
    state: Any = None

    def load(
        self, columns: dict[str, Any] | None, *, batches: bool, load_method: str, keys: list[str], **settings: Any
    ) -> str:
        stream = {"key_properties": keys, **({"columns": columns} if columns else {}), **settings.pop("stream", {})}
        root = {"batch_config": self.batches()} if batches else {}
        config = self.config(stream=stream, metadata_columns="stream_maps" in settings, **root)
        sent = self.run(config, env=SALT, **({"state": self.state} if self.state else {}))
        self.state = state_of(sent)
        config = self.warehouse.config | {"load_method": load_method} | settings
        ran = self.tap(self.warehouse.program, stdin=sent.stdout, config=config)
        return ran.check().stderr


@pytest.fixture
def tables(s3: Any, bucket: str, tap: Programs, warehouse: Warehouse) -> Tables:
    made = Tables(s3, bucket, tap)
    made.warehouse = warehouse
    made.put("in/a.csv", "id,email\n1,a@x\n2,b@x\n", at=moment(1))
    return made


@pytest.mark.parametrize("batches", [True, False])
def test_rows_of_before_keep_their_columns_and_new_ones_have_the_new(batches: bool, tables: Tables) -> None:
    tables.load(None, batches=batches, load_method="upsert", keys=["id"])
    tables.put("in/b.csv", "id,email\n2,b@y\n3,\n", at=moment(2))
    tables.load(COLUMNS, batches=batches, load_method="upsert", keys=["id"])
    rows = [(row["id"], row["email"], row["mail"], row["land"]) for row in tables.warehouse.table()]
    assert [(id_, mail, land) for id_, _, mail, land in rows] == [
        (1, None, None),
        (2, hashed("b@y"), "de"),
        (3, None, "de"),
    ]
    assert rows[0][1] == "a@x"


def test_another_name_of_a_key_property_is_a_line(tables: Tables) -> None:
    tables.load(None, batches=True, load_method="upsert", keys=["id"])
    tables.put("in/b.csv", "id,email\n2,b@y\n", at=moment(2))
    log = [
        tables.load({"number": {"from": "id"}}, batches=True, load_method="upsert", keys=["number"]) for _ in range(2)
    ]
    line = "key property 'number' has no column yet, so no row that is there is found by it"
    assert [line in text for text in log] == [True, False]
    assert sorted(row["email"] for row in tables.warehouse.table()) == ["a@x", "b@x", "b@y"]


@pytest.mark.parametrize("batches", [True, False])
def test_a_column_of_files_marks_rows_that_were_deleted(batches: bool, tables: Tables) -> None:
    columns = {"_sdc_deleted_at": {"from": "gone", "type": "timestamp"}}
    tables.put("in/b.csv", "id,email,gone\n2,b@x,\n3,c@x,\n", at=moment(2))
    tables.load(columns, batches=batches, load_method="upsert", keys=["id"], hard_delete=True)
    tables.put("in/c.csv", "id,email,gone\n2,b@x,2026-05-01T00:00:00Z\n4,d@x,\n", at=moment(3))
    tables.load(columns, batches=batches, load_method="upsert", keys=["id"], hard_delete=True)
    assert sorted(row["email"] for row in tables.warehouse.table()) == ["a@x", "c@x", "d@x"]


CHANGES = (
    "Op,id,email\nI,2,b@x\nI,3,c@x\nI,4,d@x\n",
    "Op,id,email\nD,2,b@x\nU,3,c@y\nD,4,d@x\nI,4,d@z\nI,5,e@x\nD,5,e@x\n",
)


def test_a_view_leaves_out_rows_whose_last_operation_is_a_deletion(tables: Tables) -> None:
    """The first file is one of a full load: it has no operation."""
    for number, rows in enumerate(CHANGES, 2):
        tables.load(None, batches=True, load_method="upsert", keys=["id"])
        tables.put(f"in/{number}.csv", rows, at=moment(number))
    tables.load(None, batches=True, load_method="upsert", keys=["id"])
    _, _, query = block(LOAD_METHODS, "sql", after="### An operation column").partition(" AS ")
    found = tables.warehouse.query(query.strip().replace("raw.orders", "{rows}"))
    assert sorted(row["email"] for row in found) == ["a@x", "c@y", "d@z"]
    assert len(tables.warehouse.table()) == 5


@pytest.mark.parametrize("batches", [True, False])
def test_a_map_makes_an_operation_column_delete_rows(batches: bool, tables: Tables) -> None:
    given = yaml.safe_load(block(LOAD_METHODS, "yaml", after="To have the target do it"))
    given["stream_maps"] = {"rows": given["stream_maps"]["orders"]}
    given["stream"] = {"schema": {"Op": "string"}}
    for number, rows in enumerate(CHANGES, 2):
        tables.load(None, batches=batches, keys=["id"], **given)
        tables.put(f"in/{number}.csv", rows, at=moment(number))
    tables.load(None, batches=batches, keys=["id"], **given)
    assert sorted(row["email"] for row in tables.warehouse.table()) == ["a@x", "c@y", "d@z"]
