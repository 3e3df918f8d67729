"""Partition columns from keys, in every kind of message, with and without a catalog."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest
from tap_source import TapBucket

from local_cloud.programs import Programs, Ran


class Source(TapBucket):
    """A bucket, and the tap that reads it."""

    def run(self, *, stream: dict[str, Any] | None = None, batches: bool = False, **more: Any) -> Ran:
        options = {k: more.pop(k) for k in ("catalog", "discover") if k in more}
        path = f"s3://{self.bucket}/in/**/*.csv"
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        config = {
            "streams": [{"name": "rows", "path": path, "partition_columns": True, **(stream or {})}],
            "metadata_columns": False,
            **({"batch_config": batch} if batches else {}),
            **more,
        }
        return self.tap("tap-s3-files", config=config, **options)

    def rows(self, ran: Ran) -> list[dict[str, Any]]:
        found = [m["record"] for m in ran.check().of_type("RECORD")]
        for url in (url for m in ran.of_type("BATCH") for url in m["manifest"]):
            body = self.s3.get_object(Bucket=self.bucket, Key=url.removeprefix(f"s3://{self.bucket}/"))["Body"].read()
            found += [json.loads(json.dumps(r, default=str)) for r in pq.read_table(io.BytesIO(body)).to_pylist()]
        return sorted(found, key=lambda r: r["id"])


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    made = Source(s3, bucket, tap)
    made.put("in/year=2024/month=05/day=2024-05-01/a.csv", "id\n1\n2\n")
    made.put("in/year=2023/month=12/day=__HIVE_DEFAULT_PARTITION__/b c.csv", "id\n3\n")
    return made


ROWS = [
    {"id": 1, "year": 2024, "month": "05", "day": "2024-05-01"},
    {"id": 2, "year": 2024, "month": "05", "day": "2024-05-01"},
    {"id": 3, "year": 2023, "month": "12", "day": None},
]


@pytest.mark.parametrize("batches", [True, False])
def test_folders_become_typed_columns(batches: bool, source: Source) -> None:
    ran = source.run(batches=batches)
    assert source.rows(ran) == ROWS
    columns = ran.of_type("SCHEMA")[0]["schema"]["properties"]
    assert [columns[n].get("format", columns[n]["type"][0]) for n in ROWS[0]] == [
        "integer",
        "integer",
        "string",
        "date",
    ]


def test_catalog_and_settings_select_partition_columns_and_their_types(source: Source) -> None:
    catalog = json.loads(source.run(discover=True).check().stdout)
    for place in catalog["streams"][0]["metadata"]:
        place["metadata"]["selected"] = place["breadcrumb"] in ([], ["properties", "id"], ["properties", "month"])
    assert source.rows(source.run(catalog=catalog)) == [{"id": r["id"], "month": r["month"]} for r in ROWS]
    typed = source.run(stream={"schema": {"month": "integer"}, "columns": ["id", "month"], "key_properties": ["month"]})
    assert source.rows(typed) == [{"id": r["id"], "month": int(str(r["month"]))} for r in ROWS]


def test_with_metadata_columns_and_in_files_that_have_the_column_themselves(source: Source) -> None:
    source.put("in/year=2022/c.csv", "id,year\n4,1\n")
    (row,) = [r for r in source.rows(source.run(metadata_columns=True)) if r["id"] == 4]
    assert (row["year"], row["month"], row["day"]) == (2022, None, None)
    assert (row["_sdc_source_file"], row["_sdc_source_lineno"]) == ("in/year=2022/c.csv", 1)


def test_without_the_setting_folders_are_no_columns(source: Source) -> None:
    assert source.rows(source.run(stream={"partition_columns": False})) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_folder_that_does_not_fit_the_schema_is_an_error(source: Source) -> None:
    source.put("in/year=soon/d.csv", "id\n5\n")
    ran = source.run(stream={"schema": {"year": "integer"}})
    assert ran.code == 1
    line = ran.stderr.splitlines()[-1]
    assert f"s3://{source.bucket}/in/year=soon/d.csv, column 'year': its key has 'soon', which is no int64" in line


def test_named_groups_of_paths_become_typed_columns_beside_folders(source: Source) -> None:
    source.put("shops/de/2024-05-01/k=1/a_07.csv", "id\n1\n2\n")
    source.put("shops/fr/2024-05-02/k=2/b_08.csv", "id\n3\n")
    source.put("shops/fr/2024-05-02/k=2/c_8.csv", "id\n4\n")
    root = f"s3://{source.bucket}/shops/"
    narrow = [
        f"{root}{{country:de,xx}}/{{day:*}}/*/*_{{part:??}}.csv",
        f"{root}f{{country:r}}/{{day:*}}/*/*_{{part:*}}.csv",
    ]
    ran = source.run(batches=True, stream={"path": narrow, "schema": {"part": "string"}, "key_properties": ["part"]})
    assert source.rows(ran) == [
        {"id": 1, "country": "de", "day": "2024-05-01", "part": "07", "k": 1},
        {"id": 2, "country": "de", "day": "2024-05-01", "part": "07", "k": 1},
        {"id": 3, "country": "r", "day": "2024-05-02", "part": "08", "k": 2},
        {"id": 4, "country": "r", "day": "2024-05-02", "part": "8", "k": 2},
    ]
    assert ran.of_type("SCHEMA")[0]["schema"]["properties"]["day"]["format"] == "date"


def test_named_wildcards_and_dates_in_one_path(source: Source) -> None:
    for day in (1, 2, 3):
        source.put(f"logs/2024/05/0{day}/web-{day}/x.csv", f"id\n{day}\n")
    stream = {"path": f"s3://{source.bucket}/logs/{{date:%Y/%m/%d}}/{{host:*}}/*", "partition_columns": False}
    ran = source.run(stream=stream, start_date="2024-05-02", end_date="2024-05-03")
    assert source.rows(ran) == [{"id": 2, "host": "web-2"}]
