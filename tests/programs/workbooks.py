"""Writes Excel workbooks of given cells, the same bytes for the same cells: what Excel itself would write, no more."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
STYLES = ["General", "yyyy-mm-dd", "yyyy-mm-dd hh:mm:ss", "hh:mm:ss", "[h]:mm:ss"]
_EPOCH = datetime(1899, 12, 30)  # noqa: DTZ001 - Excel knows no zone


@dataclass(frozen=True)
class Error:
    """An error, such as `#N/A`."""

    text: str


@dataclass(frozen=True)
class Serial:
    """A number that is shown as a date or time, whatever it is."""

    number: float
    style: str = "yyyy-mm-dd hh:mm:ss"


Cell = None | bool | int | float | str | date | datetime | time | timedelta | Error | Serial


def xlsx(sheets: Mapping[str, Sequence[Sequence[Cell]]], *, merged: Sequence[str] = ()) -> bytes:
    """A workbook of sheets; `merged` are ranges of the first of them."""
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
        add("xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>')
        add("xl/styles.xml", _styles())
        for n, rows in enumerate(sheets.values(), 1):
            places = "".join(f'<mergeCell ref="{place}"/>' for place in merged) if n == 1 else ""
            joined = f"<mergeCells>{places}</mergeCells>" if places else ""
            add(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{MAIN}"><sheetData>{_rows(rows)}</sheetData>{joined}</worksheet>',
            )
    return out.getvalue()


def ods(sheets: Mapping[str, Sequence[Sequence[Cell]]]) -> bytes:
    """A spreadsheet of OpenDocument."""
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
    told = "".join(
        f'<Relationship Id="rId{n}" Type="{OFFICE}/{kind}" Target="{target}"/>'
        for n, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{told}</Relationships>'


def _styles() -> str:
    formats = "".join(f'<numFmt numFmtId="{164 + n}" formatCode="{text}"/>' for n, text in enumerate(STYLES))
    cells = "".join(f'<xf numFmtId="{164 + n if n else 0}"/>' for n in range(len(STYLES)))
    return f'<styleSheet xmlns="{MAIN}"><numFmts>{formats}</numFmts><cellXfs>{cells}</cellXfs></styleSheet>'


def _rows(rows: Sequence[Sequence[Cell]]) -> str:
    return "".join(
        f'<row r="{r}">{"".join(_cell(f"{_letters(c)}{r}", cell) for c, cell in enumerate(row))}</row>'
        for r, row in enumerate(rows, 1)
    )


def _letters(column: int) -> str:
    return (_letters(column // 26 - 1) if column >= 26 else "") + chr(65 + column % 26)


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
