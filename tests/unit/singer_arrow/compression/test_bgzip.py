"""Blocked gzip (bgzip) is read as any gzip of many members."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any

import pytest

from singer_arrow.compression import TruncatedStreamError
from singer_arrow.errors import DataError
from singer_arrow.reading.chunks import decoded
from singer_arrow.reading.parallel import Budget

TEXT = b"".join(b"%d,%d\n" % (n, n * 7919 % 10_007) for n in range(300_000))


def _block(data: bytes, *, within: bytes = b"", added: int = 0, crc: int = 0, size: int = 0) -> bytes:
    """Return a gzip member; its size field counts `within`, and `added` is added to that field.

    `crc` and `size` alter the checksum and the length in its trailer.
    """
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0"
    head += struct.pack("<H", len(body) + 25 + len(within) + added)
    return head + body + struct.pack("<II", zlib.crc32(data) ^ crc, len(data) + size) + within


def _blocked(data: bytes, size: int = 65_280) -> bytes:
    return b"".join(_block(data[at : at + size]) for at in range(0, len(data), size)) + _block(b"")


def _read(objects: Any, data: bytes, **budget: int) -> bytes:
    reader = objects.reader(data, "text.csv.gz", budget=Budget(**budget))
    try:
        return b"".join(decoded(reader))
    finally:
        assert reader.budget.decoded.used == 0


def test_it_is_what_gzip_makes_of_it(objects: Any) -> None:
    data = _blocked(TEXT)
    assert gzip.decompress(data) == TEXT
    assert _read(objects, data) == TEXT
    assert _read(objects, data, fetched=1 << 20, decoded=1 << 10) == TEXT


@pytest.mark.parametrize(
    "tail",
    [
        gzip.compress(b"plain\n", mtime=0),
        gzip.compress(b"plain\n", mtime=0) + bytes(512),
        _block(b"plain\n") + bytes(64),
    ],
)
def test_other_members_may_follow(objects: Any, tail: bytes) -> None:
    assert _read(objects, _blocked(TEXT) + tail) == TEXT + b"plain\n"


def test_it_is_truncated_or_corrupt(objects: Any) -> None:
    data = _blocked(TEXT)
    with pytest.raises(TruncatedStreamError, match=r"text\.csv\.gz"):
        _read(objects, data[: len(data) // 2])
    middle = len(data) // 2
    with pytest.raises(DataError, match=r"text\.csv\.gz"):
        _read(objects, data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :])


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (_block(b"a\n", within=gzip.compress(b"b\n", mtime=0)), b"a\nb\n"),
        (_block(b"a\n", within=_block(b"b\n")), b"a\nb\n"),
        (_block(b"0" * 65_536), b"0" * 65_536),
        (_block(b"0" * 65_537), b"0" * 65_537),
        (_block(b"0" * 9_000_000), b"0" * 9_000_000),
        (_block(b"a\n", added=-3), b"a\n"),
    ],
    ids=["plain member within", "blocked member within", "longest", "too long", "far too long", "too short"],
)
def test_members_with_a_wrong_size_field_are_read_as_gzip(objects: Any, odd: bytes, text: bytes) -> None:
    data = _blocked(TEXT) + odd + _blocked(TEXT)
    assert gzip.decompress(data) == TEXT + text + TEXT
    assert _read(objects, data) == TEXT + text + TEXT
    assert _read(objects, odd + _blocked(TEXT), fetched=1 << 20, decoded=1 << 10) == text + TEXT


@pytest.mark.parametrize(
    "odd",
    [_block(b"a\n", within=b"GARBAGE"), _block(b"a\n", crc=1), _block(b"a\n", size=1), _block(b"a\n")[:-4]],
    ids=["garbage", "checksum", "size", "cut"],
)
def test_broken_members_are_an_error(objects: Any, odd: bytes) -> None:
    with pytest.raises(
        DataError, match=r"text\.csv\.gz: (corrupt gzip stream|bytes follow the end of the gzip stream)"
    ):
        _read(objects, _blocked(TEXT) + odd + _blocked(TEXT))
