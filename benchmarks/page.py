"""Write docs/performance.md, a page for each case, their pictures and the figures in README.md, from the kept results.

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
PAGE, INDEX, README = "docs/performance.md", "docs/performance-details.md", "README.md"
CASE_PAGES, IMAGES = "docs/performance", "docs/images"
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
    "busy_s": ("CPU seconds, and seconds of the lock", "less is better"),
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

Written by `make docs` from `benchmarks/results/`. Each figure compares tools in one run on one machine with two cores,
each with its best documented settings, on an S3 that answers after 30 ms. A figure leads to its case, with settings and
versions; [all cases](performance-details.md). To measure again: `make bench CASES=taxi-csv`.
"""
INDEX_HEAD = """# Measurements

Written by `make docs` from `benchmarks/results/`, which `make bench CASES=NAME` measures
([how](../benchmarks/README.md)). The figures that matter most are in [performance](performance.md).

On the pages of the cases, figures are medians over n rounds; CPU is user and system time of the whole process tree,
memory the peak of its resident sets. Services run on the same cores and are not counted. The results have every round,
and the versions of all libraries.
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
    """Return the files below the root that differ from these texts, and pages and pictures that no text is for."""
    there = {name: path.read_text() if (path := root / name).exists() else None for name in texts}
    return sorted({name for name in texts if there[name] != texts[name]} | (_of_cases(root) - set(texts)))


def write(root: Path, texts: Mapping[str, str]) -> None:
    """Write files below the root, and remove pages and pictures that no text is for."""
    for folder in (IMAGES, CASE_PAGES):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in _of_cases(root) - set(texts):
        (root / name).unlink()
    for name, text in texts.items():
        (root / name).write_text(text)


def files(root: Path, results: Path) -> dict[str, str]:
    """Return what is written from the results of a folder, by path below the root."""
    found = _results(results)
    made = {f"{IMAGES}/{name}.svg": text for each in found if (text := _picture(each)) for name in [each["case"]]}
    if headline := _headline(found):
        made[f"{IMAGES}/{HEADLINE}.svg"] = headline
    made |= {f"{CASE_PAGES}/{each['case']}.md": _case_page(each, made) for each in found}
    made |= {PAGE: _page(found, made), INDEX: _index(found)}
    readme = (root / README).read_text()
    made[README] = MARK.sub(lambda _: f"{BEGIN}\n{_summary(found)}{END}", readme)
    return made


def _results(folder: Path) -> list[dict[str, Any]]:
    """Return all full results, in the order of the cases; those whose case is gone come last."""
    from benchmarks.cases import CASES

    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(".local.json")]
    place = {name: number for number, name in enumerate(CASES)}
    found = [json.loads(path.read_text()) for path in paths]
    return sorted(found, key=lambda each: (place.get(each["case"], len(place)), each["case"]))


def _of_cases(root: Path) -> set[str]:
    """Return the pictures and the pages of cases."""
    found = [*(root / IMAGES).glob("*.svg"), *(root / CASE_PAGES).glob("*.md")]
    return {str(path.relative_to(root)) for path in found}


def _page(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    """Return the first screen: the picture, and what was measured."""
    lines = [HEAD]
    if f"{IMAGES}/{HEADLINE}.svg" in made:
        lines += [_image(HEADLINE, made, "images"), ""]
    rows = [
        [f"[{figure.text}](performance/{figure.case}.md)", *_goal(goal), figure.meaning]
        for figure, _, goal in _measured(found)
    ]
    lines += report.table(["figure", "goal", "measured", "reached", "what it means"], rows, texts=5)
    return "\n".join([*lines, ""])


def _index(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the list of the cases."""
    rows = []
    for each in found:
        goals = [goal["reached"] for goal in each["goals"]]
        reached = f"{sum(goals)} of {len(goals)}" if goals else ""
        rows.append([f"[{each['case']}](performance/{each['case']}.md)", _sentences(each["about"])[0], reached])
    return "\n".join([INDEX_HEAD, *report.table(["case", "what it compares", "goals reached"], rows, texts=3), ""])


def _case_page(found: Mapping[str, Any], made: Mapping[str, str]) -> str:
    """Return the page of a case: method, picture, figures, and what limits the goals that are not reached."""
    lines = [
        f"# {found['case']}",
        "",
        f"Written by `make docs`; `{_command(found)}` measures again. {_method(found)}",
        "",
    ]
    if f"{IMAGES}/{found['case']}.svg" in made:
        lines += [_image(found["case"], made, "../images"), ""]
    return "\n".join([*lines, report.measured(found, brief=True), *_limits(found)])


def _method(found: Mapping[str, Any]) -> str:
    """Return what a case compares, and of which rows: the first two sentences, and the one about its size."""
    first, *rest = _sentences(found["about"])
    return " ".join([first, *rest[:1], *(each for each in rest[1:] if each.startswith(("Here ", "Left out")))])


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[\w)`]\.) (?=[A-Z1-9`])", " ".join(text.split()))


def _measured(
    found: Sequence[Mapping[str, Any]],
) -> list[tuple[Figure, Mapping[str, Any], Mapping[str, Any]]]:
    """Return the figures that were measured, each with its result and its goal."""
    goals = {(each["case"], goal["text"]): (each, goal) for each in found for goal in each["goals"]}
    return [(figure, *goals[key]) for figure in FIGURES if (key := (figure.case, figure.goal)) in goals]


def _summary(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of README.md."""
    rows = [
        [f"[{figure.text}]({CASE_PAGES}/{figure.case}.md)", *_goal(goal)]
        for figure, _, goal in _measured(found)
        if figure.is_in_readme
    ]
    return "\n".join([*report.table(["figure", "goal", "measured", "reached"], rows, texts=1), ""]) if rows else ""


def _limits(found: Mapping[str, Any]) -> list[str]:
    """Return what limits the goals that are not reached."""
    limited: dict[str, list[str]] = {}
    for goal in found["goals"]:
        if not goal["reached"] and (limit := LIMITS.get((found["case"], goal["text"]))):
            limited.setdefault(limit, []).append(goal["text"])
    lines = [f"- {'; '.join(goals)}: {limit}" for limit, goals in limited.items()]
    return ["What limits the goals that are not reached, by profiles:", "", *lines, ""] if lines else []


def _goal(goal: Mapping[str, Any]) -> list[str]:
    return [goal["goal"], report.number(goal["value"]), "yes" if goal["reached"] else "**no**"]


def _command(found: Mapping[str, Any]) -> str:
    return f"make bench CASES={found['case']}"


def _image(name: str, made: Mapping[str, str], folder: str) -> str:
    """Return the picture; its title and its note are the alternative text, as a table has its figures."""
    lines = re.findall(r'<text class="(?:title|note)"[^>]*>(.*?)</text>', made[f"{IMAGES}/{name}.svg"])
    text = ": ".join(re.sub("<.*?>", " ", line).strip() for line in lines if line)
    return f"![{text}]({folder}/{name}.svg)".replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")


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
