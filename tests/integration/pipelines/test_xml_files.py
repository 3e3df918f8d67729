"""XML files, from the bucket into a table: nested and compressed, with new elements, and bad ones."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from documented import ROOT, block, run_script
from forked_programs import ForkedPrograms
from program_errors import check_contains
from tap_source import TapBucket
from warehouses import Warehouse

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran

pytestmark = pytest.mark.warehouses("redshift")  # it is about what is before the warehouse


class Feeds(TapBucket):
    """A bucket with XML files, and a pipeline that loads them."""

    folder: Path
    warehouse: Warehouse

    def feed(self, name: str, *entries: str) -> None:
        """Put a document, packed as its name has it."""
        data = f"<?xml version='1.0'?>\n<feed xmlns='urn:f'><title>t</title>{''.join(entries)}</feed>".encode()
        if name.endswith(".zip"):
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as file:
                file.writestr("in.xml", data)
            data = packed.getvalue()
        self.put(f"in/{name}", gzip.compress(data) if name.endswith(".gz") else data)

    def config(self, **stream: Any) -> dict[str, Any]:
        given = {"name": "rows", "path": f"s3://{self.bucket}/in/*", "xml": {"record_path": "feed/entry"}, **stream}
        storage = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        return {"streams": [given], "batch_config": storage}

    def run(self, **stream: Any) -> Ran:
        """Run the pipeline; its state is kept from run to run."""
        path, target = self.folder / "pipeline.yml", {"name": self.warehouse.program, "config": self.warehouse.config}
        tap = {"name": "tap-s3-files", "config": self.config(**stream)}
        path.write_text(yaml.safe_dump({"tap": tap, "target": target, "state": str(self.folder / "state.json")}))
        return self.tap("singer-arrow", "run", path)

    def refused(self, **stream: Any) -> str:
        """Return the one line that ends a run."""
        ran = self.run(**stream)
        assert ran.code == 1, ran.stderr
        assert "Traceback" not in ran.stderr
        return ran.stderr.splitlines()[-1]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        names = ", ".join(columns)
        return [tuple(row.values()) for row in self.warehouse.query(f"SELECT {names} FROM {{rows}} ORDER BY id")]


@pytest.fixture
def feeds(s3: Any, bucket: str, cloud: Cloud, warehouse: Warehouse, tmp_path: Path) -> Feeds:
    env = cloud.environ()
    env.pop("TARGET_BIGQUERY_DATASET")
    made = Feeds(s3, bucket, ForkedPrograms(env, tmp_path))
    made.folder, made.warehouse = tmp_path, warehouse
    made.feed("a.xml.gz", "<entry id='1'><n>5</n><tag>x</tag><tag>y</tag></entry>", "<entry id='2'><n>6</n></entry>")
    made.feed("b.xml.zip", "<entry id='3'><tag>z</tag><price currency='EUR'>1.50</price></entry>")
    return made


@pytest.mark.smoke("redshift")
def test_a_table_of_xml_files_from_run_to_run(feeds: Feeds) -> None:
    shown = feeds.tap("tap-s3-files", "--preview", config=feeds.config()).check().stdout
    check_contains(shown, "id", "tag", "price", "1.5")
    feeds.run().check()
    lineno = ("_sdc_source_lineno",)
    assert feeds.rows("id", "n", *lineno) == [(1, 5, 1), (2, 6, 2), (3, None, 1)]
    (tags, price) = feeds.rows("tag", "price")[2]
    assert (list(tags), dict(price)) == (["z"], {"currency": "EUR", "_text": 1.5})

    # An element that the table lacks, and one that is wider
    feeds.feed("c.xml", "<entry id='4'><n>7.5</n><note>new</note></entry>")
    feeds.run().check()
    assert [tuple(map(str, row)) for row in feeds.rows("id", "note")][-2:] == [("3", "None"), ("4", "new")]
    assert feeds.run().check().stderr.count("Loaded rows: 0 rows") == 1

    # Rows that do not fit, beside those that do
    feeds.feed("d.xml", "<entry id='5'/>", "<entry id='six'/>", "<entry id='7'/>")
    line = feeds.refused(schema={"id": "integer"}, on_bad_row="fail")
    check_contains(line, f"s3://{feeds.bucket}/in/d.xml, row 2, column 'id': 'six' is not an integer")
    feeds.run(schema={"id": "integer"}, on_bad_row="dead_letter").check()
    assert [row[0] for row in feeds.rows("id")] == [1, 2, 3, 4, 5, 7]
    (rejected,) = feeds.warehouse.table("_sdc_rejected", "1")
    assert json.loads(rejected["record"])["id"] == "six"


def test_other_documents_load_nothing(feeds: Feeds) -> None:
    feeds.run().check()
    feeds.feed("c.xml", "<entry id='4'/>")
    content = feeds.s3.get_object(Bucket=feeds.bucket, Key="in/c.xml")["Body"].read()
    feeds.put("in/c.xml", content[:-10])
    check_contains(feeds.refused(), f"s3://{feeds.bucket}/in/c.xml, line 2: it is truncated")
    feeds.put("in/c.xml", b"<!DOCTYPE feed SYSTEM 'http://127.0.0.1/x.dtd'>" + content[21:])
    check_contains(feeds.refused(), "in/c.xml, line 1: it has a document type (<!DOCTYPE>)")
    assert [row[0] for row in feeds.rows("id")] == [1, 2, 3]
    feeds.put("in/c.xml", content)
    feeds.run().check()
    assert [row[0] for row in feeds.rows("id")] == [1, 2, 3, 4]


def test_the_documented_example(run: Programs, tmp_path: Path) -> None:
    text = (ROOT / "docs/reading-files.md").read_text()
    shown = run_script(block(text, "sh", after="## XML"), run, tmp_path)
    check_contains(shown, '007     Sand    ["Ann", "Ben"]  {"currency": "EUR", "_text": 9.5}')
