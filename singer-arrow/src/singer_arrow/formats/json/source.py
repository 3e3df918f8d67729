"""A text of JSON from some place on, in blocks of lines, whether it is lines or a list; and where in it one is."""

from __future__ import annotations

from collections.abc import Iterator

from singer_arrow.errors import DataError
from singer_arrow.formats.json.array_document import Elements, of_element, take_list, take_rest
from singer_arrow.formats.json.bad_rows import Fault
from singer_arrow.formats.json.line_blocks import blocks_without_long_lines, last_line_end
from singer_arrow.formats.json.parser import Parsed
from singer_arrow.read_options import ReadOptions
from singer_arrow.read_progress import ResumePoint
from singer_arrow.reading.object_reader import ObjectReader
from singer_arrow.reading.text_blocks import blocks, blocks_of_lines, decoded


class Source:
    """The text of an object, as it is read.

    A place in lines stands after a line break, one in a list right after an element, which ends with none. So the byte
    before a place tells which it is.

    Args:
        reader: The object.
        options: How it is read.
        place: Where to begin.
    """

    def __init__(self, reader: ObjectReader, options: ReadOptions, place: ResumePoint) -> None:
        self._url, self._options, self.place = reader.url, options, place
        text = decoded(reader, compression=options.compression, start=max(0, place.at - 1))
        begun = False
        if place.at:
            is_list, begun, self._text = take_rest(text)
        else:
            is_list, self._text = take_list(text)
        self._elements = (
            Elements(self._text, reader.url, size=options.block_bytes, at=place.at, lines=place.lines, begun=begun)
            if is_list
            else None
        )

    def blocks(self) -> Iterator[memoryview]:
        """The rest of the text in blocks of whole lines; of a list, an element is one.

        Raises:
            LongRecordError: A line is too long, and bad rows are errors.
            DataError: It is no list of JSON values.
        """
        size = self._options.block_bytes
        if self._elements is not None:
            return blocks(self._elements, last_line_end, size=size)
        if self._options.on_bad_row == "fail":
            return blocks_of_lines(self._text, size=size)
        return blocks_without_long_lines(self._text, size=size)

    def line_of(self, line: int) -> int:
        """The line of the text for one (from 1) of the blocks that were not yet passed."""
        return self.place.lines + line if self._elements is None else self._elements.line_of(line)

    def error(self, fault: Fault) -> DataError:
        """What is wrong with a line of the blocks that were not yet passed."""
        reason, line = fault.reason, self.line_of(fault.line)
        return DataError(
            reason if self._elements is None else of_element(reason), url=self._url, line=line, column=fault.column
        )

    def passed(self, parsed: Parsed) -> None:
        """A block and its rows are done with."""
        rows = self.place.rows + (parsed.settled.batch.num_rows if parsed.settled.batch is not None else 0)
        if self._elements is None:
            self.place = ResumePoint(rows, self.place.at + parsed.size, self.place.lines + parsed.lines)
        else:
            self.place = ResumePoint(rows, *self._elements.passed(parsed.lines))
