"""Change the copy of a workbook where the library would read other cells than Excel shows, or none.

- .xls: a chart, on a sheet or as one, holds cells of its own, which the library takes for those of the sheet.
- All but .ods: formats of dates that are known by their number alone, as those of East Asian and Thai versions of Excel
  are, look like those of numbers; in .xls also such ones with a text.
- .xlsx: a second `workbookPr`, which Excel for Mac writes into an extension, hides that dates count from 1904.
- .xlsx: an error that the library does not know ends its reading. It becomes the text `ODD_ERROR`, with it behind.
- .xlsx and .ods: a formula that was never computed has no value, and looks like an empty cell. It becomes the text
  `UNSAVED`, followed by the name of the cell where the file has it.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO

from singer_arrow.compression import read_varint

ODD_ERROR = "\ue000error\ue000"
UNSAVED = "\ue000formula without a saved value\ue000"
_PIECE, _LONGEST_CELL = 1 << 20, 64 << 10

# A cell with a formula: <c r="D2" t="str"><f>B2*C2</f><v>19</v></c>. That of a text that is empty has an empty <v>.
_FORMULA = re.compile(
    rb"<((?:\w+:)?)c\b(?P<about>[^>]*)>\s*<\1f\b(?:[^>]*/>|[^>]*[^/>]>[^<]*</\1f>|>[^<]*</\1f>)\s*"
    rb"(?P<value><\1v\s*/>|<\1v>\s*</\1v>)?\s*</\1c>"
)
_IS_TEXT, _NAME, _KIND = re.compile(rb'\bt="str"'), re.compile(rb'\br="([A-Z]+\d+)"'), re.compile(rb'\s\w+="[^"]*"')
_ERROR = re.compile(
    rb"<((?:\w+:)?)c\b(?P<about>[^>]*\bt=\"e\"[^>]*)>\s*(?:<\1f\b(?:[^>]*/>|[^>]*>[^<]*</\1f>)\s*)?"
    rb"<\1v>(?P<text>#[^<]*)</\1v>\s*</\1c>"
)
_KNOWN_ERRORS = {b"#DIV/0!", b"#N/A", b"#NAME?", b"#NULL!", b"#NUM!", b"#REF!", b"#VALUE!"}
_ODS_FORMULA = re.compile(rb"<table:table-cell\b(?P<about>[^>]*\btable:formula=[^>]*?)(?:/>|>\s*</table:table-cell>)")
_SECOND_PROPERTIES = re.compile(rb"<((?:\w+:)?)extLst\b.*?</\1extLst>", re.DOTALL)
_PROPERTIES = re.compile(rb"<(?:\w+:)?workbookPr\b")


def repair(workbook: Path) -> None:
    """Change a workbook on local disk; a file that is none is left to the library, which says so."""
    if workbook.suffix == ".xls":
        with workbook.open("r+b") as file:
            repair_records(file)
        return
    if not zipfile.is_zipfile(workbook):
        return
    changed = dict[str, bytes]()
    with zipfile.ZipFile(workbook) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                if _has_any(archive, name, _is_unsaved, _FORMULA) or _has_any(archive, name, _is_odd, _ERROR):
                    changed[name] = _ERROR.sub(_marked_error, _FORMULA.sub(_marked, archive.read(name)))
            elif name == "content.xml" and _has_any(archive, name, _is_unsaved, _ODS_FORMULA):
                changed[name] = _ODS_FORMULA.sub(_marked_ods, archive.read(name))
            elif name in _STYLES and (styles := _STYLES[name](text := archive.read(name))) != text:
                changed[name] = styles
            elif name == "xl/workbook.xml" and len(_PROPERTIES.findall(text := archive.read(name))) > 1:
                changed[name] = _SECOND_PROPERTIES.sub(b"", text)
    if changed:
        _replace(workbook, changed)


def _replace(workbook: Path, members: Mapping[str, bytes]) -> None:
    """Replace members of a zip archive: the new ones come behind all others, and its directory names only these."""
    with zipfile.ZipFile(workbook, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.filelist[:] = [info for info in archive.filelist if info.filename not in members]
        for name, data in members.items():
            archive.NameToInfo.pop(name)
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=zipfile.ZIP_DEFLATED, compresslevel=1)


# Formulas without a saved value, and errors that the library does not know.


def _has_any(
    archive: zipfile.ZipFile, name: str, is_one: Callable[[re.Match[bytes]], bool], cell: re.Pattern[bytes]
) -> bool:
    """Return whether a sheet has a cell of a pattern that is one to be changed."""
    with archive.open(name) as file:
        return any(map(is_one, chain.from_iterable(map(cell.finditer, _pieces(file)))))


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield a text in pieces that overlap, so that each cell is whole in one of them."""
    held = b""
    while data := file.read(_PIECE):
        yield held + data
        held = (held + data)[-_LONGEST_CELL:]


def _is_unsaved(found: re.Match[bytes]) -> bool:
    if found.re is _ODS_FORMULA:
        return b"office:value-type=" not in found["about"]
    return not (found["value"] and _IS_TEXT.search(found["about"]))


def _is_odd(found: re.Match[bytes]) -> bool:
    return found["text"] not in _KNOWN_ERRORS


def _marked_error(found: re.Match[bytes]) -> bytes:
    if not _is_odd(found):
        return found[0]
    about, prefix = re.sub(rb'\bt="e"', b't="str"', found["about"]), found[1]
    return b"<%bc%b><%bv>%b</%bv></%bc>" % (prefix, about, prefix, ODD_ERROR.encode() + found["text"], prefix, prefix)


def _marked(found: re.Match[bytes]) -> bytes:
    if not _is_unsaved(found):
        return found[0]
    name, prefix = _NAME.search(found["about"]), found[1]
    about = b"".join(text for text in _KIND.findall(found["about"]) if not text.lstrip().startswith(b't="'))
    text = UNSAVED.encode() + (name[1] if name else b"")
    return b'<%bc%b t="str"><%bv>%b</%bv></%bc>' % (prefix, about, prefix, text, prefix, prefix)


def _marked_ods(found: re.Match[bytes]) -> bytes:
    if not _is_unsaved(found):
        return found[0]
    about = re.sub(rb'\stable:formula="[^"]*"', b"", found["about"])
    text = b"<text:p>%b</text:p>" % UNSAVED.encode()
    return b'<table:table-cell%b office:value-type="string">%b</table:table-cell>' % (about, text)


# Formats of dates, by their numbers if they have no text: ECMA-376, part 1, 18.8.30.

_DATES = {*range(27, 37), *range(50, 59), *range(71, 79), 80, 81}
_USUAL = dict.fromkeys(_DATES, 22) | {79: 46}
"""Numbers of formats of dates and elapsed times that the library does not know, with those of ones that it knows."""
_FIRST_OWN = 164
"""From this number on, the library looks at the text of a format."""
_NO_TOKEN = re.compile(r'"[^"]*"?|[\\_*].|\[(?![hmsHMS]+\])[^\]]*\]', re.DOTALL)
_OWN_FORMATS = re.compile(rb"<((?:\w+:)?)numFmts\b.*?</\1numFmts>", re.DOTALL)
_OWN_FORMAT = re.compile(rb"""<(?:\w+:)?numFmt\b[^>]*?\snumFmtId=["'](\d+)["']""")
_CELL_STYLE = re.compile(rb"""(<(?:\w+:)?xf\b[^>]*?\snumFmtId=["'])(\d+)(?=["'])""")
_FORMAT_BIN, _STYLE_BIN = 44, 47


def _usual_for(text: str) -> int | None:
    """Return the number of a known format of dates or elapsed times that is like one with a text; None for others."""
    tokens = _NO_TOKEN.sub("", text).partition(";")[0].lower()
    return 46 if "[" in tokens else 22 if set("dmyhs").intersection(tokens) else None


def _usual_styles(text: bytes) -> bytes:
    """Return the styles of an .xlsx file with formats that the library knows."""
    own = {int(n) for block in _OWN_FORMATS.finditer(text) for n in _OWN_FORMAT.findall(block[0])}

    def usual(found: re.Match[bytes]) -> bytes:
        number = int(found[2])
        return found[1] + str(number if number in own else _USUAL.get(number, number)).encode()

    return _CELL_STYLE.sub(usual, text)


def _usual_records(text: bytes) -> bytes:
    """Return the styles of an .xlsb file with formats that the library knows; a damaged one stays as it is."""
    data, at, own, styles = bytearray(text), 0, set[int](), list[int]()
    try:
        while at < len(text):
            kind, used = read_varint(text[at : at + 2], 0)
            size, more = read_varint(text[at + used : at + used + 4], 0)
            at += used + more
            if kind == _FORMAT_BIN:
                own.add(int.from_bytes(text[at : at + 2], "little"))
            elif kind == _STYLE_BIN:
                styles.append(at + 2)
            at += size
    except IndexError:
        return text
    for place in styles:
        number = int.from_bytes(data[place : place + 2], "little")
        if number in _USUAL and number not in own:
            data[place : place + 2] = _USUAL[number].to_bytes(2, "little")
    return bytes(data)


_STYLES: Mapping[str, Callable[[bytes], bytes]] = {
    "xl/styles.xml": _usual_styles,
    "xl/styles.bin": _usual_records,
}


# Records of an .xls file: BIFF records in a stream of a compound file, which is a chain of sectors.
#
# https://learn.microsoft.com/en-us/openspecs/office_file_formats/ms-xls and ms-cfb

_BEGIN, _END, _FORMAT, _STYLE, _NO_RECORD = 0x0809, 0x000A, 0x041E, 0x00E0, 0xFFFE
_CHART, _UNICODE = 0x20, 0x0600  # what begins, and its version
_NO_SECTOR = 0xFFFFFFFA  # and above
_STREAMS = tuple(name.encode("utf-16-le") for name in ("Workbook", "Book"))


def repair_records(file: IO[bytes]) -> None:
    """Hide the records of charts, and give styles formats that the library knows; a damaged file stays as it is."""
    data = bytearray(file.read())
    try:
        size, places = _sectors_of_workbook(data)
    except (struct.error, IndexError, ValueError):
        return

    def spots(at: int, count: int) -> list[int]:
        """Return where bytes of the stream are in the file; two sectors may share them."""
        return [places[n // size] + n % size for n in range(at, at + count)]

    def number(at: int) -> int:
        low, high = spots(at, 2)
        return data[low] | data[high] << 8

    def set_number(at: int, value: int) -> None:
        low, high = spots(at, 2)
        data[low], data[high] = value & 0xFF, value >> 8

    def text_at(at: int) -> str:
        """Return a text of the stream, whose length comes first."""
        if not is_unicode:
            return bytes(data[n] for n in spots(at + 1, data[spots(at, 1)[0]])).decode("latin-1")
        wide = data[spots(at + 2, 1)[0]] & 1
        raw = bytes(data[n] for n in spots(at + 3, number(at) << wide))
        return raw.decode("utf-16-le" if wide else "latin-1", errors="replace")

    depth, at, is_chart, is_unicode, styles, known = 0, 0, False, True, list[int](), dict[int, int | None](_USUAL)
    while at + 8 <= len(places) * size:
        kind, length = number(at), number(at + 2)
        depth += kind == _BEGIN
        if kind == _BEGIN and depth == 1:
            is_unicode, is_chart = number(at + 4) == _UNICODE, number(at + 6) == _CHART
        if depth > 1 or (is_chart and kind not in (_BEGIN, _END)):
            set_number(at, _NO_RECORD)
        elif kind == _FORMAT and number(at + 4) < _FIRST_OWN:
            known[number(at + 4)] = _usual_for(text_at(at + 6))
        elif kind == _STYLE:
            styles.append(at + 6)
        depth -= kind == _END
        if depth < 0 or (depth == 0 and kind != _END):
            break
        at += 4 + length
    for place in styles:
        if (usual := known.get(number(place))) is not None:
            set_number(place, usual)
    file.seek(0)
    file.write(data)


def _sectors_of_workbook(data: bytearray) -> tuple[int, list[int]]:
    """Return the size of sectors, and where those of the stream with the workbook begin."""
    size: int = 1 << struct.unpack_from("<H", data, 30)[0]

    def sector(number: int) -> int:
        return (number + 1) * size

    def numbers(at: int, count: int) -> list[int]:
        return list(struct.unpack_from(f"<{count}I", data, at))

    tables, following, left = numbers(76, 109), *numbers(68, 2)
    for _ in range(left):
        *more, following = numbers(sector(following), size // 4)
        tables += more
    table = [n for place in tables if place < _NO_SECTOR for n in numbers(sector(place), size // 4)]

    def chain_from(number: int) -> list[int]:
        found = list[int]()
        while number < _NO_SECTOR and len(found) <= len(table):
            found.append(sector(number))
            number = table[number]
        return found

    least = numbers(56, 1)[0]  # smaller streams are elsewhere, and hold no chart
    for place in chain_from(numbers(48, 1)[0]):
        for entry in range(place, place + size, 128):
            name = bytes(data[entry : entry + max(0, struct.unpack_from("<H", data, entry + 64)[0] - 2)])
            first, length = numbers(entry + 116, 2)
            if name in _STREAMS and length >= least:
                return size, chain_from(first)
    return size, []
