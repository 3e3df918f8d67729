"""A report -> a page, its charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Any

from singer_arrow.errors import visible
from singer_arrow.naming import bytes_in_words, counted
from singer_arrow.report.document import Report

# Numbers of many runs -> inline SVG. Pure.

_WIDTH, _HEIGHT = 420, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 8, 14, 22
_STEPS = (1, 2, 2.5, 5, 10)
_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400)


@dataclass(frozen=True, slots=True)
class Point:
    """The figure of one run."""

    label: str  # when it began, for the axis and the tooltip
    value: float | None
    is_good: bool  # it succeeded


def bars(points: Sequence[Point], text_of: Callable[[float], str], top_of: Callable[[float], float]) -> str:
    """Return a bar for each run, in order; those of runs that did not succeed have another colour.

    `text_of` returns a figure in words, `top_of` the upper end of the axis for the largest figure.
    """
    top = top_of(max((p.value or 0.0 for p in points), default=0.0))
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(points), 1)
    width = max(1.0, min(28.0, step * 0.72))
    shapes = []
    for number, point in enumerate(points):
        if point.value is None:
            continue
        height = max(1.5, _span() * point.value / top)
        x = _LEFT + step * (number + 0.5) - width / 2
        off = "" if point.is_good else " off"
        shapes.append(
            f'<rect class="bar{off}" x="{x:.1f}" y="{_TOP + _span() - height:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="1.5"><title>{escape(_words(point, text_of))}</title></rect>'
        )
    return _framed(points, top, text_of, "".join(shapes))


def line(points: Sequence[Point], text_of: Callable[[float], str], top_of: Callable[[float], float]) -> str:
    """Return a line through the figures of all runs, with a dot for each; arguments as of `bars`."""
    top = top_of(max((p.value or 0.0 for p in points), default=0.0))
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(points), 1)
    places = [
        (_LEFT + step * (number + 0.5), _TOP + _span() * (1 - point.value / top), point)
        for number, point in enumerate(points)
        if point.value is not None
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    radius = 3.0 if len(places) <= 60 else 1.5
    dots = "".join(
        f'<circle class="dot{"" if p.is_good else " off"}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
        f"<title>{escape(_words(p, text_of))}</title></circle>"
        for x, y, p in places
    )
    return _framed(points, top, text_of, f'<polyline class="line" points="{path}"/>{dots}')


def nice_top(largest: float) -> float:
    """Return the upper end of an axis: 1, 2, 2.5 or 5 times a power of ten, at least the largest value."""
    power = 1.0
    while power * 10 <= largest:
        power *= 10
    while 0 < largest < power:
        power /= 10
    return next((power * s for s in _STEPS if power * s >= largest), power * 10) if largest else 1.0


def nice_seconds(largest: float) -> float:
    """Return the upper end of an axis of seconds: a time that people count in."""
    return next(
        (float(s) for s in _SECONDS if 1 <= largest <= s),
        nice_top(largest / 86400) * 86400 if largest > 1 else nice_top(largest),
    )


def _span() -> int:
    return _HEIGHT - _TOP - _BOTTOM


def _words(point: Point, text_of: Callable[[float], str]) -> str:
    text = text_of(point.value) if point.value is not None else ""
    return f"{point.label}: {text}{'' if point.is_good else ', did not succeed'}"


def _framed(points: Sequence[Point], top: float, text_of: Callable[[float], str], shapes: str) -> str:
    """Return the shapes between an axis with three values and the times of the first and the last run."""
    marks = []
    for share in (0.0, 0.5, 1.0):
        y = _TOP + _span() * (1 - share)
        marks.append(
            f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{escape(text_of(top * share))}</text>'
        )
    if points:
        y = _HEIGHT - 6
        marks.append(f'<text x="{_LEFT}" y="{y}">{escape(points[0].label[:16])}</text>')
        if len(points) > 1:
            marks.append(
                f'<text x="{_WIDTH - _RIGHT}" y="{y}" text-anchor="end">{escape(points[-1].label[:16])}</text>'
            )
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{"".join(marks)}{shapes}</svg>'


# Texts, numbers and tables -> HTML. Pure.

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


# The report of a run -> a page. Pure.

_COUNTS = (
    ("objects", "Objects"),
    ("batches", "Batches"),
    ("records", "Records"),
    ("rows_read", "Rows read"),
    ("rows_written", "Rows written"),
    ("rows_loaded_before", "Loaded before"),
    ("rows_skipped", "Skipped"),
    ("rows_rescued", "Rescued"),
    ("rows_rejected", "Rejected"),
    ("bytes", "Bytes"),
    ("batch_files", "Batch files"),
    ("loads", "Loads"),
    ("write_streams", "Write streams"),
    ("skipped_objects", "Skipped objects"),
    ("skipped_batches", "Skipped batches"),
    ("nul_characters", "NUL characters"),
    ("long_texts", "Long texts"),
)
_ALWAYS = ("rows_written", "bytes")
_MOST_INPUTS = 20


def run_page(report: Report) -> str:
    """Return the page of a run."""
    run = report["run"]
    name = ", ".join(s["stream"] for s in report["streams"]) or "no stream"
    heading = f"<h1>{escape(run['connector'])} {badge(run['status'])}</h1>"
    when = f"{time_text(run['started_at'])} UTC, {duration_text(run['seconds'])}, on {run['host']}, version "
    heading += f'<p class="soft">{escape(when + run["connector_version"])}</p>'
    parts = [heading, _error(report), _totals(report), _streams(report["streams"]), *map(_stream, report["streams"])]
    parts += [_changes(report), _settings(report["settings"])]
    title = f"{run['connector']}: {name}, {time_text(run['started_at'])}, {run['status']}"
    return page(title, "\n".join(part for part in parts if part))


def sum_of(streams: Iterable[Mapping[str, Any]], name: str) -> int | None:
    """Return the sum of a count over streams; None if no stream has it."""
    found = [s["counts"][name] for s in streams if name in s["counts"]]
    return sum(found) if found else None


def oldest_lag(streams: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the largest lag of streams that had rows in the run: a source without news is not behind."""
    moved = (s for s in streams if s["counts"].get("rows_written"))
    return max((s["lag_seconds"] for s in moved if s["lag_seconds"] is not None), default=None)


def _error(report: Report) -> str:
    error, run = report["error"], report["run"]
    if error:
        code = f" [{escape(error['code'])}]" if error["code"] else ""
        return f'<div class="error"><b>{escape(error["type"])}{code}</b><br>{escape(error["message"])}</div>'
    if run["status"] == "incomplete":
        return (
            '<div class="error"><b>Incomplete</b>: the input ended before the end of a stream. What came is loaded; '
            "the log of the tap has the reason.</div>"
        )
    if run["status"] == "interrupted":
        return (
            f'<div class="error"><b>Interrupted</b>, exit code {run["exit_code"]}. Run again with the last STATE.</div>'
        )
    return ""


def _totals(report: Report) -> str:
    streams = report["streams"]
    return html_tiles(
        [
            ("rows written", number_text(sum_of(streams, "rows_written"))),
            ("rows loaded by earlier runs", number_text(sum_of(streams, "rows_loaded_before") or None)),
            ("rows rejected", number_text(sum_of(streams, "rows_rejected") or None)),
            ("bytes", size_text(sum_of(streams, "bytes"))),
            ("duration", duration_text(report["run"]["seconds"])),
            ("lag: age of the newest data", duration_text(oldest_lag(streams))),
            ("bytes billed", size_text(report["bytes_billed"])),
        ]
    )


def _streams(streams: list[dict[str, Any]]) -> str:
    if not streams:
        return '<p class="soft">No stream began.</p>'
    used = [(n, t) for n, t in _COUNTS if n in _ALWAYS or sum_of(streams, n)]
    lag = ["Lag"] if any(s["lag_seconds"] is not None for s in streams) else []
    heads = ["Stream", "Status", *(title for _, title in used), "Duration", *lag]
    rows = (
        [
            f"<b>{escape(s['stream'])}</b>",
            badge(s["status"]),
            *((size_text if name == "bytes" else number_text)(s["counts"].get(name)) for name, _ in used),
            duration_text(s["seconds"]),
            *(duration_text(s["lag_seconds"]) for _ in lag),
        ]
        for s in streams
    )
    return "<h2>Streams</h2>" + html_table(heads, rows, numeric=range(2, len(heads)))


def _stream(stream: Mapping[str, Any]) -> str:
    facts = [
        ("Error", escape(stream.get("error") or "")),
        ("Table", f"<code>{escape(stream['table'])}</code>" if stream["table"] else ""),
        ("Watermark", f"{time_text(stream['watermark'])} UTC" if stream["watermark"] else ""),
        ("Left", ", ".join(_left(name, count) for name, count in stream["left"].items() if count)),
        ("Inputs", _listed(stream["inputs"])),
        ("Batch files in", _listed(stream["outputs"])),
    ]
    shown = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts if text)
    phases = _phases(stream["seconds_by_phase"])
    if not (shown or phases):
        return ""
    heading = f"<h3>{escape(stream['stream'])}</h3>"
    return f'<div class="card" style="margin-top:14px">{heading}{phases}<dl class="facts">{shown}</dl></div>'


def _left(name: str, count: int) -> str:
    return size_text(count) if name == "bytes" else f"{number_text(count)} {escape(name)}"


def _phases(phases: Mapping[str, float]) -> str:
    whole = sum(phases.values())
    named = [(f"p{n % 5}", name, seconds) for n, (name, seconds) in enumerate(phases.items()) if seconds]
    if not named:
        return ""
    bars = "".join(
        f'<i class="{color}" style="width:{seconds / whole * 100:.1f}%" title="{escape(name)}"></i>'
        for color, name, seconds in named
    )
    keys = "".join(
        f'<span><i class="{color}"></i>{escape(name)} {duration_text(seconds)}</span>' for color, name, seconds in named
    )
    return f'<div class="phases">{bars}</div><div class="legend">{keys}<span>seconds of all threads</span></div>'


def _listed(urls: list[str]) -> str:
    shown = "<br>".join(f"<code>{escape(url)}</code>" for url in urls[:_MOST_INPUTS])
    if len(urls) <= 3:
        return shown
    more = f"<br>and {len(urls) - _MOST_INPUTS:,} more" if len(urls) > _MOST_INPUTS else ""
    return f"<details><summary>{len(urls):,} files</summary>{shown}{more}</details>"


def _changes(report: Report) -> str:
    if report["previous_run"] is None:
        return ""
    if not report["settings_changed"]:
        return '<h2>Settings changed since the last run</h2><p class="soft">None.</p>'
    rows = (
        [f"<code>{escape(c['setting'])}</code>", _value(c["before"]), _value(c["after"])]
        for c in report["settings_changed"]
    )
    return "<h2>Settings changed since the last run</h2>" + html_table(["Setting", "Before", "Now"], rows)


def _settings(settings: Mapping[str, Any]) -> str:
    if not settings:
        return ""
    return f"<h2>Settings</h2><details><summary>{counted(len(settings), 'setting')}, without secrets</summary>" + (
        html_table(
            ["Setting", "Value"], ([f"<code>{escape(name)}</code>", _value(settings[name])] for name in settings)
        )
        + "</details>"
    )


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return '<span class="soft">not set</span>' if value is None else f"<code>{escape(text)}</code>"
