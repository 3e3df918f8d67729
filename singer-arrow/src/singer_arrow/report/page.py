"""The report of a run -> a page. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from singer_arrow.naming import counted
from singer_arrow.report.document import Report
from singer_arrow.report.html import (
    badge,
    duration_text,
    html_table,
    html_tiles,
    number_text,
    page,
    size_text,
    time_text,
)

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
