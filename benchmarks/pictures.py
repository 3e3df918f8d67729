"""Bar charts as SVG: a few kB each, readable on light and dark pages, on a phone, and by a screen reader."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, MARGIN, LABELS, VALUES = 480, 12, 212, 74
ROW, BAR, TITLE, GAP, LINE = 24, 15, 26, 12, 15
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .panel { font-weight: 600 } .note { font-size: 12px; fill: #57606a }
.card { fill: #ffffff; stroke: #d0d7de } .axis { stroke: #8c959f } .ours { fill: #0b6e7c } .other { fill: #afb8c1 }
.name { text-anchor: end }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .note { fill: #9198a1 } .card { fill: #0d1117; stroke: #3d444d }
  .axis { stroke: #656c76 } .ours { fill: #62cfdc } .other { fill: #656c76 }
}
"""


@dataclass(frozen=True)
class Bar:
    """A value with its name; `ours` is drawn in colour."""

    name: str
    value: float
    ours: bool = False


@dataclass(frozen=True)
class Panel:
    """Bars that are compared, on an axis of their own."""

    title: str
    bars: Sequence[Bar]


def chart(title: str, note: str, panels: Sequence[Panel]) -> str:
    """An SVG of horizontal bars.

    Args:
        title: what is shown, with its unit.
        note: a line below the title, such as which direction is better.
        panels: one below the other; a panel without a title has no line for it.
    """
    titles, notes = textwrap.wrap(title, 52), textwrap.wrap(note, 68)
    below = MARGIN + 19 + LINE * len(titles)
    body = [_text(titles, MARGIN, MARGIN + 14, "title"), _text(notes, MARGIN, below, "note")]
    top = below + LINE * (len(notes) - 1) + GAP
    for panel in panels:
        lines, top = _panel(panel, top)
        body += lines
    height = top + MARGIN - GAP
    description = "; ".join(
        f"{panel.title + ': ' if panel.title else ''}{', '.join(f'{b.name} {number(b.value)}' for b in panel.bars)}"
        for panel in panels
    )
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title description">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="description">{escape(description)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _panel(panel: Panel, top: int) -> tuple[list[str], int]:
    lines = []
    if panel.title:
        lines.append(f'<text class="panel" x="{MARGIN}" y="{top + 17}">{escape(panel.title)}</text>')
        top += TITLE
    start, room = MARGIN + LABELS, WIDTH - 2 * MARGIN - LABELS - VALUES
    greatest = max((bar.value for bar in panel.bars), default=0.0) or 1.0
    first = top
    for bar in panel.bars:
        width = max(1.0, room * bar.value / greatest)
        names = textwrap.wrap(bar.name, 31)
        high = ROW + LINE * (len(names) - 1)
        middle = top + high / 2
        place = f'x="{start}" y="{middle - BAR / 2:g}" width="{width:.1f}" height="{BAR}"'
        lines += [
            _text(names, start - 8, middle + 4.5 - LINE / 2 * (len(names) - 1), "name"),
            f'<rect class="{"ours" if bar.ours else "other"}" {place}/>',
            f'<text x="{start + width + 6:.1f}" y="{middle + 4.5:g}">{number(bar.value)}</text>',
        ]
        top += high
    lines.append(f'<line class="axis" x1="{start}" y1="{first}" x2="{start}" y2="{top}"/>')
    return lines, top + GAP


def _text(lines: Sequence[str], x: float, y: float, kind: str) -> str:
    """Return a text of some lines."""
    first, *others = map(escape, lines or [""])
    below = "".join(f'<tspan x="{x:g}" dy="{LINE}">{line}</tspan>' for line in others)
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{first}{below}</text>'


def number(value: float) -> str:
    """Three significant digits, large numbers in full with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
