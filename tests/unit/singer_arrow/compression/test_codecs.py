from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_arrow.compression import TruncatedStreamError, decompress, detect, strip_suffix
from singer_arrow.errors import ConfigError, DataError


def _arrow(codec: str) -> Callable[[bytes], bytes]:
    def compress(data: bytes) -> bytes:
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, codec) as stream:
            stream.write(data)
        return bytes(out.getvalue())

    return compress


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": _arrow("zstd"),
    "lz4": _arrow("lz4"),
}


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("codec", COMPRESS)
@settings(deadline=None, max_examples=settings.default.max_examples // 2)
@given(
    members=st.lists(
        st.binary(max_size=300).filter(lambda b: detect("", b[:10]) == "none").map(lambda b: b * 40),
        min_size=1,
        max_size=4,
    ),
    size=st.integers(1, 99),
)
def test_streams_of_several_members_cut_anywhere(codec: str, members: list[bytes], size: int) -> None:
    stream = b"".join(COMPRESS[codec](m) for m in members)
    assert b"".join(decompress(_cut(stream, size), codec)) == b"".join(members)


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize("missing", [1, 4, 9])
def test_a_truncated_stream_names_its_file(codec: str, missing: int) -> None:
    stream = COMPRESS[codec](bytes(range(256)) * 100)
    with pytest.raises(TruncatedStreamError, match=rf"^s3://b/k: truncated {codec} stream.*Upload the object again"):
        list(decompress([stream[:-missing]], codec, url="s3://b/k"))


@pytest.mark.parametrize("codec", COMPRESS)
def test_a_corrupt_stream_names_its_file(codec: str) -> None:
    first = COMPRESS[codec](b"good" * 100)
    with pytest.raises(DataError, match="s3://b/k"):
        list(decompress([first + b"no compressed data at all"], codec, url="s3://b/k"))


def test_a_wrong_checksum_of_gzip_is_found() -> None:
    stream = bytearray(gzip.compress(b"data" * 1000))
    stream[-5] ^= 1
    with pytest.raises(DataError, match="corrupt gzip stream"):
        list(decompress([bytes(stream)], "gzip"))


@pytest.mark.parametrize("codec", ["gzip", "bzip2", "xz"])
@pytest.mark.parametrize("rest", [b"\r\n\r\n", b"\n", b"\r\n-- end of transfer --\r\n", b"\0\0more"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_bytes_after_the_end_are_named_as_that(codec: str, rest: bytes, size: int) -> None:
    stream = COMPRESS[codec](b"id\n1\n") + rest
    with pytest.raises(DataError, match=rf"s3://b/k: bytes follow the end of the {codec} stream") as caught:
        list(decompress(_cut(stream, size), codec, url="s3://b/k"))
    assert caught.value.code == "data"
    assert "Upload" not in str(caught.value)


@pytest.mark.parametrize("codec", COMPRESS)
def test_what_is_compressed_twice_is_named_as_that(codec: str) -> None:
    stream = COMPRESS[codec](gzip.compress(b"id\n1\n"))
    with pytest.raises(DataError, match=rf"it is compressed twice: what {codec} holds is compressed by gzip"):
        list(decompress([stream], codec, url="s3://b/k"))


def test_padding_after_a_gzip_member_is_ignored() -> None:
    assert b"".join(decompress([gzip.compress(b"a") + bytes(600)], "gzip")) == b"a"


def test_what_comes_out_is_cut_however_well_it_compressed() -> None:
    pieces = list(decompress([gzip.compress(bytes(30 << 20))], "gzip"))
    assert sum(map(len, pieces)) == 30 << 20
    assert max(map(len, pieces)) <= 4 << 20


@pytest.mark.parametrize("codec", COMPRESS)
def test_the_first_bytes_win_over_the_suffix(codec: str) -> None:
    assert detect("a.csv", COMPRESS[codec](b"x")[:16]) == codec
    assert detect("a.csv.gz", COMPRESS[codec](b"x")[:16]) == codec


def test_an_empty_bzip2_stream_is_detected_and_text_is_not() -> None:
    assert detect("a", bz2.compress(b"")) == "bzip2"
    assert detect("a.bz2", b"BZhello, this is text") == "none"
    assert detect("a.csv.gz", b"a,b\n1,2\n") == "none"


@pytest.mark.parametrize(
    ("name", "codec", "rest"),
    [
        ("a.csv.gz", "gzip", "a.csv"),
        ("A.CSV.GZ", "gzip", "A.CSV"),
        ("a.jsonl.zst", "zstd", "a.jsonl"),
        ("a.xz", "xz", "a"),
        ("a.bz2", "bzip2", "a"),
        ("a.csv", "none", "a.csv"),
        (".gz", "none", ".gz"),
    ],
)
def test_suffixes(name: str, codec: str, rest: str) -> None:
    assert (detect(name), strip_suffix(name)) == (codec, rest)


def test_an_unknown_codec_is_refused() -> None:
    with pytest.raises(ConfigError, match="'rar' is not known"):
        decompress([], "rar")
