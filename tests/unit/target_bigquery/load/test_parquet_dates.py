"""Files whose footers prove that their dates are valid are not read to check them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from target_bigquery.columns import columns_of
from target_bigquery.conversion import columns_to_check, has_bad_dates

MOMENT = pa.timestamp("us", "UTC")
LAST = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""
SCHEMA = pa.schema([("at", MOMENT), ("day", pa.date32()), ("tags", pa.list_(pa.string()))])


def to_read(path: Path, rows: dict[str, list[object]], *, statistics: bool = True) -> list[str]:
    pq.write_table(pa.table(rows, SCHEMA), path, write_statistics=statistics, row_group_size=1)
    footer = pq.read_metadata(path)
    found = [c.name for c in columns_to_check(footer, columns_of(SCHEMA))]
    assert has_bad_dates(footer) == (statistics and bool({"at", "day"} & {*found}))
    return found


@pytest.mark.parametrize(
    ("at", "day", "names"),
    [
        ([0, LAST], [0, 2_932_896], []),
        ([0, LAST + 1], [0, 1], ["at"]),
        ([0, 1], [2_932_897, 0], ["day"]),
        ([None, None], [None, -719_162], []),
        ([-62_135_596_800_000_001, 0], [-719_163, 0], ["at", "day"]),
    ],
)
def test_only_what_the_footer_leaves_open_is_read(
    at: list[int | None], day: list[int | None], names: list[str], tmp_path: Path
) -> None:
    rows: dict[str, list[object]] = {"at": [*at], "day": [*day], "tags": [["a"], None]}
    assert to_read(tmp_path / "a.parquet", rows) == [*names, "tags"]


def test_without_statistics_or_rows(tmp_path: Path) -> None:
    rows: dict[str, list[object]] = {"at": [0], "day": [0], "tags": [[]]}
    assert to_read(tmp_path / "a.parquet", rows, statistics=False) == ["at", "day", "tags"]
    assert to_read(tmp_path / "b.parquet", {"at": [], "day": [], "tags": []}) == []
