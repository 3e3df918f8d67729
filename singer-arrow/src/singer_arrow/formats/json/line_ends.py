"""Whether each line of a text of JSON objects holds one of them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_BLANK = re.compile(rb"(?m)^[ \t\r]*\n")
_BORDER = re.compile(rb"\}[ \t\r]*+\n[ \t\r\n]*+\{")


@dataclass(frozen=True, slots=True)
class LineEnds:
    """The line ends of a text that is whole lines.

    Attributes:
        count: How many there are.
        are_borders: That right before each stands the end of an object, and right after it the beginning of another.
    """

    count: int
    are_borders: bool

    @classmethod
    def of(cls, data: bytes) -> LineEnds:
        """Those of a text, in one pass over it that needs no lock of the interpreter."""
        text = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
        ends = pc.equal(text, _character(b"\n"))
        is_whole = data[:1] == b"{" and data[-1:] == b"\n"
        return cls(ends.true_count, is_whole and _begin_objects(text, ends) and _end_objects(text, ends))

    def hold_one_each(self, data: bytes, rows: int) -> bool:
        """Whether each line of the text that is not blank holds one object, where so many were read of it.

        No text in JSON holds a line end, and `}` before `{` stands between two objects that lie in nothing. So where
        that is what stands around each line end, none is within an object: each line holds one object or more.
        """
        if self.are_borders and rows == self.count:
            return True
        if rows != self.count - len(_BLANK.findall(data)):
            return False
        text = data.strip(b" \t\r\n")
        return text[:1] == b"{" and text[-1:] == b"}" and len(_BORDER.findall(text)) == rows - 1


def _character(one: bytes) -> pa.Scalar:
    return pa.scalar(one[0], pa.uint8())


def _begin_objects(text: pa.Array, ends: pa.Array) -> bool:
    """Whether `{` follows each line end but the last character."""
    return _are_all(text.slice(1).filter(ends.slice(0, len(ends) - 1)), b"{")


def _end_objects(text: pa.Array, ends: pa.Array) -> bool:
    """Whether `}` stands before each line end, or `}` and CR before all of them."""
    before = _at_distance(text, ends, 1)
    return _are_all(before, b"}") or (_are_all(before, b"\r") and _are_all(_at_distance(text, ends, 2), b"}"))


def _at_distance(text: pa.Array, ends: pa.Array, distance: int) -> pa.Array:
    """The characters so many before line ends."""
    return text.slice(0, len(text) - distance).filter(ends.slice(distance))


def _are_all(characters: pa.Array, one: bytes) -> bool:
    return bool(pc.all(pc.equal(characters, _character(one)), min_count=0).as_py())
