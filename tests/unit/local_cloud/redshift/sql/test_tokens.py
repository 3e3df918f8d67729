"""Tokens of SQL: boundaries of strings, names and comments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cloud.redshift.sql.tokens import (
    closing,
    literal,
    quoted,
    significant,
    split_commas,
    sql_of,
    tokens,
    unescape,
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("'it''s'", [("string", "it's")]),
        (r"'a\'b'", [("string", r"a\'b")]),
        (r"E'a\\'", [("string", r"a\\")]),
        ("$$a 'b'$$", [("dollar", "a 'b'")]),
        ("$x$ $$ $x$", [("dollar", " $$ ")]),
        ('"A ""b"" c"', [("name", 'A "b" c')]),
        ("#tmp", [("word", "#tmp")]),
        ("a$b", [("word", "a$b")]),
        ("$12", [("param", "$12")]),
        ("1.5e-3 .5 2.", [("number", "1.5e-3"), ("number", ".5"), ("number", "2.")]),
        ("a::b", [("word", "a"), ("operator", "::"), ("word", "b")]),
        ("<>||-", [("operator", "<>"), ("operator", "||"), ("operator", "-")]),
        ("a -- 'b'\nc", [("word", "a"), ("word", "c")]),
        ("a /* x /* y */ ' */ b", [("word", "a"), ("word", "b")]),
        ("'open", [("operator", "'"), ("word", "open")]),
        ('"open', [("operator", '"'), ("word", "open")]),
        ("größe", [("word", "größe")]),
    ],
)
def test_tokens(sql: str, expected: list[tuple[str, str]]) -> None:
    assert [(token.kind, token.value) for token in significant(tokens(sql))] == expected


def test_words_are_compared_in_lower_case() -> None:
    assert [token.low for token in significant(tokens("SELECT \"A\" 'B'"))] == ["select", '"A"', "'B'"]


@given(st.text(st.sampled_from("a1'\"$\\/*-; \n#.é")))
def test_tokens_give_the_sql_back(sql: str) -> None:
    assert sql_of(tokens(sql)) == sql


def test_parentheses_and_commas() -> None:
    found = significant(tokens("f(a, (b, c)), d"))
    assert closing(found, 1) == 9
    assert closing(found[:5], 1) is None
    assert [sql_of(part) for part in split_commas(found)] == ["f(a,(b,c))", "d"]


@given(st.text())
def test_quoted_text_is_one_token(text: str) -> None:
    (token,) = tokens(literal(text))
    assert token.kind == "string"
    assert token.unescaped == text
    (name,) = tokens(quoted(text))
    assert (name.kind, name.value) == ("name", text)


def test_a_long_string_that_is_not_closed_is_no_trouble() -> None:
    assert tokens("'" + "a''b" * 100_000)[0].kind == "operator"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(r"a\\b", r"a\b"), (r"\t\n", "\t\n"), (r"\101\x42\q", "ABq"), (r"\0", "\0"), ("plain", "plain")],
)
def test_unescape(text: str, expected: str) -> None:
    assert unescape(text) == expected
