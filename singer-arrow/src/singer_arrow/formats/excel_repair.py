"""Change the copy of a workbook where the library would read other cells than Excel shows, or none.

- .xls: a chart on a sheet holds cells of its own, which the library takes for those of the sheet.
- .xlsx: a second `workbookPr`, which Excel for Mac writes into an extension, hides that dates count from 1904.
- .xlsx and .ods: a formula that was never computed has no value, and looks like an empty cell. It becomes the text
  `UNSAVED`, followed by the name of the cell where the file has it.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import IO

UNSAVED = "\ue000formula without a saved value\ue000"
_PIECE, _LONGEST_CELL = 1 << 20, 64 << 10

# A cell with a formula: <c r="D2" t="str"><f>B2*C2</f><v>19</v></c>. That of a text that is empty has an empty <v>.
_FORMULA = re.compile(
    rb"<((?:\w+:)?)c\b(?P<about>[^>]*)>\s*<\1f\b(?:[^>]*/>|[^>]*[^/>]>[^<]*</\1f>|>[^<]*</\1f>)\s*"
    rb"(?P<value><\1v\s*/>|<\1v>\s*</\1v>)?\s*</\1c>"
)
_IS_TEXT, _NAME, _KIND = re.compile(rb'\bt="str"'), re.compile(rb'\br="([A-Z]+\d+)"'), re.compile(rb'\s\w+="[^"]*"')
_ODS_FORMULA = re.compile(rb"<table:table-cell\b(?P<about>[^>]*\btable:formula=[^>]*?)(?:/>|>\s*</table:table-cell>)")
_SECOND_PROPERTIES = re.compile(rb"<((?:\w+:)?)extLst\b.*?</\1extLst>", re.DOTALL)
_PROPERTIES = re.compile(rb"<(?:\w+:)?workbookPr\b")


def repair(workbook: Path) -> None:
    """Change a workbook on local disk; a file that is none is left to the library, which says so."""
    if workbook.suffix == ".xls":
        with workbook.open("r+b") as file:
            hide_charts(file)
        return
    if not zipfile.is_zipfile(workbook):
        return
    changed = dict[str, bytes]()
    with zipfile.ZipFile(workbook) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml") and _has_unsaved(archive, name, _FORMULA):
                changed[name] = _FORMULA.sub(_marked, archive.read(name))
            elif name == "content.xml" and _has_unsaved(archive, name, _ODS_FORMULA):
                changed[name] = _ODS_FORMULA.sub(_marked_ods, archive.read(name))
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


# Formulas without a saved value.


def _has_unsaved(archive: zipfile.ZipFile, name: str, formula: re.Pattern[bytes]) -> bool:
    with archive.open(name) as file:
        return any(_is_unsaved(found) for found in chain.from_iterable(map(formula.finditer, _pieces(file))))


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


# Charts on the sheets of an .xls file: BIFF records in a stream of a compound file, which is a chain of sectors.
#
# https://learn.microsoft.com/en-us/openspecs/office_file_formats/ms-xls and ms-cfb

_BEGIN, _END, _NO_RECORD = 0x0809, 0x000A, 0xFFFE
_NO_SECTOR = 0xFFFFFFFA  # and above
_STREAMS = tuple(name.encode("utf-16-le") for name in ("Workbook", "Book"))


def hide_charts(file: IO[bytes]) -> None:
    """Give the records of charts within sheets a number that means nothing; a damaged file stays as it is."""
    data = bytearray(file.read())
    try:
        size, places = _sectors_of_workbook(data)
    except (struct.error, IndexError, ValueError):
        return

    def spot(at: int) -> int:
        return places[at // size] + at % size

    depth = at = 0
    while at + 4 <= len(places) * size:
        head = [spot(at + n) for n in range(4)]  # two sectors may share it
        kind, length = struct.unpack("<HH", bytes(data[n] for n in head))
        depth += kind == _BEGIN
        if depth > 1:
            data[head[0]], data[head[1]] = struct.pack("<H", _NO_RECORD)
        depth -= kind == _END
        if depth < 0 or (depth == 0 and kind != _END):
            break
        at += 4 + length
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
