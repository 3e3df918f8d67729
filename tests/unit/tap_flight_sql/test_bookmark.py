"""The STATE of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from singer_arrow.errors import ConfigError
from tap_flight_sql.settings import Bookmark

merge = pytest.importorskip("meltano.core.utils", reason="Meltano is not beside the oldest versions").merge


@pytest.mark.parametrize("mark", [Bookmark(), Bookmark(5, 1), Bookmark("2024-05-01", 12), Bookmark("", 3)], ids=str)
def test_what_is_written_is_read_also_if_it_was_merged(mark: Bookmark) -> None:
    former = Bookmark("2024-04-30", 7, "log", "batch").to_state("id")
    assert Bookmark.from_state(mark.to_state("id"), "rows", "id") == mark
    assert Bookmark.from_state(merge(mark.to_state("id"), former), "rows", "id") == mark


def test_the_start_of_a_stream_fits_any_replication_key() -> None:
    assert Bookmark.from_state(Bookmark().to_state(""), "rows", "id") == Bookmark()


def test_no_state_is_the_beginning() -> None:
    assert Bookmark.from_state({}, "rows", "id") == Bookmark()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"replication_key": "at", "replication_key_value": 1}, "of the replication key 'at', and the setting is 'id'"),
        ({"replication_key": "id", "window": -1}, "not one that this tap wrote"),
        ({"replication_key": "id", "window": "1"}, "not one that this tap wrote"),
        ({"replication_key": "id", "replication_key_value": []}, "not one that this tap wrote"),
    ],
)
def test_other_states(state: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Bookmark.from_state(state, "rows", "id")
