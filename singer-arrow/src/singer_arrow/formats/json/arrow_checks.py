"""Checks of what Arrow's JSON reader accepts although it must not. Pure.

It accepts several records on a line and records over several lines. It scales decimals without a check of overflow or
of the precision of their type, rounds what is read as a float, and makes infinities of numbers that are too large.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

_LONG = 2048
_BLANK = re.compile(rb"(?m)^[ \t\r]*\n")
_BORDER = re.compile(rb"\}[ \t\r]*+\n[ \t\r\n]*+\{")


@dataclass(frozen=True, slots=True)
class LineEnds:
    """Line ends of a text of whole lines."""

    count: int
    are_borders: bool  # each is directly between the end of an object and the beginning of the next one

    @classmethod
    def of(cls, data: bytes) -> LineEnds:
        """Return the line ends of a text, in one pass without the GIL."""
        text = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
        ends = pc.equal(text, pa.scalar(ord("\n"), pa.uint8()))

        def are_all(characters: pa.Array, one: str) -> bool:
            return bool(pc.all(pc.equal(characters, pa.scalar(ord(one), pa.uint8())), min_count=0).as_py())

        def before_ends(distance: int) -> pa.Array:
            return text.slice(0, len(text) - distance).filter(ends.slice(distance))

        are_borders = (
            (data[:1] == b"{" and data[-1:] == b"\n")
            and are_all(text.slice(1).filter(ends.slice(0, len(ends) - 1)), "{")
            and (are_all(last := before_ends(1), "}") or (are_all(last, "\r") and are_all(before_ends(2), "}")))
        )
        return cls(ends.true_count, are_borders)

    def hold_one_each(self, data: bytes, rows: int) -> bool:
        """Return whether each line that is not blank holds one object, given the number of objects in the text.

        A JSON string holds no line end, and `}` followed by `{` occurs only between two objects of the top level. So if
        that surrounds each line end, no line end is within an object, and each line holds at least one object.
        """
        if self.are_borders and rows == self.count:
            return True
        if rows != self.count - len(_BLANK.findall(data)):
            return False
        text = data.strip(b" \t\r\n")
        return text[:1] == b"{" and text[-1:] == b"}" and len(_BORDER.findall(text)) == rows - 1


def has_wide_line(data: bytes, lines: int) -> bool:
    """Return whether a line may have so many more keys than the others that a column for each takes too much memory."""
    long = max(_LONG, 16 * len(data) // max(lines, 1))
    begin = 0
    while (limit := begin + long) < len(data):
        begin = data.rfind(b"\n", begin, limit) + 1
        if not begin:
            begin, end = limit - long, data.find(b"\n", limit)
            if data.count(b":", begin, end) * lines > 4 * len(data):
                return True
            begin = end + 1 or len(data)
    return False


def all_finite(column: pa.Array) -> bool:
    """Return whether all floats of a column are finite, within lists and objects too."""
    if pt.is_floating(column.type):  # the sum of finite numbers may overflow
        return isfinite(pc.sum(column).as_py() or 0.0) or pc.all(pc.is_finite(column)).as_py() is not False
    if pt.is_struct(column.type):
        return all(all_finite(part) for part in column.flatten())
    return not pt.is_list(column.type) or all_finite(column.flatten())
