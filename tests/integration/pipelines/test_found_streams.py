"""Streams found in the bucket, from run to run: folders that appear, go, are renamed; names that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_programs import ForkedPrograms
from program_errors import error_of
from tap_source import TapBucket
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Ran

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse

NAME, PATH = "{tenant}_{kind}", "lake/{tenant}/{kind}/**/*.csv"


class Lake(TapBucket):
    """A bucket with folders of tenants, and a pipeline that loads them."""

    folder: Path
    warehouse: Warehouse

    def csv(self, folder: str, *ids: int, name: str = "a.csv") -> None:
        self.put(f"{folder}/{name}", "id,name\n" + "".join(f"{n},{folder}\n" for n in ids))

    def remove(self, folder: str) -> None:
        for found in self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"{folder}/").get("Contents", ()):
            self.s3.delete_object(Bucket=self.bucket, Key=found["Key"])

    def config(self, *streams: tuple[str, str], **more: Any) -> dict[str, Any]:
        given = [{"name": n, "path": f"s3://{self.bucket}/{path}"} for n, path in streams or ((NAME, PATH),)]
        storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        return {"streams": given, "batch_config": storage, "metadata_columns": False, **more}

    def run(self, *streams: tuple[str, str], **more: Any) -> Ran:
        """Run the pipeline; its state is kept from run to run."""
        path, target = self.folder / "pipeline.yml", {"name": self.warehouse.program, "config": self.warehouse.config}
        tap = {"name": "tap-s3-files", "config": self.config(*streams, **more)}
        path.write_text(yaml.safe_dump({"tap": tap, "target": target, "state": str(self.folder / "state.json")}))
        return self.tap("singer-arrow", "run", path)

    def refused(self, *streams: tuple[str, str]) -> str:
        return error_of(self.tap("tap-s3-files", config=self.config(*streams)))

    def tables(self) -> dict[str, list[int]]:
        return {
            name: [row["id"] for row in self.warehouse.table(name)]
            for name in sorted(self.warehouse.tables())
            if not name.startswith("_sdc_")
        }

    @property
    def bookmarks(self) -> list[str]:
        return sorted(json.loads((self.folder / "state.json").read_text())["bookmarks"])


@pytest.fixture
def lake(s3: Any, bucket: str, cloud: Cloud, warehouse: Warehouse, tmp_path: Path) -> Lake:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    made = Lake(s3, bucket, ForkedPrograms(env, tmp_path))
    made.folder, made.warehouse = tmp_path, warehouse
    made.csv("lake/acme/orders", 1, 2)
    made.csv("lake/globex/orders/2024", 3)
    made.csv("lake/acme/users", 4)
    return made


FIRST = {"acme_orders": [1, 2], "acme_users": [4], "globex_orders": [3]}


def test_folders_appear_go_and_come_back(lake: Lake) -> None:
    lake.run().check()
    assert lake.tables() == FIRST

    lake.csv("lake/initech/orders", 5)
    lake.csv("lake/acme/orders", 6, name="b.csv")
    lake.run().check()
    assert lake.tables() == FIRST | {"acme_orders": [1, 2, 6], "initech_orders": [5]}

    lake.remove("lake/globex/orders")
    ran = lake.run().check()
    assert "The STATE of 1 stream without a folder is kept: globex_orders" in ran.stderr
    assert lake.bookmarks == ["acme_orders", "acme_users", "globex_orders", "initech_orders"]
    lake.csv("lake/globex/orders", 7)
    lake.run().check()
    assert lake.tables()["globex_orders"] == [3, 7]

    for key in ("lake/acme", "lake/globex", "lake/initech"):
        lake.remove(key)
    assert "Stream '{tenant}_{kind}': 0 folders" in lake.run().check().stderr
    assert len(lake.bookmarks) == 4


def test_a_renamed_folder_and_a_renamed_pattern_are_new_tables(lake: Lake) -> None:
    lake.run().check()
    lake.remove("lake/globex/orders")
    lake.csv("lake/hooli/orders", 3)
    lake.run().check()
    assert lake.tables() == FIRST | {"hooli_orders": [3]}

    renamed = ("{kind}_of_{tenant}", PATH)
    for _ in range(2):
        ran = lake.run(renamed).check()
        assert "The STATE of " in ran.stderr
        assert lake.tables() == FIRST | {
            "hooli_orders": [3], "orders_of_acme": [1, 2], "orders_of_hooli": [3], "users_of_acme": [4]
        }  # fmt: skip
    lake.csv("lake/acme/users", 8, name="b.csv")
    lake.run().check()  # the names of before continue where they were
    assert lake.tables()["acme_users"] == [4, 8]


def test_a_stream_of_several_folders_and_two_patterns_for_one_folder(lake: Lake) -> None:
    streams = (("{kind}", PATH), ("{tenant}", "lake/{tenant}/*/*.csv"))
    lake.run(*streams).check()
    lake.csv("lake/initech/orders", 5)
    lake.run(*streams).check()
    assert lake.tables() == {"acme": [1, 2, 4], "initech": [5], "orders": [1, 2, 3, 5], "users": [4]}
    error = lake.refused((NAME, PATH), ("{a}_{b}", "lake/{a}/{b}/*.csv"))
    assert "lake/acme/orders/**/*.csv and " in error
    assert "lake/acme/orders/*.csv are both of a stream 'acme_orders'" in error


def test_folders_of_one_name_are_one_line_that_has_both(lake: Lake) -> None:
    lake.csv("lake/acme/old_orders", 1)
    lake.csv("lake/acme_old/orders", 2)
    error = lake.refused()
    assert "lake/acme/old_orders/**/*.csv and " in error
    assert "lake/acme_old/orders/**/*.csv are both of a stream 'acme_old_orders'" in error


def test_a_catalog_selects_folders_that_it_lacks(lake: Lake) -> None:
    def entries() -> dict[str, Any]:
        found = lake.tap("tap-s3-files", config=lake.config(), discover=True).check()
        return {entry["tap_stream_id"]: entry for entry in json.loads(found.stdout)["streams"]}

    def select(entry: dict[str, Any], *, selected: bool, column: str | None = None) -> None:
        place = [] if column is None else ["properties", column]
        next(m for m in entry["metadata"] if m["breadcrumb"] == place)["metadata"]["selected"] = selected

    def columns(catalog: dict[str, Any]) -> dict[str, list[str]]:
        ran = lake.tap("tap-s3-files", config=lake.config(), catalog={"streams": list(catalog.values())}).check()
        assert "{tenant}" not in ran.stdout
        return {m["stream"]: list(m["schema"]["properties"]) for m in ran.of_type("SCHEMA")}

    catalog = entries()
    assert list(catalog) == ["acme_orders", "acme_users", "globex_orders", NAME]
    lake.csv("lake/hooli/users", 9)
    select(catalog["acme_orders"], selected=False)
    both = ["id", "name"]
    assert columns(catalog) == {"acme_users": both, "globex_orders": both, "hooli_users": both}
    select(catalog[NAME], selected=False, column="name")
    assert columns(catalog) == {"acme_users": both, "globex_orders": both, "hooli_users": ["id"]}
    select(catalog[NAME], selected=False)
    assert columns(catalog) == {"acme_users": both, "globex_orders": both}
    del catalog[NAME]
    assert columns(catalog) == {"acme_users": both, "globex_orders": both, "hooli_users": both}


def test_what_is_shown_and_what_is_no_folder_of_the_pattern(lake: Lake) -> None:
    lake.put("lake/acme/notes/a.txt", "no table")
    lake.put("lake/[x], {y}/orders/a.csv", "id\n1\n")
    lake.put("lake/a*[b], c/orders/a.csv", "id\n1\n")
    ran = lake.tap("tap-s3-files", "--preview", "1", config=lake.config()).check()
    assert "Stream '{tenant}_{kind}': 5 folders, of which the first 3 are shown" in ran.stderr
    assert [line.partition(":")[0] for line in ran.stdout.splitlines() if "row shown" in line][1:] == ["acme_orders"]
    assert "[x], {y} of " in ran.stderr
    planned = lake.tap("tap-s3-files", "--plan", config=lake.config()).check().stdout
    assert [line.split("  ")[0].strip() for line in planned.splitlines()[1:-1]] == [
        "a*[b], c_orders", "acme_notes", "acme_orders", "acme_users", "globex_orders"
    ]  # fmt: skip
    ran = lake.run().check()
    assert "acme/notes/**/*.csv has no object of stream '{tenant}_{kind}'" in ran.stderr
    assert sorted(lake.tables().values()) == [[1], [1, 2], [3], [4]]
    assert "no object matches" in lake.refused((NAME, "nowhere/{tenant}/{kind}/*.csv"))


def test_groups_are_columns_and_placeholders_are_none(lake: Lake) -> None:
    lake.put("eu/tenant=acme/kind-orders/a.csv", "id\n1\n")
    lake.put("us/tenant=acme/kind-orders/a.csv", "id\n2\n")
    lake.put("us/tenant=test/kind-orders/a.csv", "id\n3\n")
    stream = ("{tenant}_{kind}", "{region:*}/tenant={tenant:a*}/kind-{kind}/*.csv")
    lake.run(stream).check()
    found = [(row["id"], row["region"], row["tenant"]) for row in lake.warehouse.table("acme_orders")]
    assert (found, list(lake.tables())) == ([(1, "eu", "acme"), (2, "us", "acme")], ["acme_orders"])
    assert list(lake.warehouse.columns("acme_orders"))[:3] == ["id", "region", "tenant"]
    lake.put("asia/tenant=acme/kind-orders/a.csv", "id\n4\n")
    lake.run(stream).check()
    assert lake.tables() == {"acme_orders": [1, 2, 4]}


class TestManyFolders:
    """Objects with long names make STATE as large as many more folders would."""

    COUNT = 40

    def tables(self, count: int = COUNT) -> dict[str, list[int]]:
        return {f"t{n:02}_k": [n] for n in range(count)}

    def put(self, lake: Lake, count: int = COUNT) -> None:
        for folder in ("lake/acme", "lake/globex"):
            lake.remove(folder)
        for n in range(count):
            lake.csv(f"lake/t{n:02}/k", n, name=f"{'a' * 900}.csv")

    def sent(self, lake: Lake, **options: Any) -> list[str]:
        return lake.tap("tap-s3-files", config=lake.config(), **options).check().stdout.splitlines(keepends=True)

    @pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)  # of which this test uses none
    def test_states_do_not_grow_with_the_square_of_the_folders(self, lake: Lake) -> None:
        self.put(lake)
        states = [json.loads(line) for line in self.sent(lake) if '"type":"STATE"' in line]
        names = [m["end_of_stream"] for m in states if "end_of_stream" in m]
        ended = [name for some in names for name in ([some] if isinstance(some, str) else some)]
        assert ended == list(states[-1]["value"]["bookmarks"]) == list(self.tables())
        assert len(states) < 2 * self.COUNT, "each stream has three, as long as they are small"
        given = self.sent(lake, state=states[-1]["value"])
        assert [m["type"] for m in map(json.loads, given) if m["type"] in ("BATCH", "RECORD")] == []
        assert json.loads(given[-1])["value"] == states[-1]["value"]

    @pytest.mark.parametrize(
        ("warehouse", "share"), [("bigquery", 0.6), ("redshift", 0.3), ("redshift", 0.9)], indirect=["warehouse"]
    )
    def test_a_tap_that_is_killed_between_two_states(self, share: float, lake: Lake) -> None:
        self.put(lake)
        states: list[Any] = []
        lines = self.sent(lake)
        lake.warehouse.load("".join(lines[: int(share * len(lines))]), on_state=states.append)
        lake.csv("lake/t00/k", 100)
        lake.warehouse.load("".join(self.sent(lake, **({"state": states[-1]} if states else {}))))
        assert lake.tables() == self.tables() | {"t00_k": [0, 100]}

    def test_a_folder_that_fails_keeps_its_table_alone(self, lake: Lake) -> None:
        whole = {"load_method": "overwrite", "replication_method": "FULL_TABLE"}
        count = 8
        self.put(lake, count)
        lake.run(defaults=whole).check()
        assert lake.tables() == self.tables(count)
        for n in range(count):
            lake.csv(f"lake/t{n:02}/k", n + 100, name="b.csv")
        lake.put("lake/t05/k/c.csv", "id,name\n1,2,3\n")
        ran = lake.run(defaults=whole)
        assert (ran.code, "lake/t05/k/c.csv, line 2" in ran.stderr) == (1, True)
        replaced = {name: [*ids, ids[0] + 100] for name, ids in self.tables(count).items()}
        assert lake.tables() == replaced | {"t05_k": [5]}
        lake.put("lake/t05/k/c.csv", "id,name\n500,b\n")
        lake.run(defaults=whole).check()
        assert lake.tables() == replaced | {"t05_k": [5, 105, 500]}
