"""Excluded members are found at every place in a record, and nowhere else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.sdk.stream_maps import drops_members, is_nested

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        pa.field("s", pa.struct([("a", pa.int64()), ("deep", pa.struct([("b", pa.int64())]))])),
        pa.field("m", pa.map_(pa.string(), pa.int64())),
        pa.field("l", pa.list_(pa.struct([("a", pa.int64())]))),
        json_field("j"),
    ]
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("n",), True),
        (("gone",), False),
        (("n", "a"), False),
        (("s", "a"), True),
        (("s", "deep", "b"), True),
        (("s", "deep", "c"), False),
        (("s", "a", "b"), False),
        (("m", "any"), True),
        (("l", "a"), False),  # the SDK does not descend into lists
        (("j", "any", "thing"), True),
    ],
)
def test_what_is_dropped(path: tuple[str, ...], expected: bool) -> None:
    place = tuple(part for name in path for part in ("properties", name))
    assert drops_members({(): True, place: False}, SCHEMA) is expected
    assert not drops_members({(): True, place: True}, SCHEMA)


def test_what_is_nested() -> None:
    assert [f.name for f in SCHEMA if is_nested(f)] == ["s", "m", "l", "j"]
