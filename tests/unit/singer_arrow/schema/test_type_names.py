"""Types by their names in settings."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.errors import ConfigError
from singer_arrow.schema.arrow_schema import is_json, parse_type


def test_json_is_a_type() -> None:
    assert is_json(parse_type("c", "json"))
    assert is_json(parse_type("c", "any"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("strnig", "did you mean 'string'"),
        ("decimal(80,2)", "use string"),
        ("decimal(5,9)", "use"),
        ("??", "use string"),
    ],
)
def test_an_unknown_type_is_an_error_with_its_column(text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="column 'price'") as caught:
        parse_type("price", text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("timestamp[ns]", pa.timestamp("ns", "UTC")),
        ("Timestamp[ns, tz=UTC]", pa.timestamp("ns", "UTC")),
        ("timestamp[us]", pa.timestamp("us", "UTC")),
        ("time[ns]", pa.time64("ns")),
        ("time64[us]", pa.time64("us")),
    ],
)
def test_units_of_times_can_be_set(text: str, t: pa.DataType) -> None:
    assert parse_type("a", text) == pa.field("a", t)
