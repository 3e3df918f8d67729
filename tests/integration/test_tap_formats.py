"""Each format and compression that the tap reads, from S3 to RECORD and BATCH, and what it says of bad files."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from local_cloud import Cloud
from local_cloud.programs import Programs, Ran

TABLE = pa.table({"id": range(1, 5001), "name": [f"née {n}" for n in range(1, 5001)]})


class Source:
    """A bucket, and the tap over what is put there."""

    def __init__(self, s3: Any, bucket: str, tap: Programs) -> None:
        self.s3, self.bucket, self.tap = s3, bucket, tap

    def put(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def run(self, *, batches: bool = False, discover: bool = False, **stream: Any) -> Ran:
        """Run the tap over the folder `in`, without metadata columns."""
        given = {"name": "rows", "path": f"s3://{self.bucket}/in/*", **stream}
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        config = {"streams": [given], "metadata_columns": False, **({"batch_config": batch} if batches else {})}
        return self.tap("tap-s3-files", config=config, discover=discover)

    def records(self, **stream: Any) -> list[dict[str, Any]]:
        return [m["record"] for m in self.run(**stream).check().of_type("RECORD")]

    def error(self, **stream: Any) -> str:
        """The one line that a failed run says."""
        ran = self.run(**stream)
        assert ran.code == 1, ran.stderr
        assert "Traceback" not in ran.stderr
        errors = [line for line in ran.stderr.splitlines() if "| ERROR " in line or " | " not in line]
        assert len(errors) == 1, ran.stderr
        return errors[0].split(" | ", 3)[-1]

    def batch_rows(self, **stream: Any) -> pa.Table:
        """The rows of the batch files of a run."""
        urls = [u for m in self.run(batches=True, **stream).check().of_type("BATCH") for u in m["manifest"]]
        read = [self.s3.get_object(Bucket=self.bucket, Key=u.split("/", 3)[3])["Body"].read() for u in urls]
        return pa.concat_tables(pq.read_table(io.BytesIO(data)) for data in read)


@pytest.fixture
def source(cloud: Cloud, s3: Any, bucket: str, tmp_path: Path) -> Source:
    return Source(s3, bucket, Programs(cloud.environ(), tmp_path))


def as_orc(table: pa.Table) -> bytes:
    out = io.BytesIO()
    orc.write_table(table, out)
    return out.getvalue()


def as_stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def as_feather(table: pa.Table) -> bytes:
    out = io.BytesIO()
    feather.write_feather(table, out)
    return out.getvalue()


# Formats of columns -------------------------------------------------------------------------------------------------

COLUMNAR = {"a.orc": as_orc, "a.arrow": as_feather, "a.feather": as_feather, "a.arrows": as_stream}


@pytest.mark.parametrize("name", COLUMNAR)
def test_formats_of_columns(name: str, source: Source) -> None:
    source.put(f"in/{name}", COLUMNAR[name](TABLE))
    assert source.records() == TABLE.to_pylist()
    assert source.batch_rows(columns=["name"]).to_pydict() == {"name": TABLE["name"].to_pylist()}


@pytest.mark.parametrize("name", COLUMNAR)
def test_broken_files_of_columns(name: str, source: Source) -> None:
    source.put(f"in/{name}", COLUMNAR[name](TABLE)[:-2000])
    line = source.error(schema={"id": "integer"})
    assert line.startswith(f"s3://{source.bucket}/in/{name}")
    assert "Upload the file again" in line


def test_an_orc_file_too_large_to_be_held(source: Source) -> None:
    large = pa.table({"id": range(600_000), "text": [f"{n * 7919:032x}" for n in range(600_000)]})
    out = io.BytesIO()
    orc.write_table(large, out, compression="uncompressed", dictionary_key_size_threshold=0)
    assert len(out.getvalue()) > 16 << 20
    source.put("in/a.orc", out.getvalue())
    assert source.batch_rows().equals(large)


# Formats of text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 2])
def test_a_document_that_is_a_list(indent: int | None, source: Source) -> None:
    source.put("in/a.json", json.dumps(TABLE.to_pylist(), indent=indent, ensure_ascii=False).encode())
    source.put("in/b.json.gz", gzip.compress(b'{"id": 5001, "name": "a line"}\n'))
    assert source.records() == [*TABLE.to_pylist(), {"id": 5001, "name": "a line"}]
    source.put("in/c.json", b'[{"id": 1},\n{"id": "x"}]')
    assert "in/c.json, line 2, column 'id': expected an integer" in source.error(schema={"id": "integer"})


def test_plain_lines(source: Source) -> None:
    source.put("in/a.log", b"one\n\nthree")
    source.put("in/b.txt", "vier".encode("utf-16"))
    assert source.records(path=f"s3://{source.bucket}/in/*.log") == [{"line": t} for t in ("one", "", "three")]
    given = {"format": "lines", "csv": {"encoding": "utf-16"}, "path": f"s3://{source.bucket}/in/*.txt"}
    assert source.records(**given) == [{"line": "vier"}]


def test_fixed_width(source: Source) -> None:
    source.put("in/a.txt", b"   1Anna  \n  22Bert  \n")
    widths = [{"name": "id", "start": 1, "width": 4}, {"name": "name", "start": 5, "width": 6}]
    given = {"format": "fixed_width", "fixed_width": widths}
    assert source.records(**given) == [{"id": 1, "name": "Anna"}, {"id": 22, "name": "Bert"}]
    source.put("in/b.txt", b"   1Anna\n   xBert\n")
    line = source.error(**given, schema={"id": "integer"})
    assert line == f"s3://{source.bucket}/in/b.txt, line 2, column 'id': 'x' is not an integer"
    assert "needs the stream's setting 'fixed_width'" in source.error(format="fixed_width")
