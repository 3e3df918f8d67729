"""Writes docs/performance.md, its pictures, and the figures in README.md, from the results that are kept.

Usage: python -m benchmarks.page [--check]

With `--check` nothing is written: it ends with 1 and names the files that are not what would be written.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import pictures, report
from benchmarks.limits import LIMITS

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE, IMAGES, README = "docs/performance.md", "docs/images", "README.md"
HEADLINE = "rows-per-cpu-second"
HEADLINE_CASES = {
    "taxi-parquet": "Parquet",
    "taxi-csv": "CSV",
    "taxi-csv-gz": "CSV, gzip",
    "taxi-jsonl-gz": "JSON Lines, gzip",
}
SUMMARY = {
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: rows per CPU second over Airbyte's"): "",
    ("taxi-parquet", "Parquet -> BATCH Parquet, 1 file: CPU against plain pyarrow read + write"): "",
    (
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: rows per CPU second over the fastest of Airbyte, pipelinewise, tap-file",
    ): "",
    ("wide", "rows a second, BATCH Parquet over the stock pipe"): (
        "100,000 x 150 to a finished load: rows a second, BATCH Parquet over the SDK's RECORD pipe"
    ),
    (
        "record-pipe",
        "wide: rows per CPU second over SDK, default",
    ): "RECORD pipe, 150 columns: rows per CPU second over the SDK's",
    (
        "record-pipe",
        "narrow: rows per CPU second over SDK, default",
    ): "RECORD pipe, 19 columns: rows per CPU second over the SDK's",
    ("redshift-loads", "rows a CPU second, Parquet on S3 over stock"): (
        "100,000 x 150 into Redshift: rows a CPU second, Parquet on S3 over the SDK's SQL sink"
    ),
    ("s3-small", "times as fast as boto3"): "2,000 objects of 10 KB into Arrow: times as fast as boto3 by 32 threads",
    ("s3-columns", "times as fast as pyarrow's best"): "3 of 19 columns of Parquet: times as fast as pyarrow's best",
    ("s3-csv", "times as fast as the best other"): "CSV of 349 MB into Arrow: times as fast as the best other reader",
    ("s3-jsonl-gz", "times as fast as pyarrow's best"): "gzip JSON Lines into Arrow: times as fast as pyarrow's best",
    ("s3-torn", "torn readings"): "readings that mix two versions of an object that is overwritten",
    ("memory-inputs", "peak MB, JSON Lines, texts of 60 MB"): (
        "peak MB of the tap with `memory_limit_mb: 512`, JSON Lines with texts of 60 MB"
    ),
    ("scaling", "memory, largest against smallest file"): "memory for a file of 1 GB against one of 0.25 GB",
}
"""The goals whose figures stand in README.md, by case and text, and how they are called there if not so."""
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
    "requests": ("requests of S3", "less is better"),
    "rows_per_s": ("rows per second", "more is better"),
}

HEAD = """# Performance

Written by `make docs` from `benchmarks/results/`, which `make bench` measures; [benchmarks](../benchmarks/README.md)
tells how. Each case runs its contenders in turn, round after round, in one run on one machine. Figures are medians over
the rounds, with least and greatest in brackets; n is the number of rounds. CPU is user and system time of the whole
process tree, and memory the peak of the sum of its resident sets, sampled every 20 ms. Services (S3, BigQuery,
Redshift) run beside, on the same cores, and are not counted. Columns headed x refer to a table's first line.
"""


def main() -> int:
    """Write the files, or compare with them."""
    texts = files(ROOT, RESULTS)
    if "--check" not in sys.argv[1:]:
        write(ROOT, texts)
        return 0
    if wrong := stale(ROOT, texts):
        print(f"not up to date, `make docs` writes: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


def stale(root: Path, texts: Mapping[str, str]) -> list[str]:
    """Files below the root that are not what these texts say, and pictures that are none of them."""
    there = {name: path.read_text() if (path := root / name).exists() else None for name in texts}
    return sorted({name for name in texts if there[name] != texts[name]} | (_pictures(root) - set(texts)))


def write(root: Path, texts: Mapping[str, str]) -> None:
    """Write files below the root, and remove pictures that are none of them."""
    (root / IMAGES).mkdir(parents=True, exist_ok=True)
    for name in _pictures(root) - set(texts):
        (root / name).unlink()
    for name, text in texts.items():
        (root / name).write_text(text)


def files(root: Path, results: Path) -> dict[str, str]:
    """What is written from the results of a folder, by the paths below the root."""
    found = _results(results)
    made = {f"{IMAGES}/{name}.svg": text for each in found if (text := _picture(each)) for name in [each["case"]]}
    if headline := _headline(found):
        made[f"{IMAGES}/{HEADLINE}.svg"] = headline
    made[PAGE] = _page(found, made)
    readme = (root / README).read_text()
    made[README] = MARK.sub(lambda _: f"{BEGIN}\n{_summary(found, made)}{END}", readme)
    return made


def _results(folder: Path) -> list[dict[str, Any]]:
    """All full results, in the order of the cases; those whose case is gone come last."""
    from benchmarks.cases import CASES

    paths = [path for path in sorted(folder.glob("*.json")) if not path.name.endswith(".local.json")]
    place = {name: number for number, name in enumerate(CASES)}
    found = [json.loads(path.read_text()) for path in paths]
    return sorted(found, key=lambda each: (place.get(each["case"], len(place)), each["case"]))


def _pictures(root: Path) -> set[str]:
    return {f"{IMAGES}/{path.name}" for path in (root / IMAGES).glob("*.svg")}


def _page(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    lines = [HEAD, "## Figures to reach", "", *_goals(found), "", *_limits(found)]
    if f"{IMAGES}/{HEADLINE}.svg" in made:
        lines += [_image(HEADLINE, made, "images"), ""]
    for each in found:
        lines += [f"## {each['case']}", "", f"    {_command(each)}", ""]
        if f"{IMAGES}/{each['case']}.svg" in made:
            lines += [_image(each["case"], made, "images"), ""]
        lines += [report.body(each)]
    return "\n".join(lines)


def _summary(found: Sequence[Mapping[str, Any]], made: Mapping[str, str]) -> str:
    """The short table and the picture of README.md."""
    measured = {(each["case"], goal["text"]): (each, goal) for each in found for goal in each["goals"]}
    rows = [
        [text or goal["text"], report.number(goal["value"]), f"[`{_command(each)}`]({PAGE}#{each['case']})"]
        for name, text in SUMMARY.items()
        if name in measured
        for each, goal in [measured[name]]
    ]
    if not rows:
        return ""
    picture = [_image(HEADLINE, made, IMAGES), ""] if f"{IMAGES}/{HEADLINE}.svg" in made else []
    return "\n".join([*report.table(["figure", "measured", "command"], rows, texts=1), "", *picture])


def _goals(found: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        [f"[{each['case']}](#{each['case']})", goal["text"], f"`{_command(each)}`", *_goal(goal)]
        for each in found
        for goal in each["goals"]
    ]
    return report.table(["case", "figure", "command", "goal", "measured", "reached"], rows, texts=3)


def _limits(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """What bounds the goals that are not reached."""
    said = [
        f"- [{each['case']}](#{each['case']}), {goal['text']}: {limit}"
        for each in found
        for goal in each["goals"]
        if not goal["reached"] and (limit := LIMITS.get((each["case"], goal["text"])))
    ]
    return ["What bounds those that are not reached, as profiles show it:", "", *said, ""] if said else []


def _goal(goal: Mapping[str, Any]) -> list[str]:
    return [goal["goal"], report.number(goal["value"]), "yes" if goal["reached"] else "**no**"]


def _command(found: Mapping[str, Any]) -> str:
    return f"make bench CASES={found['case']}"


def _image(name: str, made: Mapping[str, str], folder: str) -> str:
    """The picture, with what it says for those who do not see it."""
    said = re.search("<desc[^>]*>(.*?)</desc>", made[f"{IMAGES}/{name}.svg"])
    title = re.search("<title[^>]*>(.*?)</title>", made[f"{IMAGES}/{name}.svg"])
    assert said is not None
    assert title is not None
    return (
        f"![{title[1]}: {said[1]}]({folder}/{name}.svg)".replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&")
    )


def _picture(found: Mapping[str, Any]) -> str | None:
    """Bars of the contenders of a case, in the metric that all of them have."""
    contenders = found["contenders"]
    metric = found.get("picture") or _metric(contenders)
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
    """Rows per CPU second for each kind of file, in one picture."""
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
