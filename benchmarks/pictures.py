"""Bar charts as SVG: one file of a few kB, readable on a light and on a dark page, and by a screen reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, MARGIN, LABELS, VALUES = 760, 20, 250, 110
ROW, BAR, TITLE, GAP = 24, 15, 26, 12
STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: 600 } .panel { font-weight: 600 } .note { font-size: 12px; fill: #57606a }
.card { fill: #ffffff; stroke: #d0d7de } .axis { stroke: #8c959f } .ours { fill: #0b6e7c } .other { fill: #afb8c1 }
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
    body = [
        f'<text class="title" x="{MARGIN}" y="{MARGIN + 14}">{escape(title)}</text>',
        f'<text class="note" x="{MARGIN}" y="{MARGIN + 34}">{escape(note)}</text>',
    ]
    top = MARGIN + 34 + GAP
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
        middle = top + ROW / 2
        place = f'x="{start}" y="{middle - BAR / 2:g}" width="{width:.1f}" height="{BAR}"'
        lines += [
            f'<text x="{start - 8}" y="{middle + 4.5:g}" text-anchor="end">{escape(_short(bar.name))}</text>',
            f'<rect class="{"ours" if bar.ours else "other"}" {place}/>',
            f'<text x="{start + width + 6:.1f}" y="{middle + 4.5:g}">{number(bar.value)}</text>',
        ]
        top += ROW
    lines.append(f'<line class="axis" x1="{start}" y1="{first}" x2="{start}" y2="{top}"/>')
    return lines, top + GAP


def _short(name: str) -> str:
    """What fits beside the bars."""
    return name if len(name) <= 38 else f"{name[:37]}…"


def number(value: float) -> str:
    """Three significant digits, large numbers in full with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
