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
        self.folder, self.source = folder, TapBucket(s3, bucket, self.programs)
        self.source.put("in/a.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
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


COLUMN_MAPS = [
    {"customer": "name", "name": None},
    {"name": None},
    {"copy": "id", "country": "'US'"},
    {"id": "id", "who": "name", "__else__": None},
]


@pytest.mark.parametrize("maps", COLUMN_MAPS, ids=str)
@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_maps_of_columns_keep_batches_and_give_the_same(maps: Any, format: str, mapped: Mapped) -> None:
    expected = mapped.rows({"rows": maps}, in_tap=True, table="rows")
    batches = {"encoding": {"format": format}, "storage": {"root": f"{mapped.folder}/stage"}}
    config = {"streams": mapped.streams, "metadata_columns": False, "stream_maps": {"r*": maps}}
    sent = mapped.programs("tap-s3-files", config=config | {"batch_config": batches}).check()
    kinds = [json.loads(line)["type"] for line in sent.stdout.splitlines()]
    assert "BATCH" in kinds
    assert "RECORD" not in kinds
    mapped.programs(mapped.warehouse.program, stdin=sent.stdout, config=mapped.warehouse.config).check()
    assert mapped.warehouse.table("rows") == expected


def test_another_map_makes_other_files_of_the_same_objects(mapped: Mapped) -> None:
    """Two columns that change their names have the same names and types before and after."""
    config = {
        "streams": [{**mapped.streams[0], "schema": {"id": "string", "name": "string"}}],
        "metadata_columns": False,
        "batch_config": {"encoding": {"format": "jsonl"}, "storage": {"root": f"{mapped.folder}/stage"}},
    }
    found = []
    for key, definition in (("a", {"a": "id", "b": "name"}), ("b", {"a": "name", "b": "id"})):
        maps = {"rows": {**definition, "id": None, "name": None}}
        sent = mapped.programs("tap-s3-files", config=config | {"stream_maps": maps}).check()
        mapped.programs(mapped.warehouse.program, stdin=sent.stdout, config=mapped.warehouse.config).check()
        found.append(mapped.warehouse.table("rows", order=key))
        mapped.warehouse.query("DROP TABLE {rows}")
        mapped.warehouse.query("DROP TABLE {_sdc_batches}")
    assert found[0] == [{"a": str(row["id"]), "b": row["name"]} for row in ROWS]
    assert found[1] == [{"a": row["name"], "b": str(row["id"])} for row in ROWS]


def test_a_new_column_of_a_file_reaches_batches_behind_a_map(mapped: Mapped) -> None:
    config = {
        "streams": mapped.streams,
        "metadata_columns": False,
        "stream_maps": {"rows": {"customer": "name", "name": None}},
        "batch_config": {"encoding": {"format": "parquet"}, "storage": {"root": f"{mapped.folder}/stage"}},
    }
    catalog = mapped.programs("tap-s3-files", "--discover", config=config).check().stdout
    (mapped.folder / "catalog.json").write_text(catalog)
    mapped.source.put("in/b.jsonl", json.dumps({"id": 3, "name": "c", "more": 5}) + "\n")
    arguments = "--catalog", str(mapped.folder / "catalog.json")
    sent = mapped.programs("tap-s3-files", *arguments, config=config).check()
    mapped.programs(mapped.warehouse.program, stdin=sent.stdout, config=mapped.warehouse.config).check()
    assert [row["more"] for row in mapped.warehouse.table("rows")] == [None, None, 5]

    mapped.source.put("in/c.jsonl", json.dumps({"id": 4, "name": "c", "customer": "d"}) + "\n")
    error = error_of(mapped.programs("tap-s3-files", *arguments, config=config))
    assert "Stream 'rows': stream_maps makes a column 'customer', and now a file has one; give it a name" in error
