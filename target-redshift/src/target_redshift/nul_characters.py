"""NUL characters in text, which Redshift takes in no column: they are replaced, removed or refused. Pure.

In JSON text a NUL is the escape `\\u0000`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

REPLACE, REMOVE, FAIL = "replace", "remove", "fail"
CHOICES = (REPLACE, REMOVE, FAIL)
SYMBOL = "\u2400"
"""Replacement of a NUL: the symbol for it."""
_INSTEAD = {REPLACE: SYMBOL, REMOVE: ""}
_JSON_INSTEAD = {REPLACE: r"\\u2400", REMOVE: ""}
_ESCAPE = r"(^|[^\\])((?:\\\\)*)\\u0000"
"""The escape, but not `\\\\u0000`, which is a backslash and some letters."""


def first_row(array: pa.Array, *, is_json: bool = False) -> int | None:
    """Return the row of the first text with a NUL, from 0, or None if there is none."""
    has = _has(array, is_json=is_json)
    return pc.index(has, True).as_py() if pc.any(has).as_py() else None


def count(array: pa.Array, *, is_json: bool = False) -> int:
    """Return the number of NULs in the texts."""
    if not is_json:
        return pc.sum(pc.count_substring(array, "\0")).as_py() or 0
    return (pc.sum(pc.count_substring(array, r"\u0000")).as_py() or 0) - (
        pc.sum(pc.count_substring(replaced(array, REPLACE, is_json=True), r"\u0000")).as_py() or 0
    )


def replaced(array: pa.Array, choice: str, *, is_json: bool = False) -> pa.Array:
    """Return the texts, or JSON, without NULs, which were replaced or removed by `choice`."""
    if not is_json:
        return pc.replace_substring(array, "\0", _INSTEAD[choice])
    while pc.any(_has(array, is_json=True)).as_py():  # of two escapes in a row, the second is seen after the first
        array = pc.replace_substring_regex(array, _ESCAPE, rf"\1\2{_JSON_INSTEAD[choice]}")
    return array


def _has(array: pa.Array, *, is_json: bool) -> pa.Array:
    if not is_json:
        return pc.match_substring(array, "\0")
    if not pc.any(pc.match_substring(array, r"\u0000")).as_py():
        return pa.repeat(pa.scalar(False), len(array))
    return pc.match_substring_regex(array, _ESCAPE)
