"""Write Excel workbooks of given cells with minimal content; the same cells give the same bytes."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STYLES = ["General", "yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss", "hh:mm:ss", "[h]:mm:ss"]
_CODES = {"#NULL!": 0, "#DIV/0!": 7, "#VALUE!": 15, "#REF!": 23, "#NAME?": 29, "#NUM!": 36, "#N/A": 42}
_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - Excel knows no zone
_FOUR_YEARS = timedelta(days=1462)  # between the days from which dates count
_EXTENSION = '<ext uri="{79F54976}"><x:workbookPr xmlns:x="urn:excel" defaultImageDpi="32767"/></ext>'


@dataclass(frozen=True)
class Error:
    """An error value, such as `#N/A`."""

    text: str


@dataclass(frozen=True)
class Serial:
    """A number formatted as a date or time."""

    number: float
    style: str = "yyyy-mm-dd hh:mm:ss"


Cell = None | bool | int | float | str | date | datetime | time | timedelta | Error | Serial


def xlsx(
    sheets: Mapping[str, Sequence[Sequence[Cell]]],
    *,
    merged: Sequence[str] = (),
    since_1904: bool = False,
    extended: bool = False,
    date_format: int = 0,
) -> bytes:
    """Return an XLSX workbook; `merged` are ranges of its first sheet.

    Its dates may count from 1904, and its properties may be `extended`, both as Excel for Mac does it. Dates have the
    format of a number without a text, if it is given.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:

        def add(name: str, text: str) -> None:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>' + text)

        numbers = range(1, len(sheets) + 1)
        kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
        add(
            "[Content_Types].xml",
            f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
            f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
            f'<Override PartName="/xl/styles.xml" ContentType="{kind}.styles+xml"/>'
            + "".join(
                f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{kind}.worksheet+xml"/>'
                for n in numbers
            )
            + "</Types>",
        )
        add("_rels/.rels", _relations([("officeDocument", "xl/workbook.xml")]))
        add(
            "xl/_rels/workbook.xml.rels",
            _relations([*(("worksheet", f"worksheets/sheet{n}.xml") for n in numbers), ("styles", "styles.xml")]),
        )
        listed = "".join(
            f'<sheet name="{escape(name)}" sheetId="{n}" r:id="rId{n}"/>' for n, name in enumerate(sheets, 1)
        )
        about = f'<workbookPr date1904="{int(since_1904)}"/>' if since_1904 or extended else ""
        more = (
            f'<extLst><ext uri="{{79F54976-1DA5-4618-B147-4CDE4B953A38}}">{_EXTENSION}</ext></extLst>'
            if extended
            else ""
        )
        places = f'xmlns="{MAIN}" xmlns:r="{OFFICE}"'
        add("xl/workbook.xml", f"<workbook {places}>{about}<sheets>{listed}</sheets>{more}</workbook>")
        add("xl/styles.xml", _styles(date_format))
        for n, rows in enumerate(sheets.values(), 1):
            places = "".join(f'<mergeCell ref="{place}"/>' for place in merged) if n == 1 else ""
            joined = f"<mergeCells>{places}</mergeCells>" if places else ""
            cells = _rows(rows, since_1904=since_1904)
            text = f'<worksheet xmlns="{MAIN}"><sheetData>{cells}</sheetData>{joined}</worksheet>'
            add(f"xl/worksheets/sheet{n}.xml", text)
    return out.getvalue()


def ods(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> bytes:
    """Return an OpenDocument spreadsheet."""
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    tables = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    spaces = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(zipfile.ZipInfo("mimetype"), kind)
        body = f"<office:body><office:spreadsheet>{tables}</office:spreadsheet></office:body>"
        file.writestr(
            zipfile.ZipInfo("content.xml"), f"<office:document-content{spaces}>{body}</office:document-content>"
        )
        manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
        file.writestr(zipfile.ZipInfo("META-INF/manifest.xml"), f'<manifest:manifest xmlns:manifest="{manifest}"/>')
    return out.getvalue()


def _ods_cell(cell: Cell) -> str:
    def made(kind: str, attribute: str, value: object) -> str:
        return f'<table:table-cell office:value-type="{kind}" office:{attribute}="{value}"/>'

    match cell:
        case None:
            return "<table:table-cell/>"
        case bool():
            return made("boolean", "boolean-value", str(cell).lower())
        case str():
            return f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
        case datetime() | date():
            return made("date", "date-value", cell.isoformat())
        case time():
            return made("time", "time-value", cell.strftime("PT%HH%MM%SS"))
        case timedelta():
            hours, rest = divmod(int(cell.total_seconds()), 3600)
            return made("time", "time-value", f"PT{hours:02}H{rest // 60:02}M{rest % 60:02}S")
        case int() | float():
            return made("float", "value", repr(cell))
        case _:
            raise AssertionError(cell)


def _relations(targets: Sequence[tuple[str, str]]) -> str:
    relationships = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{relationships}</Relationships>'


def _styles(date_format: int) -> str:
    formats = "".join(f'<numFmt numFmtId="{164 + n}" formatCode="{text}"/>' for n, text in enumerate(STYLES))
    numbers = [0, date_format or 165, *range(166, 164 + len(STYLES))]
    cells = "".join(f'<xf numFmtId="{number}"/>' for number in numbers)
    return f'<styleSheet xmlns="{MAIN}"><numFmts>{formats}</numFmts><cellXfs>{cells}</cellXfs></styleSheet>'


def _rows(rows: Sequence[Sequence[Cell]], *, since_1904: bool) -> str:
    def written(place: str, cell: Cell) -> str:
        return _cell(place, cell - _FOUR_YEARS if since_1904 and isinstance(cell, date) else cell)

    return "".join(
        f'<row r="{r}">{"".join(written(f"{_origins(c)}{r}", cell) for c, cell in enumerate(row))}</row>'
        for r, row in enumerate(rows, 1)
    )


def _origins(column: int) -> str:
    return (_origins(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


def _cell(place: str, cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case bool():
            return f'<c r="{place}" t="b"><v>{int(cell)}</v></c>'
        case str():
            return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
        case Error(text):
            return f'<c r="{place}" t="e"><v>{text}</v></c>'
        case Serial(number, style):
            return f'<c r="{place}" s="{STYLES.index(style)}"><v>{number!r}</v></c>'
        case datetime():
            return _cell(place, Serial(round((cell - _EPOCH) / timedelta(days=1), 10)))
        case date():
            days = (datetime(cell.year, cell.month, cell.day) - _EPOCH).days  # noqa: DTZ001
            return _cell(place, Serial(days, "yyyy-mm-dd"))
        case time():
            seconds = timedelta(hours=cell.hour, minutes=cell.minute, seconds=cell.second)
            return _cell(place, Serial(round(seconds / timedelta(days=1), 10), "hh:mm:ss"))
        case timedelta():
            return _cell(place, Serial(round(cell / timedelta(days=1), 10), "[h]:mm:ss"))
        case _:
            return f'<c r="{place}"><v>{cell!r}</v></c>'


def xls(
    sheets: Mapping[str, Sequence[Sequence[Cell]]],
    *,
    since_1904: bool = False,
    chart: Sequence[float] = (),
    date_format: int = 14,
    format_text: str = "",
    charts_alone: Sequence[str] = (),
) -> bytes:
    """Return an Excel 97 workbook: BIFF8 records in the stream `Workbook` of a compound file.

    Each sheet has a `chart` with these cached values, if there are any, as Excel writes it; so have sheets that are
    `charts_alone`. The format of dates is known by its number, unless it has a text.
    """

    def record(kind: int, data: bytes) -> bytes:
        return struct.pack("<HH", kind, len(data)) + data

    def start(kind: int) -> bytes:
        return record(0x809, struct.pack("<HHHHII", 0x600, kind, 0, 1997, 0, 0x600))

    def cell(row: int, column: int, value: Cell) -> bytes:
        place = struct.pack("<HH", row, column)
        match value:
            case None:
                return b""
            case bool():
                return record(0x205, place + struct.pack("<HBB", 0, value, 0))
            case str():
                return record(0x204, place + struct.pack("<HHB", 0, len(value), 0) + value.encode("latin-1"))
            case Error(text):
                return record(0x205, place + struct.pack("<HBB", 0, _CODES[text], 1))
            case date():
                value -= _FOUR_YEARS if since_1904 else timedelta()
                days = (datetime(value.year, value.month, value.day) - _EPOCH).days  # noqa: DTZ001
                return record(0x203, place + struct.pack("<Hd", 1, days))
            case int() | float():
                return record(0x203, place + struct.pack("<Hd", 0, value))
            case _:
                raise AssertionError(value)

    end = record(0x0A, b"")
    bodies = []
    kinds = [*([2] * len(charts_alone)), *([0] * len(sheets))]
    for rows in (*([()] * len(charts_alone)), *sheets.values()):
        size = struct.pack("<IIHHH", 0, len(rows), 0, max(map(len, rows), default=0), 0)
        cells = b"".join(cell(r, c, value) for r, row in enumerate(rows) for c, value in enumerate(row))
        values = b"".join(record(0x203, struct.pack("<HHHd", n, 0, 0, value)) for n, value in enumerate(chart))
        drawn = start(0x20) + record(0x200, struct.pack("<IIHHH", 0, len(chart), 0, 1, 0)) + values + end
        whole = start(0x10) + record(0x200, size) + cells + (drawn if chart else b"") + end
        bodies.append(drawn if len(bodies) < len(charts_alone) else whole)
    text = struct.pack("<HHB", date_format, len(format_text), 0) + format_text.encode("latin-1")
    formats = record(0x41E, text) if format_text else b""
    formats += b"".join(record(0xE0, struct.pack("<HH16x", 0, shown)) for shown in (0, date_format))
    head = start(0x05) + record(0x42, struct.pack("<H", 1200)) + record(0x22, struct.pack("<H", since_1904)) + formats
    names = [*charts_alone, *sheets]
    at = len(head) + sum(4 + 8 + len(name) for name in names) + len(end)
    for name, kind, body in zip(names, kinds, bodies, strict=True):
        head += record(0x85, struct.pack("<IBBBB", at, 0, kind, len(name), 0) + name.encode("latin-1"))
        at += len(body)
    return _compound(head + end + b"".join(bodies))


def encrypted() -> bytes:
    """Return a password-protected workbook, as Excel writes it."""
    return _compound(b"as good as random", "EncryptedPackage")


def _compound(stream: bytes, name: str = "Workbook") -> bytes:
    """Return a compound file with one stream."""
    stream = stream.ljust(4096, b"\0")  # smaller ones are stored elsewhere
    sectors = -(-len(stream) // 512)
    none, last = 0xFFFFFFFF, 0xFFFFFFFE
    table = [0xFFFFFFFD, last, *range(3, 2 + sectors), last]

    def entry(name: str, kind: int, child: int, first: int, size: int) -> bytes:
        text = name.encode("utf-16-le")
        return struct.pack("<64sHBBIII16x20xIQ", text, len(text) + 2, kind, 1, none, none, child, first, size)

    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        0x3E,
        3,
        0xFFFE,
        9,
        6,
        *(0, 1, 1, 0, 4096, last, 0, last, 0),
    )
    header += struct.pack("<109I", 0, *[none] * 108)
    directory = entry("Root Entry", 5, 1, last, 0) + entry(name, 2, none, 2, len(stream))
    listed = struct.pack("<128I", *table, *[none] * (128 - len(table)))
    return header + listed + directory.ljust(512, b"\0") + stream.ljust(512 * sectors, b"\0")


def xlsb(sheets: Mapping[str, Sequence[Sequence[Cell]]], *, date_format: int = 14) -> bytes:
    """Return a workbook of binary records in a zip archive; dates have the format of a number."""

    def record(kind: int, data: bytes = b"") -> bytes:
        first = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
        size, length = b"", len(data)
        while length > 0x7F:
            size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
        return first + size + bytes([length]) + data

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    def cell(column: int, value: Cell) -> bytes:
        place = struct.pack("<II", column, isinstance(value, date))
        match value:
            case None:
                return b""
            case date():
                days = (datetime(value.year, value.month, value.day) - _EPOCH).days  # noqa: DTZ001
                return record(5, place + struct.pack("<d", days))
            case bool():
                return record(4, place + bytes([value]))
            case str():
                return record(6, place + text(value))
            case Error(error_name):
                return record(3, place + bytes([_CODES[error_name]]))
            case int() | float():
                return record(5, place + struct.pack("<d", value))
            case _:
                raise AssertionError(value)

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        kind = '<Default Extension="bin" ContentType="application/vnd.ms-excel.sheet.binary.main"/>'
        types = f'<Types xmlns="{PACKAGE}/content-types">{kind}</Types>'
        file.writestr(zipfile.ZipInfo("[Content_Types].xml"), types)
        file.writestr(zipfile.ZipInfo("_rels/.rels"), _relations([("officeDocument", "xl/workbook.bin")]))
        parts = [("worksheet", f"worksheets/sheet{n}.bin") for n in range(1, len(sheets) + 1)]
        file.writestr(zipfile.ZipInfo("xl/_rels/workbook.bin.rels"), _relations(parts))
        listed = [record(156, struct.pack("<II", 0, n) + text(f"rId{n}") + text(s)) for n, s in enumerate(sheets, 1)]
        book = record(131) + record(143) + b"".join(listed) + record(144) + record(132)
        file.writestr(zipfile.ZipInfo("xl/workbook.bin"), book)
        cells = b"".join(record(47, struct.pack("<HH12x", 0, number)) for number in (0, date_format))
        styles = record(278) + record(617, struct.pack("<I", 2)) + cells + record(618) + record(279)
        file.writestr(zipfile.ZipInfo("xl/styles.bin"), styles)
        for n, rows in enumerate(sheets.values(), 1):
            size = struct.pack("<IIII", 0, max(len(rows) - 1, 0), 0, max(max(map(len, rows), default=1) - 1, 0))
            lines = [
                record(0, struct.pack("<I13x", r)) + b"".join(cell(c, value) for c, value in enumerate(row))
                for r, row in enumerate(rows)
            ]
            data = record(129) + record(148, size) + record(145) + b"".join(lines) + record(146) + record(130)
            file.writestr(zipfile.ZipInfo(f"xl/worksheets/sheet{n}.bin"), data)
    return out.getvalue()
