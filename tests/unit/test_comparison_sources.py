"""Pages about other tools name the source of each cell, and no source was read long ago."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import comparison_sources
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("compare-taps.md", "compare-targets.md", "instead-of.md")
LABEL = re.compile(r"\[([a-z]\d+)\]")


def test_no_source_was_read_long_ago() -> None:
    today = datetime.datetime.now(tz=datetime.UTC).date()
    assert comparison_sources.outdated(today, comparison_sources.sources()) == []


def test_a_source_is_outdated_after_180_days() -> None:
    listed = comparison_sources.sources()[:1]
    last = listed[0]["read"] + datetime.timedelta(days=180)
    assert comparison_sources.outdated(last, listed) == []
    [line] = comparison_sources.outdated(last + datetime.timedelta(days=1), listed)
    assert line.startswith("compare-taps.md: Airbyte's CDK was read on ")
    assert "again" in line
    assert "docs/comparison_sources.toml" in line


@pytest.mark.parametrize("page", PAGES)
def test_each_letter_of_a_cell_has_a_source_and_each_source_a_cell(page: str) -> None:
    cells, _, ours = (DOCS / page).read_text().partition("## Sources")
    own = ours.partition(comparison_sources.BEGIN)[0]
    listed = [label for s in comparison_sources.sources() if s["page"] == page for label in s["files"]]
    assert len(listed) == len(set(listed))
    assert set(LABEL.findall(cells)) == set(listed) | set(LABEL.findall(own))


@pytest.mark.parametrize("page", PAGES)
def test_tables_have_as_many_cells_in_each_row(page: str) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", (DOCS / page).read_text(), re.MULTILINE):
        assert len({line.count(" | ") for line in table.splitlines() if not line.startswith("|---")}) == 1, table


@pytest.mark.parametrize("page", PAGES)
def test_no_cell_is_left_unchecked(page: str) -> None:
    assert "not checked" not in (DOCS / page).read_text()
