"""Stream maps of the SDK give the same rows in the tap and in the targets."""

from __future__ import annotations

import json
from hashlib import md5, sha256
from pathlib import Path
from typing import Any

import pytest
from forked_programs import ForkedPrograms
from program_errors import error_of
from tap_source import TapBucket
from warehouses import Warehouse

from local_cloud import Cloud

ROWS = [{"id": 1, "name": "Zoë"}, {"id": 2, "name": None}]


class Mapped:
    """A stream of two rows, mapped by the tap or by the target."""

    def __init__(self, s3: Any, bucket: str, cloud: Cloud, folder: Path, warehouse: Warehouse) -> None:
        self.programs, self.warehouse = ForkedPrograms(cloud.environ(), folder), warehouse
        TapBucket(s3, bucket, self.programs).put("in/a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
        self.streams = [{"name": "rows", "path": f"s3://{bucket}/in/*.jsonl"}]

    def rows(self, maps: Any, *, in_tap: bool, table: str) -> list[dict[str, Any]]:
        config = {"streams": self.streams, "metadata_columns": False, **({"stream_maps": maps} if in_tap else {})}
        sent = self.programs("tap-s3-files", config=config).check()
        config = self.warehouse.config | ({} if in_tap else {"stream_maps": maps})
        self.programs(self.warehouse.program, stdin=sent.stdout, config=config).check()
        found = self.warehouse.table(table)
        self.warehouse.query("DROP TABLE {" + table + "}")
        return found


@pytest.fixture
def mapped(s3: Any, bucket: str, cloud: Cloud, tmp_path: Path, warehouse: Warehouse) -> Mapped:
    return Mapped(s3, bucket, cloud, tmp_path, warehouse)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({"customer": "name", "name": None}, [{"customer": "Zoë"}, {"customer": None}]),
        ({"customer": "record['name']", "name": None}, [{"customer": "Zoë"}, {"customer": None}]),
        (
            {"hash": "md5(name)", "other": "sha256(_['name'])", "name": None},
            [
                {"hash": md5("Zoë".encode()).hexdigest(), "other": sha256("Zoë".encode()).hexdigest()},
                {"hash": None, "other": None},
            ],
        ),
    ],
    ids=["renamed", "by record", "hashes of null"],
)
@pytest.mark.parametrize("in_tap", [True, False], ids=["tap", "target"])
def test_a_map_gives_the_same(in_tap: bool, definition: Any, expected: Any, mapped: Mapped) -> None:
    found = mapped.rows({"rows": definition}, in_tap=in_tap, table="rows")
    assert found == [{"id": row["id"], **more} for row, more in zip(ROWS, expected, strict=True)]


@pytest.mark.parametrize("in_tap", [True, False], ids=["tap", "target"])
def test_a_second_stream_of_the_same_source_has_what_the_first_leaves_out(in_tap: bool, mapped: Mapped) -> None:
    maps = {"rows": {"name": None}, "others": {"__source__": "rows"}}
    assert mapped.rows(maps, in_tap=in_tap, table="others") == ROWS


@pytest.mark.parametrize("expression", ["name + 'x'", "record['nme']", "nme", "name.strip()"])
def test_an_expression_that_fails_is_one_line(expression: str, mapped: Mapped) -> None:
    maps = {"rows": {"new": expression}}
    config: dict[str, Any] = {"streams": mapped.streams}
    reason = f"Stream 'rows': the expression {expression!r} of stream_maps fails: "
    assert reason in error_of(mapped.programs("tap-s3-files", config=config | {"stream_maps": maps}))
    sent = mapped.programs("tap-s3-files", config=config).check()
    settings = mapped.warehouse.config | {"stream_maps": maps}
    assert reason in error_of(mapped.programs(mapped.warehouse.program, stdin=sent.stdout, config=settings))
