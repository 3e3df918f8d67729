"""Captured output of public taps arrives in both warehouses with the values of its source."""

from __future__ import annotations

from pathlib import Path

import pytest
from interoperation import page
from interoperation.captures import Capture, captures
from interoperation.loading import REFUSED, SAME
from interoperation.values import differences
from warehouses import Warehouse

from singer_arrow.errors import SingerArrowError

NOT_AS_ITS_SCHEMA = {
    "meltanolabs-tap-postgres-batch-parquet": "column 'raw': b'\\x00\\xff' is not text",
    "meltanolabs-tap-snowflake-batch-arrow": "column 'big': 9223372036854775807 is not a number that",
}
"""Captures with a column that their SCHEMA declares as another type, and why a value of it is refused."""


def parameters() -> list[object]:
    """Return a test parameter for each capture."""
    return [pytest.param(c, id=c.name) for c in captures()]


def load(capture: Capture, warehouse: Warehouse, folder: Path) -> str:
    """Load a capture, and return the result in the form of docs/interoperation.md."""
    try:
        warehouse.load(capture.messages(folder).decode())
    except SingerArrowError as error:
        return f"{REFUSED}{error}"
    found = warehouse.run(f"SELECT * FROM {warehouse.quoted(capture.facts.table)}")
    return differences(capture.expected(), found, capture.facts.key) or SAME


@pytest.mark.parametrize("capture", parameters())
def test_arrives(capture: Capture, warehouse: Warehouse, tmp_path: Path) -> None:
    result = load(capture, warehouse, tmp_path)

    if reason := NOT_AS_ITS_SCHEMA.get(capture.name):
        assert result.startswith(REFUSED)
        assert reason in result
    else:
        assert result == SAME
    on_page = page.read_found()["taps"][capture.name][warehouse.name]
    assert on_page.partition(":")[0] == result.partition(":")[0], "run `make interoperation` again"


def test_the_page_has_what_was_found() -> None:
    assert page.PAGE.read_text() == page.text(), "run `make interoperation` again"


def test_there_are_enough() -> None:
    found = page.read_found()
    taps = {capture.facts.tap for capture in captures()}
    assert len(taps) >= 12
    assert set(found["taps"]) == {capture.name for capture in captures()}
    same = [name for name, kinds in found["targets"].items() if set(kinds.values()) == {SAME}]
    assert len(same) >= 6
