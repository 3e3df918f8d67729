"""Names and marks of variant columns."""

from __future__ import annotations

import re
from itertools import islice

import pyarrow as pa
import pytest

from singer_arrow.load.convert import UploadColumn
from singer_arrow.naming import NamingRules, column_names
from singer_arrow.warehouse.settings import ExistingColumn, mark, marked, unfilled, variant_names

RULES = NamingRules(table_length=40, column_length=24, reserved_columns=re.compile("_x"))


def column(name: str, variant_of: str | None = None) -> UploadColumn:
    return UploadColumn(name, name, "TEXT", pa.string(), variant_of=variant_of)


def existing(name: str, variant_of: str | None = None) -> ExistingColumn:
    return ExistingColumn(name, "TEXT", variant_of=variant_of)


def first(count: int, column: str, word: str = "string") -> list[str]:
    return list(islice(variant_names(column, word, RULES), count))


def test_names_are_those_of_the_column_and_the_type_and_then_with_digits() -> None:
    names = first(4, "price")
    assert names[0] == "price__string"
    assert all(re.fullmatch(r"price__string_[0-9a-f]{8}", name) for name in names[1:])
    assert len(set(names)) == 4
    assert names == first(4, "price")


def test_long_names_end_in_digits() -> None:
    long = [name for end in "bc" for word in ("string", "float") for name in first(2, "a" * 20 + end, word)]
    assert len(set(long)) == 8
    assert {len(name) for name in long} == {RULES.column_length}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (mark("price"), "price"),
        (f"{mark('price')}\nin euros", "price"),
        (mark("a: b"), "a: b"),
        ("price", None),
        ("", None),
        (None, None),
    ],
)
def test_marks_in_comments(text: str | None, expected: str | None) -> None:
    assert marked(text) == expected


def test_a_variant_is_no_propertys_own_column() -> None:
    names = column_names(["price", "price__string"], RULES, ["price"], ["price__string"])
    other = names["price__string"]
    assert other.startswith("price__string_")
    assert column_names(["price__string"], RULES, ["price", other], ["price__string"]) == {"price__string": other}


def test_columns_that_no_property_fills_are_emptied_also_variants() -> None:
    table = [existing("id"), existing("n"), existing("n__string", "n"), existing("m__string", "m"), existing("old")]
    assert unfilled([column("id"), column("n")], table) == ("n__string", "m__string", "old")
    assert unfilled([column("id"), column("n__string", "n")], table) == ("n", "m__string", "old")
    assert unfilled([column(e.name) for e in table], table) == ()
