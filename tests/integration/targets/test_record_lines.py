"""RECORD lines through the targets' executables; the rows before an invalid line are loaded."""

from __future__ import annotations

import json

import pytest
from program_errors import check_contains, error_of
from singer_lines import Batches, lines, record, schema, state
from warehouses import Warehouse

from local_cloud.programs import Programs


def test_rows_before_a_bad_line_arrive(warehouse: Warehouse, run: Programs) -> None:
    good = [schema(), *(record(id=n, name=f"name {n}") for n in range(500)), state(1)]
    bad = [record(id=500, name="last"), record(id="x", name="bad"), record(id=502, name="after"), state(2)]
    ran = run(warehouse.program, stdin=lines([*good, *bad]), config=["ENV", {}])
    check_contains(
        error_of(ran), "Line 504 of the input", "'rows'", "column 'id'", "'x' is not of type 'integer'", "tap"
    )
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [{"n": 1}]
    assert warehouse.one("SELECT COUNT(*), MIN(id), MAX(id) FROM {rows}") == (501, 0, 500)


def test_a_first_line_that_is_null(warehouse: Warehouse, run: Programs) -> None:
    ran = run(warehouse.program, stdin="null\n" + lines([schema()]), config=["ENV", {}])
    check_contains(error_of(ran), "Line 1 of the input", "no Singer message", "null")
    assert ran.stdout == ""


@pytest.mark.smoke("bigquery", "redshift")
def test_a_record_and_its_twin_in_a_batch_are_the_same_row(warehouse: Warehouse, batch: Batches) -> None:
    content = [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "é\U0001f600"}]
    warehouse.load([schema(), *(record(**values) for values in content)])
    warehouse.load([schema("twins"), batch(content, stream="twins")])
    assert warehouse.table() == warehouse.table("twins") == content
