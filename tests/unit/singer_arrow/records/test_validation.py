"""The SDK internals that record checks use exist, and give the same results, except for integers like 1.0."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from singer_sdk.exceptions import InvalidRecord
from singer_sdk.sinks.core import JSONSchemaValidator

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.records.validation import KEYWORDS, check_dates, check_record, date_format, validator

DAY = {"type": ["string", "null"], "format": "date"}


def test_the_keywords_are_known() -> None:
    assert {"type", "enum", "pattern", "minimum", "maxLength", "multipleOf", "anyOf", "$ref", "required"} <= KEYWORDS
    assert not KEYWORDS & {"title", "description", "default", "x-arrow-type", "contentEncoding"}


@pytest.mark.parametrize(
    ("prop", "value", "good"),
    [
        ({"type": "integer"}, 1, True),
        ({"type": "integer"}, True, False),
        ({"type": "integer"}, Decimal("1.5"), False),
        ({"type": "number", "multipleOf": Decimal("0.01")}, Decimal("0.29"), True),
        ({"type": "number", "multipleOf": Decimal("0.01")}, Decimal("0.291"), False),
        ({"type": "number", "multipleOf": 3}, 10, False),
        ({"type": "string", "format": "date"}, "no date", True),
        ({"type": "string", "maxLength": 2}, "abc", False),
    ],
)
def test_checks_are_the_sdks(prop: dict[str, Any], value: Any, good: bool) -> None:
    schema = {"type": "object", "properties": {"a": prop}}
    try:
        JSONSchemaValidator(schema).validate({"a": value})
        sdks = True
    except InvalidRecord:
        sdks = False
    assert sdks == good
    if good:
        check_record({"a": value}, validator(schema))
    else:
        with pytest.raises(BadRowError) as caught:
            check_record({"a": value}, validator(schema))
        assert caught.value.column == "a"


def test_the_error_of_a_long_value_has_its_reason() -> None:
    with pytest.raises(BadRowError, match=r"^'x{59}\.\.\. \(100002 characters\) is not of type 'integer'$"):
        check_record({"a": "x" * 100_000}, validator({"properties": {"a": {"type": "integer"}}}))


def test_a_number_without_a_fraction_is_an_integer() -> None:
    check_record({"a": Decimal("1.0")}, validator({"properties": {"a": {"type": "integer"}}}))


def test_what_cannot_be_checked_is_refused() -> None:
    schema = {"properties": {"a": {"multipleOf": Decimal("0.01")}}}
    with pytest.raises(BadRowError, match="cannot be checked"):
        check_record({"a": Decimal("1e9999")}, validator(schema))


def test_dates_are_those_of_the_sdk() -> None:
    assert date_format(DAY) == "date"
    assert date_format({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}) == "date-time"
    assert date_format({"type": "integer", "format": "date"}) is None
    assert date_format({"anyOf": [True, {"type": "string", "format": "date"}]}) == "date"
    assert date_format(True) is None
    check_dates({"a": "2026-01-01", "b": None}, {"a": "date", "b": "date"})
    for value in ("2026-02-30", 5, "x" * 100):
        with pytest.raises(BadRowError, match="is no date"):
            check_dates({"a": value}, {"a": "date"})
