"""Totals of many cases, as Markdown tables. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fault_suite.site import CLEAR, KILLED, Outcome

HEAD = (
    *("runs", "faults", "survived", "ended in one line", "killed", "reruns", "STATE ahead", "lost", "doubled"),
    *("unfinished swaps", "sent again", "not as promised"),
)


def counts(outcomes: Iterable[Outcome]) -> tuple[int, ...]:
    """Return the values of the columns in `HEAD`; STATE ahead, lost, doubled and sent again count rows."""
    listed = list(outcomes)
    return (
        len(listed),
        sum(sum(o.injected.values()) for o in listed),
        sum(o.code == 0 for o in listed),
        sum(o.code == CLEAR for o in listed),
        sum(o.code in KILLED for o in listed),
        sum(o.rerun for o in listed),
        sum(o.ahead for o in listed),
        sum(o.comparison.lost for o in listed),
        sum(o.comparison.doubled for o in listed),
        sum(o.torn for o in listed),
        sum(o.comparison.again for o in listed),
        sum(bool(o.wrong) for o in listed),
    )


def by_way(outcomes: Sequence[Outcome]) -> str:
    """Return a line for each load variant and tap interruption, and the sum."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        found.setdefault(outcome.case.way, []).append(outcome)
    lines = [(context, *counts(found[context])) for context in sorted(found)]
    return table(("", *HEAD), [*lines, ("all", *counts(outcomes))])


def by_kind(outcomes: Sequence[Outcome]) -> str:
    """Return the number of faults of each kind and of runs that had them; a run may have several."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for outcome in outcomes:
        for kind, count in outcome.injected.items():
            found.setdefault((kind, outcome.case.victim), Counter()).update(faults=count, runs=1)
    lines = [(kind, victim, n["faults"], n["runs"]) for (kind, victim), n in sorted(found.items())]
    return table(("fault", "", "faults", "runs"), lines)


def table(head: Sequence[str], lines: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table, with numbers aligned right."""
    rows = [list(head), *([str(cell) for cell in line] for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    right = [bool(lines) and isinstance(lines[0][column], int) for column in range(len(head))]
    rule = ["-" * (width - 1) + ":" if is_right else "-" * width for width, is_right in zip(widths, right, strict=True)]
    cells = [
        [c.rjust(w) if is_right else c.ljust(w) for c, w, is_right in zip(row, widths, right, strict=True)]
        for row in [rows[0], rule, *rows[1:]]
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)
