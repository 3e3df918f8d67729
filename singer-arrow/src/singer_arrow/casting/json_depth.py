"""How deep JSON nests: parsers call themselves for each level, and fail, or crash, where there are too many. Pure."""

from __future__ import annotations

import re

MAX_DEPTH = 800
"""Levels of objects and lists that a record may have: any parser in use takes as many, under any Python."""
_SHORTEST = 2 * MAX_DEPTH  # bytes of a line of more levels
_TOKEN = re.compile(rb'"(?>(?:[^"\\]|\\.)*)"|[\[\]{}"]', re.DOTALL)  # a quote alone: its string does not end


def nests_too_deeply(data: bytes) -> bool:
    """Whether one of some lines nests deeper than `MAX_DEPTH`; lines that are short cost next to nothing."""
    begin, size = 0, len(data)
    while begin + _SHORTEST < size:
        end = data.rfind(b"\n", begin, begin + _SHORTEST)
        if end < 0:
            end = data.find(b"\n", begin + _SHORTEST)
            end = size if end < 0 else end
            if _is_too_deep(data, begin, end):
                return True
        begin = end + 1
    return False


def _is_too_deep(data: bytes, begin: int, end: int) -> bool:
    if data.count(b"[", begin, end) + data.count(b"{", begin, end) <= MAX_DEPTH:
        return False
    depth = 0
    for token in _TOKEN.finditer(data, begin, end):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth > MAX_DEPTH:
                    return True
            case b"}" | b"]":
                depth -= 1
            case b'"':
                break
    return False
