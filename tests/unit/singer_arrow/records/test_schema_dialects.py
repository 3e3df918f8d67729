"""JSON Schemas of all drafts from 4 on, read by their meaning."""

from __future__ import annotations

import io
import json
import logging
import socket
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import validators
from recording_target import RecordingTable, RecordingTarget

from singer_arrow.casting.from_json import BadRowError
from singer_arrow.errors import DataError
from singer_arrow.records.schema import in_newest_draft
from singer_arrow.records.validation import check_record, fits_schema, validator
from singer_arrow.schema.json_schema import plain_numbers, whole_numbers

DRAFT = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema",
    7: "https://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
DRAFTS: Any = (
    *(validators.Draft4Validator, validators.Draft7Validator),
    *(validators.Draft201909Validator, validators.Draft202012Validator),
)
POSTGRES_NUMERIC = {
    "type": ["null", "number"],
    "exclusiveMaximum": True,
    "maximum": Decimal("1E+28"),
    "exclusiveMinimum": True,
    "minimum": Decimal("-1E+28"),
    "multipleOf": Decimal("1E-10"),
}
"""A numeric(38,10) column as taps with an old singer-python write it."""


def newest(prop: Any, *, draft: int | None = None, **more: Any) -> Any:
    """Return a property's schema converted to the newest draft, without loss."""
    schema = {"type": "object", "properties": {"a": prop}, **more, **({"$schema": DRAFT[draft]} if draft else {})}
    found, unusable = in_newest_draft(schema)
    assert not unusable
    validators.Draft202012Validator.check_schema(found)
    return found["properties"]["a"]


@pytest.mark.parametrize("draft", [None, *DRAFT])
def test_exclusive_bounds_are_read_by_their_form(draft: int | None) -> None:
    bounds = {"exclusiveMinimum": -(10**28), "exclusiveMaximum": 10**28}
    step = {"type": ["null", "number"], "multipleOf": Decimal("1E-10")}
    assert newest(POSTGRES_NUMERIC, draft=draft) == {**step, **bounds}
    assert newest({**step, **bounds}, draft=draft) == {**step, **bounds}
    assert newest({"maximum": 5, "exclusiveMaximum": False}, draft=draft) == {"maximum": 5}


@pytest.mark.parametrize("draft", [None, *DRAFT])
def test_lists_by_place_are_read_by_their_form(draft: int | None) -> None:
    prop = {"items": [{"type": "string"}, {"maximum": 1, "exclusiveMaximum": True}], "additionalItems": False}
    found = newest(prop, draft=draft)
    assert found == {"prefixItems": [{"type": "string"}, {"exclusiveMaximum": 1}], "items": False}
    against = validator(found)
    assert [fits_schema(v, against) for v in (["x", 0], ["x", 1], ["x", 0, 0])] == [True, False, False]


def test_dependencies_are_of_two_kinds() -> None:
    found = newest({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}})
    assert found == {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}}


@pytest.mark.parametrize(
    ("draft", "keyword", "counts"),
    [
        *((4, k, False) for k in ("const", "contains", "propertyNames", "if", "dependentRequired")),
        *((6, "const", True), (6, "if", False), (7, "if", True), (7, "unevaluatedProperties", False)),
        *((2019, "dependentRequired", True), (2019, "prefixItems", False), (2020, "prefixItems", True)),
    ],
)
def test_keywords_of_other_drafts_mean_nothing(draft: int, keyword: str, counts: bool) -> None:
    value = {"const": 5, "dependentRequired": {"a": ["b"]}, "prefixItems": [True]}.get(keyword, {"type": "object"})
    assert (keyword in newest({keyword: value}, draft=draft)) == counts


@pytest.mark.parametrize(("draft", "counts"), [(4, False), (7, False), (2019, True), (2020, True), (None, True)])
def test_keywords_beside_a_reference(draft: int | None, counts: bool) -> None:
    found = newest({"$ref": "#/definitions/n", "minimum": 5}, draft=draft, definitions={"n": {"type": "number"}})
    assert ("minimum" in found) == counts


def test_numbers_that_are_whole_are_ints() -> None:
    assert newest({"minLength": Decimal("2.0"), "enum": [Decimal("1.0"), "x"]}) == {"minLength": 2, "enum": [1, "x"]}
    assert newest({"maximum": Decimal("1e999999999")})["maximum"] == Decimal("1e999999999")


NO_PATTERN = "no regular expression that can be matched in linear time"


@pytest.mark.parametrize(
    ("prop", "keyword", "reason"),
    [
        ({"pattern": "("}, "pattern", f"'(' is {NO_PATTERN}"),
        ({"pattern": "^(?!x)"}, "pattern", f"'^(?!x)' is {NO_PATTERN}"),
        ({"minLength": "3"}, "minLength", "'3' is no value that it may have"),
        ({"maxLength": Decimal("1.5")}, "maxLength", "1.5 is no value that it may have"),
        ({"enum": {}}, "enum", "{} is no value that it may have"),
        ({"required": True}, "required", "True is no value that it may have"),
        ({"multipleOf": 0}, "multipleOf", "0 is no value that it may have"),
        ({"multipleOf": "0.01"}, "multipleOf", "'0.01' is no value that it may have"),
        ({"type": "any"}, "type", "'any' is no value that it may have"),
        ({"anyOf": []}, "anyOf", "[] is no value that it may have"),
        ({"exclusiveMaximum": True}, "exclusiveMaximum", "it is true, and there is no 'maximum'"),
        ({"exclusiveMinimum": "0"}, "exclusiveMinimum", "'0' is no value that it may have"),
        ({"not": 5}, "not", "5 is no schema"),
        ({"$ref": "#/definitions/x"}, "$ref", "'#/definitions/x' leads to no schema in it"),
        ({"$ref": "https://example.com/x"}, "$ref", "'https://example.com/x' leads to no schema in it"),
        ({"$ref": "http://[::1"}, "$ref", "'http://[::1' leads to no schema in it"),
        ({"patternProperties": {"(": {}}}, "patternProperties", f"{{'(': {{}}}} is {NO_PATTERN}"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_left_out(prop: dict[str, Any], keyword: str, reason: str) -> None:
    inner = {"type": "object", "properties": {"b": {**prop, "title": "B"}}}
    found, (unusable,) = in_newest_draft({"properties": {"a": {"type": "array", "items": inner}}})
    assert str(unusable) == f"keyword {keyword!r} of property 'a.b' is left out: {reason}"
    validators.Draft202012Validator.check_schema(found)
    left = found["properties"]["a"]["items"]["properties"]["b"]
    assert left == ({"title": "B", "not": {}} if keyword == "not" else {"title": "B"})


KEYWORDS = sorted(
    {word for draft in DRAFTS for word in draft.VALIDATORS} | {"$id", "$defs", "definitions", "then", "id"}
)
VALUES = st.recursive(
    st.sampled_from(
        [None, True, False, 0, -1, 1.5, Decimal("2.0"), Decimal("1e-400"), "", "(", "#", "http://[::1", "x"]
    )
    | st.sampled_from(["string", "null", "#/properties/a", "urn:x"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from([*KEYWORDS, "a", "("]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(KEYWORDS), VALUES, max_size=5), st.sampled_from([None, *DRAFT]))
def test_whatever_is_given_becomes_a_schema(prop: dict[str, Any], draft: int | None) -> None:
    schema = {"properties": {"a": prop}, **({"$schema": DRAFT[draft]} if draft else {})}
    found, _ = in_newest_draft(schema)
    validators.Draft202012Validator.check_schema(whole_numbers(found))
    assert in_newest_draft(found) == (found, [])
    for value in (1, "x", None, {"a": [1]}):
        fits_schema({"a": value}, validator(found))


def test_null_is_the_same_as_no_keyword() -> None:
    found, unusable = in_newest_draft({"properties": {"a": {"maxLength": None, "items": None, "const": None}}})
    assert (found, unusable) == ({"properties": {"a": {"const": None}}}, [])


def test_a_catalogs_numbers_are_those_of_json() -> None:
    given = {"a": [Decimal("0.01"), Decimal("1E+28"), Decimal("2.0"), "x", None, True], "b": Decimal("1E-38")}
    assert json.dumps(plain_numbers(given)) == (
        '{"a": [0.01, 10000000000000000000000000000, 2, "x", null, true], "b": 1e-38}'
    )
    long = Decimal("9999999999.9999999999999999")  # of which no float holds all digits
    assert plain_numbers(long) is long


@pytest.mark.full
def test_nothing_is_downloaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        against = validator({"properties": {"a": {"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/x"}}})
        with pytest.raises(BadRowError, match="cannot be checked"):
            check_record({"a": 1}, against)
        with pytest.raises(BlockingIOError):
            server.accept()


# In a run -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nothing_loaded() -> Iterator[None]:
    RecordingTable.methods.clear()
    yield
    RecordingTable.methods.clear()


def lines(prop: dict[str, Any], *values: str) -> str:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "a": prop}}
    message = {"type": "SCHEMA", "stream": "s", "schema": schema, "key_properties": ["id"]}
    records = [
        f'{{"type": "RECORD", "stream": "s", "record": {{"id": {n}, "a": {v}}}}}\n' for n, v in enumerate(values)
    ]
    return json.dumps(message, default=float) + "\n" + "".join(records) + '{"type": "STATE", "value": {"n": 1}}\n'


def run(text: str) -> list[Any]:
    target = RecordingTarget(config={"load_method": "append-only"})
    try:
        target.listen(io.StringIO(text))
    finally:
        target.run.close()
    return [row["a"] for method in RecordingTable.methods for part in method.loaded_items for row in part.records]


NUMERIC_VALUES = ("9999999999999999999999999999.9999999999", "-1.0000000001", "0", "null")


def test_numeric_columns_of_draft_4_are_exact() -> None:
    assert run(lines(POSTGRES_NUMERIC, *NUMERIC_VALUES)) == [
        None if v == "null" else Decimal(v) for v in NUMERIC_VALUES
    ]


def test_bounds_of_draft_4_are_checked() -> None:
    prop = {"type": "number", "maximum": 10, "exclusiveMaximum": True}
    assert run(lines(prop, "9.5")) == [9.5]
    with pytest.raises(DataError, match=r"Line 3 of the input.*column 'a'.*10 is greater than or equal to the maximum"):
        run(lines(prop, "9.5", "10"))


@pytest.mark.parametrize("bound", [10**400, Decimal("1e400"), Decimal("1e999999999")], ids=["int", "1e400", "huge"])
def test_bounds_beyond_all_floats(bound: Any) -> None:
    text = lines({"type": "number", "maximum": 1234567}, "9.5").replace("1234567", str(bound))
    assert run(text) == [9.5]


def test_a_schema_that_comes_again_is_as_good_as_new() -> None:
    first = lines({"type": "integer", "maximum": 5}, "5")
    assert run(first + first) == [5, 5]
    with pytest.raises(DataError, match="greater than or equal to the maximum of 5"):
        run(first + first + lines({"type": "integer", "maximum": 5, "exclusiveMaximum": True}, "5"))


HOSTILE, TEXT = "^(a+)+$", "a" * 60


@pytest.mark.parametrize(
    ("prop", "good", "bad", "reason"),
    [
        ({"type": "string", "pattern": HOSTILE}, f'"{TEXT}"', f'"{TEXT}!"', "does not match"),
        ({"type": "string", "pattern": HOSTILE, "not": {"const": "b"}}, f'"{TEXT}"', f'"{TEXT}!"', "does not match"),
        ({"type": "string", "pattern": r"^\u00e9$"}, '"é"', '"e"', "does not match"),
        (
            {"type": "object", "patternProperties": {HOSTILE: {"type": "integer"}}, "additionalProperties": False},
            f'{{"{TEXT}": 1}}',
            f'{{"{TEXT}!": 1}}',
            "Additional properties",
        ),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "integer"}}},
            '{"a": 1, "b": "x"}',
            '{"ab": "x"}',
            "is not of type 'integer'",
        ),
        (
            {"type": "object", "patternProperties": {"^(?=a)": {}}, "additionalProperties": False},
            '{"a": 1}',
            "5",
            "is not of type 'object'",
        ),
    ],
    ids=["by column", "by record", "escaped", "closed", "by name", "left out"],
)
def test_patterns_are_matched_in_linear_time(prop: dict[str, Any], good: str, bad: str, reason: str) -> None:
    assert len(run(lines(prop, good))) == 1
    with pytest.raises(DataError, match=reason):
        run(lines(prop, bad))


def test_one_warning_for_each_keyword(caplog: pytest.LogCaptureFixture) -> None:
    text = lines({"type": "string", "pattern": "(", "maxLength": 2}, '"x"')
    with caplog.at_level(logging.WARNING):
        assert run(text + text) == ["x", "x"]
    warned = [r.getMessage() for r in caplog.records if "left out" in r.getMessage()]
    text = "SCHEMA of stream 's': keyword 'pattern' of property 'a' is left out: '(' is no regular expression that "
    assert warned == [text + "can be matched in linear time; records are not checked for it"]
    with pytest.raises(DataError, match="is too long"):
        run(lines({"type": "string", "pattern": "(", "maxLength": 2}, '"xyz"'))
