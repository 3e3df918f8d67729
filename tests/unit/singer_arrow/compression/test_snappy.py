"""Snappy: framed, as Hadoop writes it, and raw."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.compression import TruncatedStreamError, decompress, detect, strip_suffix
from singer_arrow.errors import DataError

MARK = b"\xff\x06\x00\x00sNaPpY"


def _raw(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return packed


def _framed(data: bytes, size: int = 65_536) -> bytes:
    frames = [MARK]
    for n, start in enumerate(range(0, len(data), size)):
        plain = data[start : start + size]
        kind, body = (0, _raw(plain)) if n % 2 == 0 else (1, plain)
        frames.append(bytes([kind]) + (len(body) + 4).to_bytes(3, "little") + b"crc!" + body)
    frames.append(b"\xfe\x02\x00\x00pp" + MARK)  # padding, and the beginning of another stream
    return b"".join(frames)


def _hadoop(data: bytes, size: int = 256 << 10) -> bytes:
    blocks = []
    for start in range(0, len(data), size):
        plain = data[start : start + size]
        parts = [plain[: len(plain) // 2], plain[len(plain) // 2 :]]
        packed = [_raw(p) for p in parts if p]
        blocks.append(len(plain).to_bytes(4, "big") + b"".join(len(p).to_bytes(4, "big") + p for p in packed))
    return b"".join(blocks)


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"snappy": _framed, "hadoop_snappy": _hadoop, "raw_snappy": _raw}
each = pytest.mark.parametrize("codec", COMPRESS)


@each
@given(data=st.binary(max_size=300).map(lambda b: b * 700), cut=st.integers(1, 5000))
def test_streams_are_read_wherever_they_are_cut(codec: str, data: bytes, cut: int) -> None:
    stream = COMPRESS[codec](data)
    assert b"".join(decompress([stream[i : i + cut] for i in range(0, len(stream), cut)], codec)) == data


@each
def test_truncated_and_corrupt_streams_name_their_file(codec: str) -> None:
    stream = COMPRESS[codec](bytes(range(256)) * 2000)
    with pytest.raises(DataError, match=rf"^s3://b/k: (truncated|corrupt) {codec} stream.*Upload the object again"):
        list(decompress([stream[: len(stream) // 2]], codec, url="s3://b/k"))
    with pytest.raises(DataError, match=rf"^s3://b/k: (truncated|corrupt) {codec} stream"):
        list(decompress([b"id,name\n1,a\n" * 9], codec, url="s3://b/k"))
    if codec != "raw_snappy":
        with pytest.raises(TruncatedStreamError):
            list(decompress([(_framed(b"a" * 99)[:-3] if codec == "snappy" else stream[:-1])], codec))


@each
def test_what_claims_to_be_huge_takes_no_memory(codec: str) -> None:
    huge = b"\xff\xff\xff\xff\x0f" + b"x" * 20  # a length of 4 GiB
    forged = {
        "snappy": MARK + b"\x00" + (len(huge) + 4).to_bytes(3, "little") + b"crc!" + huge,
        "hadoop_snappy": b"\x7f\xff\xff\xff" + huge,
        "raw_snappy": huge,
    }[codec]
    with pytest.raises(DataError, match="claims"):
        list(decompress([forged], codec))


def test_pieces_are_small_however_well_they_compress() -> None:
    for codec in ("hadoop_snappy", "raw_snappy"):
        pieces = list(decompress([COMPRESS[codec](bytes(20 << 20))], codec))
        assert sum(map(len, pieces)) == 20 << 20
        assert max(map(len, pieces)) <= 4 << 20
    with pytest.raises(DataError, match="claims 83886080 bytes"):
        list(decompress([_raw(bytes(80 << 20))], "raw_snappy"))


def test_the_kind_is_detected_by_mark_and_name() -> None:
    assert detect("a.csv.snappy") == "snappy"
    assert detect("a.csv", _framed(b"x")[:16]) == "snappy"
    assert detect("a.csv.snappy", _framed(b"x")[:16]) == "snappy"
    assert detect("a.csv.snappy", _hadoop(b"x")[:16]) == "hadoop_snappy"
    assert detect("a.csv", _hadoop(b"x")[:16]) == "none"
    assert strip_suffix("a.csv.snappy") == strip_suffix("a.csv.sz") == "a.csv"
