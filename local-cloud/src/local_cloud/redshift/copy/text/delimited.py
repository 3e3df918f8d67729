"""Reader of delimited text and CSV: by Arrow, or record by record where Arrow differs or a record is wrong."""

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as arrow_csv

from local_cloud.redshift import errors
from local_cloud.redshift.copy.columns import STRING
from local_cloud.redshift.copy.command import CopyCommand
from local_cloud.redshift.copy.sources import File
from local_cloud.redshift.copy.text import blocks, utf8
from local_cloud.redshift.copy.text.blocks import Block
from local_cloud.redshift.copy.text.pieces import Load, Piece
from local_cloud.redshift.copy.text.records import Record, careful, quick
from local_cloud.redshift.errors import BadValue, unsupported

LONGEST_ROW = 4 << 20
Fields = tuple[list[str], list[int]]


def pieces(load: Load, file: File) -> Iterator[Piece]:
    """Yield the rows of a file and record wrong records."""
    for column in load.columns:
        if column.type == "varbyte" and load.command.format != "csv":
            raise unsupported(f"VARBYTE from delimited text (column {column.name}); Redshift takes CSV and Parquet")
    header = load.command.ignore_header
    for block in blocks.blocks(load, file, _ending(load)):
        data, line = block.data, block.line
        while header and data:
            end = data.find(b"\n") + 1 or len(data)
            data, line, header = data[end:], line + 1, header - 1
        found = _rows(load, file, Block(data, line)) if data else None
        if found:
            yield found


def _ending(load: Load) -> blocks.Ending:
    if load.command.format == "csv":
        return blocks.last_unquoted_line(load.command.quote.encode())
    return blocks.last_unescaped_line if load.command.has("escape") else blocks.last_line


def _rows(load: Load, file: File, block: Block) -> Piece | None:
    if load.command.invalid is not None and utf8.bad_bytes(block.data):
        replaced = block.data.decode("utf-8", utf8.replace_with(load.command.invalid)).encode()
        block = Block(replaced, block.line)
    texts = _at_once(load, block.data)
    if texts is not None:
        found, right = quick(load, texts)
        if right:
            return found
    return careful(load, file, list(records(load, block)))


def _at_once(load: Load, data: bytes) -> list[pa.Array] | None:
    """Return the columns, or None unless Arrow reads the block exactly as Redshift does."""
    command = load.command
    quote = command.quote.encode() if command.format == "csv" else b""
    if _is_odd(command, data, quote):
        return None
    names = [str(place) for place in range(len(load.columns))]
    null = command.null_text
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            arrow_csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            arrow_csv.ParseOptions(
                delimiter=command.delimiter,
                quote_char=command.quote if quote else False,
                newlines_in_values=bool(quote) and quote in data,
                ignore_empty_lines=command.has("ignoreblanklines"),
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, STRING),
                null_values=[null] if null else [],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    return [column.combine_chunks() for column in table.columns]


def _is_odd(command: CopyCommand, data: bytes, quote: bytes) -> bool:
    """Whether a block may contain something that Arrow reads differently."""
    if len(command.delimiter.encode()) > 1 or len(data) > LONGEST_ROW or b"\0" in data:
        return True
    if data.count(b"\r") != data.count(b"\r\n"):
        return True
    # Arrow reads a blank line as a record of empty fields.
    blank = b"\n\n" in data or b"\n\r\n" in data or data.startswith((b"\n", b"\r\n"))
    if blank and not command.has("ignoreblanklines"):
        return True
    if quote:
        return quote in data and not _well_quoted(data, command.delimiter.encode(), quote)
    escaped = command.has("escape") and b"\\" in data
    return escaped or (command.has("removequotes") and (b'"' in data or b"'" in data))


def _well_quoted(data: bytes, delimiter: bytes, quote: bytes) -> bool:
    """Whether quotes enclose whole fields only."""
    edge, mark = re.escape(delimiter), re.escape(quote)
    # The pattern begins with the quote itself, which the search finds quickly.
    inside = rb"(?:[^" + mark + rb"]++|" + mark * 2 + rb")*+"
    field = re.compile(
        mark + rb"(?<=[\n" + edge + rb"]" + mark + rb")" + inside + mark + rb"(?=[\r\n" + edge + rb"]|\Z)"
    )
    return b"".join(field.findall(b"\n" + data)).count(quote) == data.count(quote)


def records(load: Load, block: Block) -> Iterator[Record]:
    """Yield the records one by one."""
    command = load.command
    text = block.data.decode("utf-8", "surrogateescape")
    split = _csv if command.format == "csv" else _delimited
    at, line = 0, block.line
    while at < len(text):
        end, fields, wrong = split(load, text, at)
        raw = text[at:end].rstrip("\n").removesuffix("\r")
        following = line + text.count("\n", at, end)
        if raw or not command.has("ignoreblanklines"):
            yield _record(load, line, raw, fields, wrong)
        at, line = end, following


def _record(load: Load, line: int, raw: str, fields: Fields, wrong: BadValue | None) -> Record:
    found, starts = fields
    bad = utf8.bad_text(raw)
    if wrong is None and bad is not None:
        place = next((place for place, field in enumerate(found) if utf8.bad_text(field) is not None), None)
        known = place is not None and place < len(load.columns)
        shown = [field.encode(errors="surrogateescape").decode(errors="replace") for field in found]
        return Record(line, raw, shown, starts, BadValue(errors.UTF8, utf8.reason(bad)), place if known else None)
    if wrong is None and len(raw.encode(errors="surrogateescape")) > LONGEST_ROW:
        wrong = BadValue(errors.INVALID_LINE, f"The row is longer than {LONGEST_ROW} bytes")
    missing = len(load.columns) - len(found)
    if wrong is None and missing < 0:
        wrong = BadValue(errors.EXTRA_COLUMNS, "Extra column(s) found")
    if wrong is None and missing > 0 and not load.command.has("fillrecord"):
        wrong = BadValue(errors.DELIMITER, "Delimiter not found")
    if wrong is not None:
        return Record(line, raw, wrong=wrong)
    null = load.command.null_text
    filled: list[str | None] = [None if field == null else field for field in found]
    # A missing text is an empty one; any other empty field is NULL.
    return Record(line, raw, [*filled, *([""] * missing)], [*starts, *([len(raw)] * missing)])


def _csv(load: Load, text: str, at: int) -> tuple[int, Fields, BadValue | None]:
    """Return the end of a CSV record, its fields, and its error, if any."""
    delimiter, quote = load.command.delimiter, load.command.quote
    fields: list[str] = []
    starts: list[int] = []
    here = at
    while True:
        starts.append(here - at)
        opening = _after_blanks(text, here, delimiter)
        if text.startswith(quote, opening):
            field, here = _quoted(text, opening, quote)
            here = _after_blanks(text, here, delimiter)
            if field is None or not (here == len(text) or text.startswith((delimiter, "\n", "\r\n"), here)):
                end = text.find("\n", here) + 1 or len(text)
                return end, (fields, starts), BadValue(errors.INVALID_LINE, "Invalid quote formatting for CSV")
        else:
            stop = _stop(text, here, delimiter)
            field = text[here:stop]
            if not text.startswith(delimiter, stop):
                field = field.removesuffix("\r")
            if quote in field:
                end = text.find("\n", stop) + 1 or len(text)
                return end, (fields, starts), BadValue(errors.INVALID_LINE, "Invalid quote formatting for CSV")
            here = stop
        fields.append(field)
        if text.startswith(delimiter, here):
            here += len(delimiter)
            continue
        return text.find("\n", here) + 1 or len(text), (fields, starts), None


def _after_blanks(text: str, at: int, delimiter: str) -> int:
    """Return the position after blanks between a delimiter and a quote."""
    while at < len(text) and text[at] in " \t" and text[at] != delimiter:
        at += 1
    return at


def _quoted(text: str, at: int, quote: str) -> tuple[str | None, int]:
    """Return a quoted field and its end; the field is None if its quote is not closed."""
    here = at + 1
    while True:
        end = text.find(quote, here)
        if end < 0:
            return None, len(text)
        if not text.startswith(quote, end + 1):
            return text[at + 1 : end].replace(quote * 2, quote), end + 1
        here = end + 2


def _stop(text: str, at: int, delimiter: str) -> int:
    """Return the position of the next delimiter or line end."""
    line = text.find("\n", at)
    line = len(text) if line < 0 else line
    found = text.find(delimiter, at, line)
    return line if found < 0 else found


def _delimited(load: Load, text: str, at: int) -> tuple[int, Fields, BadValue | None]:
    """Return the end of a delimited record, its fields, and its error. A NUL ends it as a line end does."""
    command = load.command
    end = _line_end(text, at, escape=command.has("escape"))
    raw = text[at:end]
    following = min(end + 1, len(text))
    if not (command.has("escape") and re.search(r"(?<!\\)(?:\\\\)*\\\r\Z", raw)):
        raw = raw.removesuffix("\r")
    if not (command.has("escape") or command.has("removequotes")):
        fields = raw.split(command.delimiter)
        starts = [0]
        for field in fields[:-1]:
            starts.append(starts[-1] + len(field) + len(command.delimiter))
        return following, (fields, starts), None
    fields, starts, wrong = _kept_fields(load, raw)
    return following, (fields, starts), wrong


def _line_end(text: str, at: int, *, escape: bool) -> int:
    for match in re.compile(r"\\.|[\n\0]" if escape else r"[\n\0]", re.DOTALL).finditer(text, at):
        if match.group() in ("\n", "\0"):
            return match.start()
    return len(text)


def _kept_fields(load: Load, raw: str) -> tuple[list[str], list[int], BadValue | None]:
    """Return the fields of a record in which backslashes or quotes protect delimiters."""
    command = load.command
    delimiter, escape, quotes = command.delimiter, command.has("escape"), command.has("removequotes")
    fields: list[str] = []
    starts: list[int] = []
    here, start, out, quote = 0, 0, "", ""
    while here < len(raw):
        character = raw[here]
        if escape and character == "\\" and here + 1 < len(raw):
            whole = "\\N" if raw.startswith("\\N", here) and not out else raw[here + 1]
            out, here = out + whole, here + 2
        elif quote and character == quote:
            quote, here = "", here + 1
        elif quotes and not quote and here == start and character in "\"'":
            quote, here = character, here + 1
        elif not quote and raw.startswith(delimiter, here):
            fields.append(out)
            starts.append(start)
            here += len(delimiter)
            start, out = here, ""
        else:
            out, here = out + character, here + 1
    wrong = BadValue(errors.DELIMITER, "Delimiter not found: a quote is not closed") if quote else None
    return [*fields, out], [*starts, start], wrong
