from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.spelling import decode_bytes, is_valid_utf8


def _valid(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


PIECES = st.one_of(
    st.text(max_size=4).map(str.encode), st.binary(max_size=3), st.sampled_from([b"\xc3", b"\xa9", b"a"])
)


@given(st.lists(st.none() | PIECES, max_size=8), st.integers(0, 3), st.booleans())
def test_each_value_is_looked_at_alone(values: list[bytes | None], start: int, large: bool) -> None:
    column = pa.array(values, pa.large_binary() if large else pa.binary())
    null, *rest = column.buffers()
    kind = pa.large_string() if large else pa.string()
    text = pa.Array.from_buffers(kind, len(values), [null, *rest]).slice(start)
    assert is_valid_utf8(text) == all(v is None or _valid(v) for v in values[start:])


def test_errors_show_bytes_that_are_no_text_as_numbers() -> None:
    assert decode_bytes([b"a\xff", {"k": ("é".encode(), 1)}]) == ["a\\xff", {"k": ["é", 1]}]
