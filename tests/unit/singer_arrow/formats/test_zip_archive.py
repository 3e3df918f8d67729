"""Zip archives, whose members are files of any format."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError, EmptyObjectError
from singer_arrow.formats import FORMATS
from singer_arrow.formats.zip_archive import zip_members
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader

IDS = pa.schema([("id", pa.int64()), ("t", pa.string())])


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, **options: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, **options) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


TWO = {"a.csv": b"id,t\n1,x\n", "folder/b.csv": b"t,id\ny,2\n"}
ROWS = {"id": [1, 2], "t": ["x", "y"]}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_each_member_has_its_own_header(objects: Any, method: int) -> None:
    data = _zip(TWO, method)
    assert objects.read(data, "a.csv.zip").to_pydict() == ROWS
    assert objects.read(data, "a.csv", compression="zip").to_pydict() == ROWS


def test_other_formats_and_compressed_members(objects: Any) -> None:
    import gzip

    table = pa.table({"id": [1], "t": ["x"]})
    out = io.BytesIO()
    pq.write_table(table, out)
    assert objects.read(_zip({"a.parquet": out.getvalue()}), "a.parquet.zip").equals(table)
    members = {"a.jsonl.gz": gzip.compress(b'{"id": 1, "t": "x"}\n'), "b.json": b'[{"id": 2, "t": "y"}]'}
    assert objects.read(_zip(members), "a.jsonl.zip").to_pydict() == ROWS


def test_folders_empty_members_and_what_macos_adds_are_left_out(objects: Any) -> None:
    more = {"folder/": b"", "empty.csv": b"", "__MACOSX/._a.csv": b"\x00\x05\x16\x07"}
    more |= dict.fromkeys(("._a.csv", "folder/.DS_Store", "Thumbs.db", "folder/desktop.ini"), b"\x00\x05")
    assert objects.read(_zip({**more, **TWO}), "a.csv.zip").to_pydict() == ROWS
    for data in (_zip({}), _zip(more)):
        with pytest.raises(EmptyObjectError, match="it contains no file with content"):
            objects.infer(data, "a.csv.zip")
        with pytest.raises(EmptyObjectError, match="it contains no file with content"):
            objects.read(data, "a.csv.zip", IDS)
    with pytest.raises(EmptyObjectError):
        objects.read(b"", "a.csv.zip", IDS)


@pytest.mark.full
def test_zip64_and_streamed_archives(objects: Any) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in TWO.items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(body)
    assert objects.read(out.getvalue(), "a.csv.zip").to_pydict() == ROWS

    class Pipe(io.RawIOBase):
        """A stream that cannot seek, so that sizes come after the members."""

        written = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.written += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for name, body in TWO.items():
            archive.writestr(name, body)
    assert objects.read(pipe.written, "a.csv.zip").to_pydict() == ROWS
    many = {f"{n}.csv": b"id,t\n1,x\n" for n in range(66_000)}  # beyond the limits of the plain directory
    assert len(_names(objects.reader(_zip(many, zipfile.ZIP_STORED), "a.csv.zip"))) == 66_000


def _names(reader: ObjectReader) -> list[str]:
    return [member.url.name for member in zip_members(reader, reader.url)]


@pytest.mark.full
def test_small_archives_are_one_request_and_large_ones_are_read_by_ranges(objects: Any) -> None:
    reader = objects.reader(_zip(TWO), "a.csv.zip", listed=True)
    assert sum(b.num_rows for b in FORMATS["csv"].read(reader, IDS, ReadOptions())) == 2
    assert len(objects.storage.asked) <= 2
    big = {"a.csv": b"id,t\n" + b"".join(b"%d,%s\n" % (n, os.urandom(20).hex().encode()) for n in range(400_000))}
    reader = objects.reader(_zip({**big, "b.csv": b"id,t\n1,x\n"}), "a.csv.zip", listed=True)
    assert sum(b.num_rows for b in FORMATS["csv"].read(reader, IDS, ReadOptions())) == 400_001
    assert all(objects.storage.pinned)


def test_errors_name_the_member(objects: Any) -> None:
    data = _zip({**TWO, "c.csv": b"id,t\nx,1\n"})
    with pytest.raises(DataError, match=r"a\.csv\.zip!/c\.csv, line 2, column 'id': 'x' is not an integer"):
        objects.read(data, "a.csv.zip", IDS)


def test_encrypted_members_are_refused(objects: Any) -> None:
    data = bytearray(_zip(TWO))
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.rindex(mark) + flags
        data[at] |= 1
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(DataError, match=r"!/folder/b\.csv: it is encrypted, which cannot be read\. Extract it"):
        objects.read(bytes(data), "a.csv.zip", schema)


def test_unknown_methods_are_refused(objects: Any) -> None:
    with pytest.raises(DataError, match=r"!/a\.csv: it is compressed by method 14, which cannot be read"):
        objects.infer(_zip(TWO, zipfile.ZIP_LZMA), "a.csv.zip")


def test_broken_archives_are_named(objects: Any) -> None:
    data = _zip({"a.csv": b"id,t\n" + os.urandom(3000).hex().encode() + b",x\n"})
    with pytest.raises(DataError, match=r"a\.csv\.zip: not a zip archive, or its directory is broken.*again"):
        objects.infer(data[:-30], "a.csv.zip")
    with pytest.raises(DataError, match=r"a\.csv\.zip: not a zip archive"):
        objects.infer(b"id,t\n1,x\n", "a.csv.zip")
    for at in (5, 100, 2000):
        bad = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        if at > 30:
            with pytest.raises(DataError, match=r"!/a\.csv: corrupt member of a zip archive"):
                objects.read(bad, "a.csv.zip", pa.schema([("t", pa.string())]))
    stored = _zip(TWO, zipfile.ZIP_STORED).replace(b"1,x", b"2,x", 1)
    with pytest.raises(DataError, match="its size or checksum differs from its directory entry"):
        objects.read(stored, "a.csv.zip", IDS)


def test_members_that_overlap_or_hold_more_than_they_claim_are_refused(objects: Any) -> None:
    data = bytearray(_zip(TWO))
    at = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 20, 5000)  # of the first member, the compressed size
    with pytest.raises(DataError, match="overlap|Overlap"):
        objects.read(bytes(data), "a.csv.zip", IDS)
    data = bytearray(_zip(TWO))
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, 3)  # its size
    with pytest.raises(DataError, match="it has more than the 3 bytes of its directory entry"):
        objects.read(bytes(data), "a.csv.zip", IDS)


@pytest.mark.full
def test_a_bomb_takes_little_memory(objects: Any) -> None:
    bomb = _zip({"a.csv": b"id,t\n" + b"1,%b\n" % (b"x" * 1000) * (256 << 10)})
    assert len(bomb) < 1 << 20
    reader = objects.reader(bomb, "a.csv.zip")
    tracemalloc.start()
    rows = sum(b.num_rows for b in FORMATS["csv"].read(reader, pa.schema([("t", pa.string())]), ReadOptions()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 256 << 10
    assert peak < 100 << 20


def test_a_member_that_is_no_data_is_named(objects: Any) -> None:
    with pytest.raises(DataError, match="a.csv.zip!/notes.bin, line 1: the header has the character NUL"):
        objects.infer(_zip({**TWO, "notes.bin": b"\0\0\1Bud1 \0\n"}), "a.csv.zip")
    readme = _zip({**TWO, "README.txt": b"Exported by\nhello\n"})
    for on_bad_row in ("fail", "skip"):
        with pytest.raises(DataError, match="a.csv.zip!/README.txt: it has none of the columns that are read"):
            objects.read(readme, "a.csv.zip", IDS, on_bad_row=on_bad_row)
