"""Texts, numbers and tables -> HTML. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files

from singer_arrow.errors import visible
from singer_arrow.naming import bytes_in_words

_STYLE = files("singer_arrow.report").joinpath("style.css")


def page(title: str, body: str) -> str:
    """Return a whole page, which needs no other file; control characters in its texts are escaped."""
    title, body = visible(title), "\n".join(map(visible, body.split("\n")))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE.read_text()}</style></head>\n<body><main>\n{body}\n</main></body></html>\n"
    )


def number_text(value: float | None) -> str:
    """Return a number with separators: `1,234`; empty for None."""
    return "" if value is None else f"{value:,.0f}"


def size_text(count: int | None) -> str:
    """Return a number of bytes with its unit: `12.3 MB`; empty for None."""
    return "" if count is None else bytes_in_words(count)


def duration_text(seconds: float | None) -> str:
    """Return seconds in words: `40 ms`, `2.4 s`, `2 min 5 s`, `3 h`, `12 days`; empty for None."""
    if seconds is None:
        return ""
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{f'{seconds:.1f}'.removesuffix('.0')} s"
    whole = round(seconds)
    if whole >= 2 * 86400:
        return f"{whole // 86400} days"
    size, large, small = (60, "min", "s") if whole < 3600 else (3600, "h", "min")
    rest = whole % size * 60 // size
    return f"{whole // size} {large}{f' {rest} {small}' if rest else ''}"


def time_text(text: str | None) -> str:
    """Return a time of a report as `2026-11-20 16:30:00`; empty for None."""
    return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S}" if text else ""


def badge(word: str) -> str:
    """Return a badge for the status of a run."""
    return f'<span class="status {escape(word)}">{escape(word)}</span>'


def html_tiles(named: Iterable[tuple[str, str]]) -> str:
    """Return figures with their names; those without a value are left out."""
    cells = (
        f'<div class="tile"><b>{escape(text)}</b><span>{escape(name)}</span></div>' for name, text in named if text
    )
    return f'<div class="tiles">{"".join(cells)}</div>'


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Iterable[int] = ()) -> str:
    """Return a table of cells that are HTML, which narrow screens show as cards; `numeric` ones align right."""
    right = set(numeric)

    def kind(column: int) -> str:
        return ' class="n"' if column in right else ""

    head = "".join(f"<th{kind(n)}>{escape(name)}</th>" for n, name in enumerate(heads))
    body = "".join(
        "<tr>"
        + "".join(f'<td{kind(n)} data-name="{escape(heads[n])}">{cell}</td>' for n, cell in enumerate(row))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="cards"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
    )
