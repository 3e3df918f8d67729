"""Normalize SQL texts: replace names, values, types and repetitions."""

from __future__ import annotations

import re

_TYPE = (
    r"\b(?:SMALLINT|INTEGER|BIGINT|REAL|DOUBLE PRECISION|BOOLEAN|DATE|TIME|TIMESTAMPTZ|TIMESTAMP|SUPER"
    r"|DECIMAL\(0, 0\)|(?:VARCHAR|VARBYTE|CHAR)\(0\))(?![\w(])"
)
_STEPS: list[tuple[str, str]] = [
    (r"'(?:[^'\\]|''|\\.)*'", "'s'"),
    (r'"(?:[^"]|"")*"', '"n"'),
    (r'(?:\b\w+|"n")(?:\.(?:"n"|\w+))+', '"n"'),
    (r"\$\d+|%s", "?"),
    (r"\b\d+\b", "0"),
    (r'"n" AT TIME ZONE \'s\'', '"n"'),
    (_TYPE, "TYPE"),
    (r'CAST\((?:"n"|NULL|\'s\') AS TYPE\)|(?:JSON_PARSE|TO_VARBYTE)\("n"(?:, \'s\')?\)', '"n"'),
    (r'"n" AS "n"', '"n"'),
    (r'COUNT\(\*\) - COUNT\("n"\)', "NULLS"),
    (r'MAX\(OCTET_LENGTH\("n"\)\)', "LONGEST"),
    (r'CAST\(MIN\("n"\) AS TYPE\), CAST\(MAX\("n"\) AS TYPE\)', "SPAN"),
    (r'"n" BETWEEN (?:-?0|\'s\') AND (?:-?0|\'s\')', '"n" = "n"'),
]
_ITEM = (
    r'"n" TYPE(?: NOT NULL)?|"n" = NULL|"n" = "n"|"n"|\?|NULLS|LONGEST|SPAN|\((?:\?|SYSDATE)(?:, (?:\?|SYSDATE))*\)'
    r'|SELECT "n" FROM "n"'
)


def shape(text: str) -> str:
    """Return the form of a statement, equal for statements that differ only in names, values, types and counts."""
    found = " ".join(text.split()).rstrip("; ")
    for pattern, by in _STEPS:
        found = re.sub(pattern, by, found, flags=re.DOTALL)
    before = ""
    while found != before:
        before = found
        found = re.sub(rf"({_ITEM})(?:(?:, | AND | UNION ALL )\1)+(?![\w\"])", r"\1", found)
    return found
