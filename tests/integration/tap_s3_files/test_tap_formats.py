"""Each format and compression of the tap, from S3 to RECORD and BATCH, and errors for bad files."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import json
import lzma
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc
from tap_source import TapBucket
from workbooks import Error, ods, xlsx

from local_cloud.programs import Programs, Ran

TABLE = pa.table({"id": range(1, 5001), "name": [f"née {n}" for n in range(1, 5001)]})

ADVICE = (
    "Correct the file, or set the stream's on_bad_row: skip leaves such rows out, rescue keeps them in _sdc_rescued, "
    "dead_letter puts them into the target's table _sdc_rejected"
)


MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print("peak kB:", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
"""Runs a command from a small process, because a child inherits the peak memory of its parent."""


class Source(TapBucket):
    """A bucket, and the tap that reads it."""

    def run(self, *, batches: bool = False, discover: bool = False, **stream: Any) -> Ran:
        """Run the tap over the folder `in`, without metadata columns."""
        return self.tap("tap-s3-files", config=self._config(batches=batches, **stream), discover=discover)

    def run_measured(self, folder: Path, **stream: Any) -> tuple[Ran, int]:
        """Run the executable itself with batch files, and return also its peak memory in kB."""
        cold = Programs(self.tap.env, folder)
        command = cold.command("tap-s3-files", config=self._config(batches=True, **stream))
        ran = cold("python", "-c", MEASURED, *command).check()
        return ran, int(ran.stderr.rsplit("peak kB: ", 1)[1])

    def _config(self, *, batches: bool, **stream: Any) -> dict[str, Any]:
        given = {"name": "rows", "path": f"s3://{self.bucket}/in/*", **stream}
        batch = {"encoding": {"format": "parquet"}, "storage": {"root": f"s3://{self.bucket}/stage"}}
        return {"streams": [given], "metadata_columns": False, **({"batch_config": batch} if batches else {})}

    def records(self, **stream: Any) -> list[dict[str, Any]]:
        return [m["record"] for m in self.run(**stream).check().of_type("RECORD")]

    def error(self, **stream: Any) -> str:
        """Return the one error line of a failed run, without its code."""
        ran = self.run(**stream)
        assert ran.code == 1, ran.stderr
        assert "Traceback" not in ran.stderr
        errors = [line for line in ran.stderr.splitlines() if "| ERROR " in line or " | " not in line]
        assert len(errors) == 1, ran.stderr
        return errors[0].split(" | ", 3)[-1].rpartition(" [")[0]

    def batch_rows(self, **stream: Any) -> pa.Table:
        """Return the rows of the batch files of a run."""
        urls = [u for m in self.run(batches=True, **stream).check().of_type("BATCH") for u in m["manifest"]]
        read = [self.s3.get_object(Bucket=self.bucket, Key=u.split("/", 3)[3])["Body"].read() for u in urls]
        return pa.concat_tables(pq.read_table(io.BytesIO(data)) for data in read)


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


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
@pytest.mark.smoke("a.orc")
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
    assert line == f"s3://{source.bucket}/in/b.txt, line 2, column 'id': 'x' is not an integer. {ADVICE}"
    assert "needs the stream's setting 'fixed_width'" in source.error(format="fixed_width")


@pytest.mark.smoke
def test_workbooks(source: Source) -> None:
    rows = [["id", "name", "day"], [1, "née", date(2024, 5, 1)], [2, "007", None]]
    source.put("in/a.xlsx", xlsx({"Cover": [["nothing"]], "Data": [["A title"], *rows]}))
    source.put("in/b.ods", ods({"Cover": [], "Data": [["A title"], [], *rows[:1], [3, "x", date(2024, 5, 2)]]}))
    given = {"excel": {"sheet": "Data"}, "csv": {"skip_rows": 1}, "path": f"s3://{source.bucket}/in/*.xlsx"}
    first = [{"id": 1, "name": "née", "day": "2024-05-01"}, {"id": 2, "name": "007", "day": None}]
    assert source.records(**given) == first
    table = source.batch_rows(**given)
    assert table.schema.types == [pa.int64(), pa.string(), pa.date32()]
    assert table["name"].to_pylist() == ["née", "007"]
    other = {**given, "path": f"s3://{source.bucket}/in/*.ods", "csv": {"skip_rows": 2}}
    assert source.records(**other) == [{"id": 3, "name": "x", "day": "2024-05-02"}]
    source.put("in/a.xlsx", xlsx({"Data": [["id"], [1], [Error("#REF!")]]}))
    where = f"s3://{source.bucket}/in/a.xlsx"
    assert source.error(path=where) == f"{where}, line 3, column 'id': '#REF!' is not an integer. {ADVICE}"
    assert source.records(path=where, on_bad_row="skip") == [{"id": 1}]
    line = source.error(path=where, excel={"sheet": 2})
    assert line == f"{where}: it has no sheet 2. Set excel.sheet to one of 'Data'"


# Compressions -------------------------------------------------------------------------------------------------------

CSV = b"id,name\n" + b"".join(b"%d,some name %d\n" % (n, n * 7919) for n in range(20_000))
ROWS = [{"id": n, "name": f"some name {n * 7919}"} for n in range(20_000)]


def by_arrow(codec: str) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, codec) as stream:
        stream.write(CSV)
    return bytes(out.getvalue())


def raw_snappy(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return packed


def framed_snappy() -> bytes:
    frames = [b"\xff\x06\x00\x00sNaPpY"]
    for start in range(0, len(CSV), 65_536):
        body = b"crc!" + raw_snappy(CSV[start : start + 65_536])
        frames.append(b"\x00" + len(body).to_bytes(3, "little") + body)
    return b"".join(frames)


def hadoop_snappy() -> bytes:
    packed = raw_snappy(CSV)
    return len(CSV).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


COMPRESSED = {
    "a.csv.gz": lambda: gzip.compress(CSV[:300_000]) + gzip.compress(CSV[300_000:]),
    "a.csv.bz2": lambda: bz2.compress(CSV[:300_000]) + bz2.compress(CSV[300_000:]),
    "a.csv.xz": lambda: lzma.compress(CSV),
    "a.csv.zst": lambda: by_arrow("zstd"),
    "a.csv.lz4": lambda: by_arrow("lz4"),
    "a.csv.sz": framed_snappy,
    "a.csv.snappy": hadoop_snappy,
    "a.csv.zip": lambda: zipped({"1.csv": CSV[:8] + CSV[CSV.index(b"9999,") :], "2.csv": CSV[: CSV.index(b"9999,")]}),
}


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_objects(name: str, source: Source) -> None:
    source.put(f"in/{name}", COMPRESSED[name]())
    assert sorted(source.records(), key=lambda r: r["id"]) == ROWS
    source.put(f"in/{name}", COMPRESSED[name]()[:-100])
    line = source.error(schema={"id": "integer", "name": "string"})
    assert line.startswith(f"s3://{source.bucket}/in/{name}")


def test_compressions_of_the_settings(source: Source) -> None:
    source.put("in/a.csv", raw_snappy(CSV))
    assert source.records(compression="raw_snappy") == ROWS
    source.put("in/a.csv", zipped({"1.csv": CSV}))
    assert source.records(compression="zip") == ROWS


def test_zip_archives_that_are_refused(source: Source) -> None:
    source.put("in/a.csv.zip", zipped({"x.csv": b"id\n1\n", "y.csv": b"id\nx\n"}))
    where = f"s3://{source.bucket}/in/a.csv.zip"
    assert f"{where}!/y.csv, line 2, column 'id'" in source.error(schema={"id": "integer"})
    locked = bytearray(zipped({"x.csv": b"id\n1\n"}))
    locked[6] |= 1
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    source.put("in/a.csv.zip", bytes(locked))
    assert f"{where}!/x.csv: it is encrypted, which cannot be read" in source.error()


# Bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gz", "zip"])
def test_a_bomb_stays_within_bounded_memory(kind: str, source: Source, tmp_path: Path) -> None:
    out = io.BytesIO()
    with contextlib.ExitStack() as stack:
        if kind == "gz":
            file: Any = stack.enter_context(gzip.GzipFile(fileobj=out, mode="wb"))
        else:
            archive = stack.enter_context(zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED))
            file = stack.enter_context(archive.open("a.csv", "w"))
        file.write(b"id,name\n")
        for _ in range(1000):
            file.write((b"1," + b"x" * 10_000 + b"\n") * 100)
    assert len(out.getvalue()) < 4 << 20
    source.put(f"in/a.csv.{kind}", out.getvalue())
    ran, peak = source.run_measured(tmp_path)
    assert sum(m["row_count"] for m in ran.of_type("BATCH")) == 100_000
    assert 50 << 10 < peak < 900 << 10  # of 1 GB of text


def test_a_line_of_many_keys_among_short_ones_takes_bounded_memory(source: Source, tmp_path: Path) -> None:
    wide = json.dumps({f"key_{n}": n for n in range(3000)})
    source.put("in/a.jsonl", b'{"id": 1}\n' * 300_000 + wide.encode() + b"\n")
    ran, peak = source.run_measured(tmp_path, on_drift="rescue")
    assert sum(m["row_count"] for m in ran.of_type("BATCH")) == 300_001
    assert 50 << 10 < peak < 900 << 10  # a column for each key is 7 GB


def test_a_line_of_json_beyond_the_limit(source: Source) -> None:
    source.put("in/a.jsonl", b'{"id": 1}\n{"id": 2, "text": "' + b"x" * (100 << 20) + b'"}\n')
    line = source.error()
    assert line.startswith(f"s3://{source.bucket}/in/a.jsonl, line 2: the line is longer than 64 MiB")
    source.put("in/a.jsonl", b'{"id": 2, "text": "' + b"x" * (100 << 20) + b'"}\n')
    assert "in/a.jsonl, line 1: the line is longer than 64 MiB" in source.error()


def test_a_quote_that_never_closes(source: Source) -> None:
    source.put("in/a.csv", b'id,name\n1,a\n2,"b\n' + b"3,some more text\n" * 6_000_000)
    line = source.error(schema={"id": "integer", "name": "string"})
    assert line.startswith(f"s3://{source.bucket}/in/a.csv, line 3: ")
    assert "a quote in it is never closed" in line


def test_columns_of_one_name(source: Source) -> None:
    source.put("in/a.csv", b"id,name,id\n1,a,2\n")
    assert source.records() == [{"id": 1, "name": "a", "id_2": 2}]
    source.s3.delete_object(Bucket=source.bucket, Key="in/a.csv")
    out = io.BytesIO()
    pq.write_table(pa.table([[1], [2]], names=["id", "id"]), out)
    source.put("in/a.parquet", out.getvalue())
    assert "Column 'id' occurs twice" in source.error()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_names_that_differ_in_case_alone_are_columns_of_their_own(name: str, source: Source) -> None:
    table = pa.table({"id": [1], "ID": [2], "Id": [3]})
    out = io.BytesIO()
    pq.write_table(table, out)
    source.put(
        f"in/{name}",
        {"a.csv": b"id,ID,Id\n1,2,3\n", "a.jsonl": b'{"id":1,"ID":2,"Id":3}\n', "a.parquet": out.getvalue()}[name],
    )
    assert source.records() == [{"id": 1, "ID": 2, "Id": 3}]
    assert source.batch_rows().to_pydict() == table.to_pydict()


def test_encrypted_parquet_is_refused(source: Source) -> None:
    source.put("in/a.parquet", b"PARE" + bytes(200) + b"\x64\x00\x00\x00PARE")
    assert "in/a.parquet: its footer is encrypted, which cannot be read. Decrypt the file first" in source.error()


@pytest.mark.parametrize(
    ("given", "text", "encoding"),
    [
        ({"encoding": "utf-16"}, "id,name\n1,né\n", "utf-16"),
        ({"encoding": "latin-1"}, "id,name\n1,né\n", "latin-1"),
        ({"encoding": "cp1252"}, "id,name\n1,€é\n", "cp1252"),
        ({}, "id,name\n1,né\n", "utf-8-sig"),
        ({"delimiter": ";", "quote": "'", "skip_rows": 2, "comment": "#"}, "x\ny\n#z\nid;name\n1;'a;b'\n", "utf-8"),
        ({"escape": "\\"}, 'id,name\n1,"a \\"b\\" c"\n', "utf-8"),
    ],
)
def test_dialects_and_encodings(given: dict[str, Any], text: str, encoding: str, source: Source) -> None:
    source.put("in/a.csv", text.encode(encoding))
    names = {"cp1252": "€é", "utf-8": "a;b" if "quote" in given else 'a "b" c'}
    assert source.records(csv=given) == [{"id": 1, "name": names.get(encoding, "né")}]


def test_no_header(source: Source) -> None:
    source.put("in/a.csv", b"1,a\n2,b\n")
    assert source.records(csv={"header": False}) == [
        {"column_1": 1, "column_2": "a"},
        {"column_1": 2, "column_2": "b"},
    ]
