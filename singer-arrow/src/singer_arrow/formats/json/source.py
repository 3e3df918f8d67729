"""Open a text of JSON at a point, as blocks of whole lines; an element of a list becomes a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from singer_arrow.enforcement.row_policy import BlockResult, RowError
from singer_arrow.errors import DataError
from singer_arrow.formats.delivery import FilePosition, until
from singer_arrow.formats.json.array_document import ListElements, element_reason, take_list, take_rest
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading import text_blocks as limits
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import blocks, blocks_of_lines, decoded

_KEPT = 1 << 20


class LongLine(bytes):
    """Beginning of a line that is too long; a block of its own. `size` is the size of the whole line in bytes."""

    size: int

    def error(self) -> RowError:
        """Return the error of the line."""
        return RowError(1, long_line_reason(", of which no more than the first MiB is kept"), text=bytes(self))


class ListPosition(FilePosition):
    """Position in a document that is a list of records."""

    def __init__(self, url: object, resume_point: ResumePoint, elements: ListElements) -> None:
        super().__init__(url, resume_point)
        self._elements = elements

    def line_of(self, line: int) -> int:
        return self._elements.line_of(line)

    def error(self, error: RowError) -> DataError:
        return super().error(error._replace(reason=element_reason(error.reason)))

    def advance(self, block: BlockResult) -> None:
        rows = self.resume_point.rows + (0 if block.batch is None else block.batch.num_rows)
        self.resume_point = ResumePoint(rows, *self._elements.drop(block.lines))


def open_source(
    reader: ObjectReader, options: ReadOptions, begin: ResumePoint, end: ResumePoint | None = None
) -> tuple[FilePosition, Iterator[memoryview]]:
    """Return the position of the first block, and the blocks of whole lines from one resume point to another.

    A resume point in lines is behind a line break, one in a list directly behind an element. So the byte before it
    shows whether the text is a list. The blocks raise LongRecordError for a line that is too long, if the policy for
    bad rows is to fail.
    """
    is_list, follows, text = _open(reader, options, begin, end)
    size = options.block_bytes
    if is_list:
        if end is not None:  # the list does not end there
            _, follows, text = _open(reader, options, begin, None)
        elements = ListElements(text, reader.url, size=size, at=begin.at, lines=begin.lines, follows=follows)
        return ListPosition(reader.url, begin, elements), blocks(elements, last_line_end, size=size)
    position, text = FilePosition(reader.url, begin), until(text, end, reader.url)
    if options.on_bad_row == "fail":
        return position, blocks_of_lines(text, size=size)
    return position, _blocks_without_long_lines(text, size=size)


def _open(
    reader: ObjectReader, options: ReadOptions, begin: ResumePoint, end: ResumePoint | None
) -> tuple[bool, bool, Iterator[Any]]:
    """Return whether the text is a list, whether an element must follow, and the text between two points."""
    text = decoded(reader, compression=options.compression, start=max(0, begin.at - 1), end=end.at if end else None)
    if begin.at:
        return take_rest(text)
    is_list, text = take_list(text)
    return is_list, False, text


def last_line_end(data: bytes) -> int:
    """Return where the last whole line of a text ends."""
    return data.rfind(b"\n") + 1


def long_line_reason(more: str = "") -> str:
    """Return the reason of the error of a line that is too long."""
    return f"the line is longer than {limits.MAX_RECORD_BYTES >> 20} MiB{more}; is each record on a line of its own?"


def _blocks_without_long_lines(chunks: Iterable[Any], *, size: int) -> Iterator[memoryview]:
    """Yield blocks of whole lines; a line that is too long becomes a block that is a view of a LongLine.

    A block after a long line begins as if the text began there.
    """
    head, length = b"", 0  # of a long line that has begun

    def cut(data: bytes) -> int:
        if length:
            return data.find(b"\n") + 1 or len(data)
        end = last_line_end(data)
        return len(data) if not end and len(data) >= limits.MAX_RECORD_BYTES else end

    for block in blocks(chunks, cut, size=size):
        rest = block
        if length or (len(block) >= limits.MAX_RECORD_BYTES and b"\n" not in bytes(block)):
            end = bytes(block).find(b"\n") + 1
            head, length, rest = head or bytes(block[:_KEPT]), length + (end or len(block)), block[end or len(block) :]
            if end:
                yield _long_line(head, length)
                head, length = b"", 0
        if rest:
            yield rest
    if length:
        yield _long_line(head, length)


def _long_line(head: bytes, size: int) -> memoryview:
    line = LongLine(head)
    line.size = size
    return memoryview(line)
