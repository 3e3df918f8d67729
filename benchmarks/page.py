"""Write docs/performance.md, the page of details, their pictures and the figures in README.md, from the kept results.

Usage: python -m benchmarks.page [--check]

With `--check` nothing is written: exits with 1 and names the files that are out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import pictures, report
from benchmarks.figures import FIGURES, Figure
from benchmarks.limits import LIMITS

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE, DETAILS, IMAGES, README = "docs/performance.md", "docs/performance-details.md", "docs/images", "README.md"
HEADLINE = "rows-per-cpu-second"
HEADLINE_CASES = {
    "taxi-parquet": "Parquet",
    "taxi-csv": "CSV",
    "taxi-csv-gz": "CSV, gzip",
    "taxi-jsonl-gz": "JSON Lines, gzip",
}


PICTURED = {
    **dict.fromkeys(("memory-inputs", "memory", "scaling", "scaling-10gb"), "peak_tree_mb"),
    **dict.fromkeys(("coalescing", "loads"), "jobs"),
    **dict.fromkeys(("dask", "shards"), "wall_s"),
    "redshift-bytes": "share",
    "s3-torn": "torn",
    "wide": "rows_per_s",
}
"""The metric that a case's picture shows, where the general rule picks another."""
BEGIN, END = "<!-- figures: `make docs` writes them -->", "<!-- end of the figures -->"
MARK = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
OURS = re.compile(r"`(tap-s3-files|target-bigquery|target-redshift|singer_arrow)\b")
METRICS = {
    "rows_per_cpu_s": ("rows per CPU second", "more is better"),
    "wall_s": ("seconds", "less is better"),
    "cpu_s": ("CPU seconds", "less is better"),
    "read_s": ("seconds of reading", "less is better"),
    "copy_s": ("seconds of COPY", "less is better"),
    "peak_tree_mb": ("peak memory, MB", "less is better"),
    "bytes": ("bytes", "less is better"),
    "jobs": ("load jobs", "less is better"),
    "share": ("bytes through the target, of those of the files", "less is better"),
    "median_s": ("seconds until a record is in the table", "less is better"),
    "requests": ("requests of S3", "less is better"),
    "us_per_object": ("CPU microseconds an object", "less is better"),
    "rows_per_s": ("rows per second", "more is better"),
    "torn": ("readings that mix two versions", "less is better"),
}

HEAD = """# Performance

Each figure compares tools in one run on one machine (two cores), with the best documented settings of each, on an S3
that answers after 30 ms. [Details](performance-details.md): every case with all contenders, settings, versions, and
what limits the goals that are not reached. To measure again: `make bench CASES=...`, then `make docs`, which writes
this page from `benchmarks/results/`.
"""
DETAILS_HEAD = """# Performance in detail

Written by `make docs` from `benchmarks/results/`, which `make bench` measures ([benchmarks](../benchmarks/README.md)
describes how). The [overview](performance.md) is shorter.

The contenders of a case run in turn, round after round. Figures are medians over the rounds, with least and greatest in
brackets; n is the number of rounds. CPU is user and system time of the whole process tree; memory is the peak of the
sum of its resident sets, sampled every 20 ms. Services (S3, BigQuery, Redshift) run on the same cores and are not
counted. Columns headed x are relative to the first line of the table.
"""


def main() -> int:
    """Write the files, or compare with them under `--check`."""
    texts = files(ROOT, RESULTS)
    if "--check" not in sys.argv[1:]:
        write(ROOT, texts)
        return 0
    if wrong := stale(ROOT, texts):
        print(f"not up to date, `make docs` writes: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


def stale(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the files below the root that differ from these texts, and pictures that no text is for."""
    there = {name: path.read_text() if (path := root / name).exists() else None for name in texts}
    return sorted({name for name in texts if there[name] != texts[name]} | (_pictures(root) - set(texts)))


def write(root: Path, texts: Mapping[str, str]) -> None:
    """Write files below the root, and remove pictures that no text is for."""
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    for name in _pictures(root) - set(texts):
        (root / name).unlink()
    for name, text in texts.items():
        (root / name).write_text(text)


def files(root: Path, results: Path) -> dict[str, str]:
    """Return what is written from the results of a folder, by path below the root."""
    found = _results(results)
    made = {f"{IMAGES}/{name}.svg": text for each in found if (text := _picture(each)) for name in [each["case"]]}
    if headline := _headline(found):
        made[f"{IMAGES}/{HEADLINE}.svg"] = headline
    made |= {PAGE: _page(found, made), DETAILS: _details(found, made)}
    readme = (root / README).read_text()
    made[README] = MARK.sub(lambda _: f"{BEGIN}\n{_summary(found, made)}{END}", readme)
    return made


def _results(folder: Path) -> list[dict[str, Any]]:
    """Return all full results, in the order of the cases; those whose case is gone come last."""
    from benchmarks.cases import CASES

    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(".local.json")]
    place = {name: number for number, name in enumerate(CASES)}
    found = [json.loads(path.read_text()) for path in paths]
    return sorted(found, key=lambda each: (place.get(each["case"], len(place)), each["case"]))


def _pictures(root: Path) -> set[str]:
    return {f"{IMAGES}/{path.name}" for path in (root / IMAGES).glob("*.svg")}


def _page(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    """Return the first screen: goal, measured, what it means."""
    rows = [
        [f"[{figure.text}]({Path(DETAILS).name}#{figure.case})", *_goal(goal), figure.meaning]
        for figure, _, goal in _measured(found)
    ]
    lines = [HEAD, *report.table(["figure", "goal", "measured", "reached", "what it means"], rows, texts=5), ""]
    if f"{IMAGES}/{HEADLINE}.svg" in made:
        lines += [_image(HEADLINE, made, "images"), ""]
    return "\n".join(lines)


def _details(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    lines = [DETAILS_HEAD, "## Goals", "", *_goals(found), "", *_limits(found)]
    for each in found:
        lines += [f"## {each['case']}", "", f"    {_command(each)}", ""]
        if f"{IMAGES}/{each['case']}.svg" in made:
            lines += [_image(each["case"], made, "images"), ""]
        lines += [report.body(each)]
    return "\n".join(lines)


def _measured(
    found: Sequence[Mapping[str, Any]],
) -> list[tuple[Figure, Mapping[str, Any], Mapping[str, Any]]]:
    """Return the figures that were measured, each with its result and its goal."""
    goals = {(each["case"], goal["text"]): (each, goal) for each in found for goal in each["goals"]}
    return [(figure, *goals[key]) for figure in FIGURES if (key := (figure.case, figure.goal)) in goals]


def _summary(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    """Return the table and the picture of README.md."""
    rows = [
        [f"[{figure.text}]({DETAILS}#{figure.case})", f"`{_command(each)}`", *_goal(goal)]
        for figure, each, goal in _measured(found)
        if figure.is_in_readme
    ]
    if not rows:
        return ""
    picture = [_image(HEADLINE, made, IMAGES), ""] if f"{IMAGES}/{HEADLINE}.svg" in made else []
    return "\n".join([*report.table(["figure", "command", "goal", "measured", "reached"], rows, texts=2), "", *picture])


def _goals(found: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        [f"[{each['case']}](#{each['case']})", goal["text"], f"`{_command(each)}`", *_goal(goal)]
        for each in found
        for goal in each["goals"]
    ]
    return report.table(["case", "figure", "command", "goal", "measured", "reached"], rows, texts=3)


def _limits(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what limits the goals that are not reached."""
    limits = [
        f"- [{each['case']}](#{each['case']}), {goal['text']}: {limit}"
        for each in found
        for goal in each["goals"]
        if not goal["reached"] and (limit := LIMITS.get((each["case"], goal["text"])))
    ]
    return ["What limits the goals that are not reached, by profiles:", "", *limits, ""] if limits else []


def _goal(goal: Mapping[str, Any]) -> list[str]:
    return [goal["goal"], report.number(goal["value"]), "yes" if goal["reached"] else "**no**"]


def _command(found: Mapping[str, Any]) -> str:
    return f"make bench CASES={found['case']}"


def _image(name: str, made: Mapping[str, str], folder: str) -> str:
    """Return the picture, with its description as the alternative text."""
    description = re.search("<desc[^>]*>(.*?)</desc>", made[f"{IMAGES}/{name}.svg"])
    title = re.search("<title[^>]*>(.*?)</title>", made[f"{IMAGES}/{name}.svg"])
    assert description is not None
    assert title is not None
    return (
        f"![{title[1]}: {description[1]}]({folder}/{name}.svg)".replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&amp;", "&")
    )


def _picture(found: Mapping[str, Any]) -> str | None:
    """Return bars of the contenders of a case, in a metric that all of them have."""
    contenders = found["contenders"]
    metric = found.get("picture") or _metric(contenders)
    metric = PICTURED.get(found["case"], metric)
    bars = _bars(contenders, metric)
    if len(bars) < 2:
        return None
    title, note = METRICS.get(metric, (metric, ""))
    return pictures.chart(f"{found['case']}: {title}", note, [pictures.Panel("", bars)])


def _metric(contenders: Sequence[Mapping[str, Any]]) -> str:
    if all("read_s" in each["median"] for each in contenders):
        return "read_s"
    rows = {each["median"].get("rows") for each in contenders}
    return "rows_per_cpu_s" if len(rows) > 1 and None not in rows else "cpu_s" if None not in rows else "wall_s"


def _bars(contenders: Sequence[Mapping[str, Any]], metric: str) -> list[pictures.Bar]:
    return [
        pictures.Bar(each["name"], each["median"][metric], bool(OURS.search(each["settings"])))
        for each in contenders
        if metric in each["median"]
    ]


def _headline(found: Sequence[Mapping[str, Any]]) -> str | None:
    """Return rows per CPU second for each kind of file, in one picture."""
    panels = []
    for case, title in HEADLINE_CASES.items():
        for each in found:
            if each["case"] == case:
                bars = _bars(each["contenders"], "rows_per_cpu_s")
                panels.append(pictures.Panel(title, sorted(bars, key=lambda bar: -bar.value)))
    note = "from S3, 30 ms away; more is better; few: 200,000 rows instead of 3,174,394"
    return pictures.chart("Rows per CPU second", note, panels) if panels else None


if __name__ == "__main__":
    sys.exit(main())
