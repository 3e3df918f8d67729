"""Numbers of many runs -> inline SVG. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

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
