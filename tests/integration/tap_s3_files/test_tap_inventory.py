"""Objects listed by an S3 Inventory, as CSV and as Parquet; a bad inventory gives a one-line error."""

from __future__ import annotations

import csv
import gzip
import io
import json
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from program_errors import error_of
from tap_source import TapBucket

from local_cloud.programs import Programs, Ran

CSV_COLUMNS = ["Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate", "ETag"]
PARQUET = """message s3.inventory { required binary bucket (UTF8); required binary key (UTF8);
 optional binary version_id (UTF8); optional boolean is_latest; optional boolean is_delete_marker; optional int64 size;
 optional int64 last_modified_date (TIMESTAMP(MILLIS,true)); optional binary e_tag (UTF8); }"""


class Source(TapBucket):
    """A bucket, its inventory, and the tap that reads it."""

    def listed(self) -> list[dict[str, Any]]:
        """Return the inventory rows of the bucket's objects."""
        return [
            {
                "Bucket": self.bucket,
                "Key": o["Key"],
                "VersionId": "",
                "IsLatest": True,
                "IsDeleteMarker": False,
                "Size": o["Size"],
                "LastModifiedDate": o["LastModified"],
                "ETag": o["ETag"].strip('"'),
            }
            for o in self.s3.list_objects_v2(Bucket=self.bucket, Prefix="in/").get("Contents", [])
        ]

    def inventory(self, kind: str, rows: list[dict[str, Any]], name: str = "2024-05-01T00-00Z", **change: Any) -> str:
        """Write an inventory of two files; return the URL of its manifest."""
        files = []
        for number, some in enumerate((rows[::2], rows[1::2])):
            body = csv_file(some) if kind == "CSV" else parquet_file(some)
            files.append({"key": f"inventory/data/{name}-{number}", "size": len(body), "MD5checksum": "x"})
            self.put(files[-1]["key"] + (suffix := ".csv.gz" if kind == "CSV" else ".parquet"), body)
            files[-1]["key"] += suffix
        manifest = {
            "sourceBucket": self.bucket,
            "destinationBucket": f"arn:aws:s3:::{self.bucket}",
            "fileFormat": kind,
            "fileSchema": ", ".join(CSV_COLUMNS) if kind == "CSV" else PARQUET,
            "files": files,
            **change,
        }
        self.put(f"inventory/{name}/manifest.json", json.dumps(manifest))
        return f"s3://{self.bucket}/inventory/{name}/manifest.json"

    def run(self, manifest: str, **options: Any) -> Ran:
        config = {
            "streams": [{"name": "rows", "path": f"s3://{self.bucket}/in/**/*.csv", "schema": {"id": "integer"}}],
            "replication": {"method": "inventory", "manifest_url": manifest},
            "plan_root": f"s3://{self.bucket}/plan",
            "metadata_columns": False,
        }
        return self.tap("tap-s3-files", config=config, **options)


def csv_file(rows: list[dict[str, Any]]) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    for row in rows:
        at = row["LastModifiedDate"]
        when = at.strftime("%Y-%m-%dT%H:%M:%S.000Z") if isinstance(at, datetime) else ""
        flags = [str(row[name]).lower() for name in ("IsLatest", "IsDeleteMarker")]
        writer.writerow([row["Bucket"], quote_plus(row["Key"], safe="/"), "", *flags, row["Size"], when, row["ETag"]])
    return gzip.compress(out.getvalue().encode())


def parquet_file(rows: list[dict[str, Any]]) -> bytes:
    names = ["bucket", "key", "version_id", "is_latest", "is_delete_marker", "size", "last_modified_date", "e_tag"]
    columns = {
        new: [r[old] if r[old] != "" else None for r in rows] for old, new in zip(CSV_COLUMNS, names, strict=True)
    }
    types = [
        pa.string(),
        pa.string(),
        pa.string(),
        pa.bool_(),
        pa.bool_(),
        pa.int64(),
        pa.timestamp("ms", "UTC"),
        pa.string(),
    ]
    out = io.BytesIO()
    pq.write_table(pa.table(columns, schema=pa.schema(list(zip(names, types, strict=True)))), out)
    return out.getvalue()


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def ids(ran: Ran) -> list[int]:
    return sorted(m["record"]["id"] for m in ran.check().of_type("RECORD"))


@pytest.mark.parametrize("kind", ["CSV", "Parquet"])
def test_the_objects_of_an_inventory_are_read(kind: str, source: Source) -> None:
    for n, key in enumerate(["in/a.csv", "in/d/ä b+c%20.csv", "in/e.csv", "in/old.csv", "in/folder/"]):
        source.put(key, f"id\n{n}\n" if not key.endswith("/") else "")
    rows = source.listed()
    older = {**next(r for r in rows if r["Key"] == "in/old.csv"), "IsLatest": False}
    marker = {**rows[0], "Key": "in/gone.csv", "IsDeleteMarker": True, "Size": "", "ETag": ""}
    manifest = source.inventory(kind, [*(r for r in rows if r["Key"] != "in/old.csv"), older, marker])
    source.put("in/later.csv", "id\n99\n")
    first = source.run(manifest)
    assert ids(first) == [0, 1, 2]
    state = first.of_type("STATE")[-1]["value"]
    assert ids(source.run(manifest, state=state)) == []
    newer = source.inventory(kind, source.listed(), name="2024-05-02T00-00Z")
    assert 99 in ids(source.run(newer, state=state))


def test_the_newest_inventory_of_a_folder_counts(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    source.inventory("CSV", source.listed())
    source.put("in/b.csv", "id\n2\n")
    source.inventory("CSV", source.listed(), name="2024-05-02T00-00Z")
    assert ids(source.run(f"s3://{source.bucket}/inventory/")) == [1, 2]
    assert "No manifest.json is below" in error_of(source.run(f"s3://{source.bucket}/nothing/"))


def test_an_object_that_was_replaced_since_is_left_out_and_logged(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    source.put("in/b.csv", "id\n2\n")
    manifest = source.inventory("CSV", source.listed())
    source.put("in/b.csv", "id\n3\n")
    ran = source.run(manifest)
    assert ids(ran) in ([1], [1, 3])  # of the same second as the inventory's newest object, it is read at once
    assert f"s3://{source.bucket}/in/b.csv was replaced or deleted since it was listed" in ran.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"fileFormat": "ORC"},
            "its inventory is written in ORC. Configure the inventory to be written as Parquet or CSV",
        ),
        ({"fileSchema": "Bucket, Key, Size"}, "lacks Last modified, ETag of the objects. Add these fields"),
        ({"files": 5}, "it is no manifest of an S3 Inventory"),
        ({"files": [{"key": "inventory/none.csv.gz"}]}, "names a file that cannot be read"),
    ],
)
def test_an_inventory_that_cannot_be_used_is_an_error(change: dict[str, Any], words: str, source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    manifest = source.inventory("CSV", source.listed(), **change)
    line = error_of(source.run(manifest))
    assert words in line
    assert manifest in line


def test_an_object_that_is_no_manifest_is_an_error(source: Source) -> None:
    source.put("inventory/manifest.json", "no JSON")
    url = f"s3://{source.bucket}/inventory/manifest.json"
    assert error_of(source.run(url)).startswith(f"{url}: it is no manifest of an S3 Inventory")
    missing = f"s3://{source.bucket}/inventory/other.json"
    assert error_of(source.run(missing)) == f"{missing} does not exist"


def test_a_damaged_file_of_an_inventory_is_an_error(source: Source) -> None:
    source.put("in/a.csv", "id\n1\n")
    rows = source.listed()
    manifest = source.inventory("CSV", [{**rows[0], "Size": "many"}])
    line = error_of(source.run(manifest))
    assert "inventory/data/2024-05-01T00-00Z-0.csv.gz" in line
    assert "'many'" in line
