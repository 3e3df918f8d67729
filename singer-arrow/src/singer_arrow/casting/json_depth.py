"""Limit on the nesting depth of JSON, because recursive parsers fail or crash beyond some depth. Pure."""

from __future__ import annotations

import re

MAX_DEPTH = 800
"""Maximum nesting depth of a record; all parsers in use support it on every Python version."""
_SHORTEST = 2 * MAX_DEPTH  # minimum bytes of a line beyond the limit
_TOKEN = re.compile(rb'"(?>(?:[^"\\]|\\.)*)"|[\[\]{}"]', re.DOTALL)  # a lone quote: an unterminated string


def nests_too_deeply(data: bytes) -> bool:
    """Return whether a line is nested deeper than `MAX_DEPTH`; fast for short lines."""
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
