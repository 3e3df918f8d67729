"""Tar archives, whose members are files of any format."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.compression import archive_of, strip_suffix
from singer_arrow.errors import DataError, EmptyObjectError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import ReadOptions

IDS = pa.schema([("id", pa.int64()), ("t", pa.string())])
TWO = {"a.csv": b"id,t\n1,x\n", "folder/b.csv": b"t,id\ny,2\n"}
ROWS = {"id": [1, 2], "t": ["x", "y"]}


def _tar(members: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.csv")
        link.type, link.linkname = tarfile.SYMTYPE, "a.csv"
        archive.addfile(link)
    return out.getvalue()


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        ("tar", bytes),
        ("tar.gz", gzip.compress),
        ("tgz", gzip.compress),
        ("TAR.GZ", gzip.compress),
        ("tar.bz2", bz2.compress),
        ("tar.xz", lzma.compress),
        ("tar.zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
    ],
)
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_each_member_has_its_own_header(objects: Any, suffix: str, pack: Callable[[bytes], bytes], kind: int) -> None:
    members = {"folder/": b"", "empty.csv": b"", "folder/._b.csv": b"\x00\x05", ".DS_Store": b"\x00", **TWO}
    if kind != tarfile.USTAR_FORMAT:
        members = {"long/" * 40 + "é.csv": b"id,t\n", **members}
    data = pack(_tar(members, kind))
    assert objects.read(data, f"a.csv.{suffix}").to_pydict() == ROWS
    assert objects.read(data, "a.csv", compression="tar").to_pydict() == ROWS


def test_other_formats_and_compressed_members(objects: Any) -> None:
    table = pa.table({"id": [1], "t": ["x"]})
    out = io.BytesIO()
    pq.write_table(table, out)
    both = _tar({"a.parquet": out.getvalue(), "b.parquet": out.getvalue()})
    assert objects.read(gzip.compress(both), "a.parquet.tar.gz").equals(pa.concat_tables([table, table]))
    members = {"a.jsonl.gz": gzip.compress(b'{"id": 1, "t": "x"}\n'), "b.json": b'[{"id": 2, "t": "y"}]'}
    assert objects.read(_tar(members), "a.jsonl.tar").to_pydict() == ROWS


def test_names() -> None:
    for name in ("a.csv.tar", "a.csv.tar.gz", "a.csv.tgz", "a.csv.tar.zst", "A.CSV.TAR.GZ"):
        assert (archive_of(name), detect_format(name), strip_suffix(name).lower()) == ("tar", "csv", "a.csv")
    assert [archive_of(name) for name in ("a.csv.zip", "a.csv.gz", "a.csv", "tar", ".tar")] == ["zip", *[None] * 4]


def test_archives_without_a_row(objects: Any) -> None:
    for data in (_tar({}), _tar({"a/": b"", "b.csv": b""})):
        with pytest.raises(EmptyObjectError, match="it contains no file with content"):
            objects.infer(data, "a.csv.tar")
        with pytest.raises(EmptyObjectError, match="it contains no file with content"):
            objects.read(data, "a.csv.tar", IDS)
    with pytest.raises(EmptyObjectError):
        objects.read(b"", "a.csv.tar", IDS)


def test_a_bad_row_is_named_by_archive_and_member(objects: Any) -> None:
    data = _tar({**TWO, "c.csv": b"id,t\n1,x\nz,y\n"})
    with pytest.raises(DataError, match=r"a.csv.tar!/c.csv, line 3, column 'id': 'z' is not an integer"):
        objects.read(data, "a.csv.tar", IDS)


@pytest.mark.parametrize("block", range(8))
def test_what_is_cut_or_damaged_is_no_shorter_archive(objects: Any, block: int) -> None:
    whole = _tar(TWO, tarfile.USTAR_FORMAT)
    cuts = [whole[: block * 512 + more] for more in (1, 100, 511)] if block < 5 else []
    damaged = whole[: block * 512] + b"\xff" * 512 + whole[(block + 1) * 512 :]
    for data in (*cuts, whole[: block * 512] if 0 < block < 5 else whole[:700], damaged):
        read = FORMATS["csv"].read(objects.reader(data, "a.csv.tar"), IDS, ReadOptions())
        with pytest.raises(DataError, match="a.csv.tar"):
            list(read)


def test_a_cut_of_the_compressed_archive_is_named(objects: Any) -> None:
    data = gzip.compress(_tar(TWO))
    for size in (len(data) // 2, len(data) - 4):
        with pytest.raises(DataError, match="a.csv.tar.gz"):
            objects.read(data[:size], "a.csv.tar.gz", IDS)


def _extended(kind: bytes, size: int) -> bytes:
    header = tarfile.TarInfo("long")
    header.type, header.size = kind, size
    return header.tobuf(tarfile.USTAR_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE])
@pytest.mark.parametrize("before", [b"", _tar(TWO)[:1024]], ids=["first", "later"])
def test_extended_headers_are_not_read_whole_and_not_without_end(objects: Any, kind: bytes, before: bytes) -> None:
    large = before + _extended(kind, 3 << 30) + bytes(1 << 20)
    many = before + (_extended(kind, 7) + b"7 a=bc\n".ljust(512, b"\0")) * 3000
    for data in (large, many):
        with pytest.raises(DataError, match=r"a\.tar: not a tar archive.*extended header"):
            _read_all(objects, data)


def _read_all(objects: Any, data: bytes) -> None:
    list(FORMATS["csv"].read(objects.reader(data, "a.tar"), IDS, ReadOptions()))
