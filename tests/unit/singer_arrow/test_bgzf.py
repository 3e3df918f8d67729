"""Blocked gzip is inflated in parallel, to what any reader of gzip makes of it."""

from __future__ import annotations

import gzip
import os
import random
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_arrow import bgzf
from singer_arrow.compression import TruncatedStreamError
from singer_arrow.errors import DataError
from singer_arrow.reading.budget import Budget
from singer_arrow.reading.text import decoded

TEXT = b"".join(b"%d,%d\n" % (n, n * 7919 % 10_007) for n in range(300_000))


def _block(data: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packer.compress(data) + packer.flush()
    head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + struct.pack("<H", len(body) + 25)
    return head + body + struct.pack("<II", zlib.crc32(data), len(data))


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
    assert bgzf.size_of(data[:18]) > 0
    assert _read(objects, data) == TEXT
    assert _read(objects, data, fetched=1 << 20, decoded=1 << 10) == TEXT


def test_its_members_are_found_however_it_is_cut() -> None:
    data, rng = _blocked(TEXT[:500_000]), random.Random(1)
    cuts = sorted(rng.sample(range(len(data)), 40))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    found = list(bgzf.runs(chunks, size=30_000))
    assert len(found) > 3
    assert b"".join(run.inflate() for run in found if isinstance(run, bgzf.Run)) == TEXT[:500_000]


@pytest.mark.parametrize(
    "tail", [gzip.compress(b"plain\n"), gzip.compress(b"plain\n") + bytes(512), _block(b"plain\n") + bytes(64)]
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


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=64))
def test_any_bytes_are_no_member_or_have_a_size(data: bytes) -> None:
    assert 0 <= bgzf.size_of(data) <= 1 << 16
    assert bgzf.size_of(os.urandom(4)) == 0
