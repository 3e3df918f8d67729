"""Medians, ratios and goals of a case, as JSON and as a Markdown table."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.case import Case, Goal
from benchmarks.rounds import Run

Runs = Mapping[str, Sequence[Run]]


def result(case: Case, runs: Runs, *, machine: Mapping[str, object], scale: float) -> dict[str, Any]:
    """Everything about a case that ran, ready for JSON."""
    return {
        "case": case.name,
        "about": case.about,
        "scale": scale,
        "machine": dict(machine),
        "columns": [list(column) for column in case.columns],
        "picture": case.picture,
        "contenders": [
            {
                "name": contender.name,
                "settings": contender.settings,
                "median": medians(runs[contender.name]),
                "runs": list(runs[contender.name]),
            }
            for contender in case.contenders
        ],
        # Goals are set for whole cases: with few rows everything is the time that programs need to start.
        "goals": [judge(goal, runs) for goal in case.goals] if scale == 1 else [],
    }


def medians(runs: Sequence[Run]) -> dict[str, float]:
    """The median of every figure; rows per CPU second from the medians, where no run measured them itself."""
    found = {name: median(run[name] for run in runs) for name in runs[0]}
    if "rows" in found and found["cpu_s"] > 0 and "rows_per_cpu_s" not in found:
        found["rows_per_cpu_s"] = found["rows"] / found["cpu_s"]
    return found


def judge(goal: Goal, runs: Runs) -> dict[str, Any]:
    """What was reached of a goal."""
    value = medians(runs[goal.of])[goal.metric]
    if goal.against:
        others = [goal.against] if isinstance(goal.against, str) else goal.against
        best = min if goal.at_least is None or goal.turned else max
        value /= best(medians(runs[other])[goal.metric] for other in others)
    if goal.turned:
        value = 1 / value
    if goal.at_most is not None:
        return {"text": goal.text, "goal": f"<= {goal.at_most:g}", "value": value, "reached": value <= goal.at_most}
    assert goal.at_least is not None
    return {"text": goal.text, "goal": f">= {goal.at_least:g}", "value": value, "reached": value >= goal.at_least}


def markdown(found: Mapping[str, Any]) -> str:
    """A section with the tables of one result."""
    return f"## {found['case']}\n\n{body(found)}"


def body(found: Mapping[str, Any]) -> str:
    """A result as Markdown: what is compared, and what was measured."""
    return f"{found['about'].strip()}\n\n{measured(found)}"


def measured(found: Mapping[str, Any], *, brief: bool = False) -> str:
    """The table, settings and goals of a result, and where it ran, as Markdown.

    `brief`: medians alone, and no versions of libraries; the result has the rest.
    """
    contenders, columns = found["contenders"], found["columns"]
    first = contenders[0]["median"]
    head = ["", "wall s", "x", "CPU s", "x", "peak MB", "rows", "MB out", "rows / CPU s", *(c[1] for c in columns), "n"]
    rows = [
        [
            each["name"],
            _spread(each["runs"], "wall_s"),
            f"{each['median']['wall_s'] / first['wall_s']:.2f}",
            _spread(each["runs"], "cpu_s"),
            f"{each['median']['cpu_s'] / first['cpu_s']:.2f}",
            _spread(each["runs"], "peak_tree_mb"),
            number(each["median"].get("rows")),
            number(each["median"]["bytes"] / 1e6) if "bytes" in each["median"] else "",
            number(each["median"].get("rows_per_cpu_s")),
            *(number(each["median"].get(name)) for name, _ in columns),
            str(len(each["runs"])),
        ]
        for each in contenders
    ]
    # A column that no contender fills is left out.
    kept = [n for n in range(len(head)) if any(row[n] for row in rows) and not (brief and head[n] in ("x", "rows"))]
    if brief:
        rows = [[cell.partition(" (")[0] if n else cell for n, cell in enumerate(row)] for row in rows]
    lines = table([head[n] for n in kept], [[row[n] for n in kept] for row in rows])
    by_settings: dict[str, list[str]] = {}
    for each in contenders:
        by_settings.setdefault(each["settings"], []).append(each["name"])
    lines += ["", *(f"- {'; '.join(names)}: {settings}" for settings, names in by_settings.items())]
    if found["goals"]:
        judged = [
            [each["text"], each["goal"], number(each["value"]), "yes" if each["reached"] else "**no**"]
            for each in found["goals"]
        ]
        lines += ["", *table(["goal", "", "measured", "reached"], judged)]
    scaled = f" Rows scaled by {found['scale']:g}." if found["scale"] != 1 else ""
    return "\n".join([*lines, "", _where(found["machine"], brief=brief) + scaled, ""])


def write(found: Mapping[str, Any], folder: Path) -> Path:
    """Write a result as JSON; one of scaled rows gets a name that git ignores."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (f"{found['case']}.json" if found["scale"] == 1 else f"{found['case']}.local.json")
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


def number(value: float | None) -> str:
    """Three significant digits, whole numbers in full with separators, nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


def _spread(runs: Sequence[Run], name: str) -> str:
    values = [run[name] for run in runs]
    if len(values) == 1:
        return number(values[0])
    return f"{number(median(values))} ({number(min(values))}-{number(max(values))})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> list[str]:
    """The lines of a Markdown table; its first `texts` columns are text, the others numbers."""
    align = ["---" if number < texts else "---:" for number in range(len(head))]
    return [f"| {' | '.join(line)} |" for line in [head, align, *rows]]


def _where(machine: Mapping[str, Any], *, brief: bool) -> str:
    place = (
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}, Python {machine['python']}"
    )
    libraries = [] if brief else [f"{name} {version}" for name, version in machine["libraries"].items()]
    return f"{', '.join([place, *libraries])}."
