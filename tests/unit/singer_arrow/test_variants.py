"""Names of variant columns."""

from __future__ import annotations

import re

from singer_arrow.singer.names import Rules
from singer_arrow.singer.variants import is_of, variant_name

RULES = Rules(table_length=40, column_length=24, reserved_columns=re.compile("_x"))


def named(column: str, word: str = "string", existing: tuple[str, ...] = (), taken: tuple[str, ...] = ()) -> str:
    return variant_name(column, word, RULES, existing=existing, taken=taken)


def test_names_are_those_of_the_column_and_the_type() -> None:
    assert named("price") == "price__string"
    assert named("price", existing=("PRICE__String",)) == "PRICE__String"


def test_names_that_are_taken_or_too_long_get_digits() -> None:
    taken = named("price", taken=("Price__string",))
    assert taken.startswith("price__string_")
    assert taken == named("price", taken=("price__string",), existing=("price__string", taken))
    long = [named("a" * 20 + end, word) for end in "bc" for word in ("string", "float")]
    assert len(set(long)) == 4
    assert {len(name) for name in long} == {RULES.column_length}


def test_columns_and_their_variants() -> None:
    assert [is_of(name, "Price") for name in ("price", "PRICE__string", "prices", "price_")] == [
        True,
        True,
        False,
        False,
    ]
    assert not is_of("price", None)
