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
from typing import Any, NamedTuple

from benchmarks import pictures, report
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


class Figure(NamedTuple):
    """A goal that docs/performance.md names on its first screen.

    Attributes:
        case: The benchmark.
        goal: The text of the goal in that case.
        text: What was measured, for a reader who does not know the case.
        meaning: What it means to a user.
        is_in_readme: Whether README.md has it too.
    """

    case: str
    goal: str
    text: str
    meaning: str
    is_in_readme: bool = False


FIGURES = (
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: seconds over DuckDB's",
        "Parquet on S3 to batch files: seconds, a DuckDB script = 1",
        "DuckDB reads S3 by s3fs here, since its own extension is not on a package index.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: seconds over polars'",
        "The same: seconds, a polars script = 1",
        "A script writes one file, without STATE, ids or a check of the schema.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: seconds over DuckDB's",
        "CSV on S3 to batch files: seconds, a DuckDB script = 1",
        "Ranges are downloaded while earlier ones are parsed.",
        is_in_readme=True,
    ),
    Figure(
        "scaling",
        "CSV, largest file: seconds over DuckDB's",
        "CSV of 1 GB on local disk: seconds, a DuckDB script = 1",
        "Without S3, both are limited by their parsers.",
        is_in_readme=True,
    ),
    Figure(
        "scaling",
        "CSV, largest file: CPU seconds over DuckDB's",
        "The same: CPU seconds, a DuckDB script = 1",
        "As above.",
    ),
    Figure(
        "taxi-jsonl-gz",
        "JSONL.GZ -> BATCH Parquet, 1 file: CPU seconds over the least of polars' and DuckDB's",
        "gzip JSON Lines on S3 to batch files: CPU seconds, the better of a polars and a DuckDB script = 1",
        "Arrow's JSON parser takes most of it; values that scripts change silently are errors.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: rows per CPU second over Airbyte's",
        "Parquet on S3 to batch files: rows per CPU second, Airbyte's source = 1",
        "An hour of Airbyte is less than a minute.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-parquet",
        "Parquet -> BATCH Parquet, 1 file: CPU against plain pyarrow read + write",
        "The same: CPU seconds, a pyarrow script = 1",
        "What schema checks, ids and STATE cost on top of reading and writing.",
        is_in_readme=True,
    ),
    Figure(
        "taxi-csv",
        "CSV -> BATCH Parquet, 1 file: rows per CPU second over the fastest of Airbyte, pipelinewise, tap-file",
        "CSV on S3 to batch files: rows per CPU second, the fastest of Airbyte and pipelinewise = 1",
        "Large CSV files are limited by the parser of Arrow.",
        is_in_readme=True,
    ),
    Figure(
        "wide",
        "rows a second, BATCH Parquet over the stock pipe",
        "100,000 rows of 150 columns, S3 to a finished load: rows per second, the SDK's RECORD pipe = 1",
        "The load job takes most of the time that is left.",
        is_in_readme=True,
    ),
    Figure(
        "record-pipe",
        "wide: rows per CPU second over SDK, default",
        "RECORD messages of 150 columns through the pipe: rows per CPU second, the SDK = 1",
        "Taps and targets of others benefit from either side, too.",
        is_in_readme=True,
    ),
    Figure(
        "record-pipe",
        "narrow: rows per CPU second over SDK, default",
        "RECORD messages of 19 columns: rows per CPU second, the SDK = 1",
        "As above.",
    ),
    Figure(
        "redshift-loads",
        "rows a CPU second, Parquet on S3 over stock",
        "100,000 rows of 150 columns into Redshift: rows per CPU second, the SDK's SQL sink = 1",
        "Redshift reads the files itself; the target sends one COPY.",
        is_in_readme=True,
    ),
    Figure(
        "s3-small",
        "times as fast as boto3",
        "2,000 objects of 10 KB into Arrow: seconds of boto3 with 32 threads / ours",
        "Many small files are read together.",
        is_in_readme=True,
    ),
    Figure(
        "s3-columns",
        "times as fast as pyarrow's best",
        "3 of 19 columns of Parquet: seconds of pyarrow at its best / ours",
        "Only the byte ranges of the columns in use are requested.",
    ),
    Figure(
        "s3-csv",
        "times as fast as the best other",
        "CSV of 349 MB into Arrow: seconds of the fastest other reader / ours",
        "Ranges are downloaded over several connections while earlier ones are parsed.",
    ),
    Figure(
        "s3-jsonl-gz",
        "times as fast as pyarrow's best",
        "gzip JSON Lines into Arrow: seconds of pyarrow at its best / ours",
        "Arrow's JSON parser takes the time in both.",
    ),
    Figure(
        "s3-torn",
        "torn readings",
        "Readings that mix two versions of an object that is overwritten meanwhile",
        "Every request is for the version that was listed.",
        is_in_readme=True,
    ),
    Figure(
        "memory-inputs",
        "peak MB, JSON Lines, texts of 60 MB",
        "Peak MB of the tap with `memory_limit_mb: 512`, JSON Lines with texts of 60 MB",
        "Plan for the limit and 250 MB.",
        is_in_readme=True,
    ),
    Figure(
        "scaling",
        "memory, largest against smallest file",
        "Peak memory with a file of 1 GB, with one of 0.25 GB = 1",
        "Memory does not grow with the file.",
        is_in_readme=True,
    ),
    Figure(
        "start",
        "a run with nothing new over 1,000 objects, seconds",
        "Seconds of a run that finds nothing new among 1,000 objects",
        "A schedule of every minute is fine.",
    ),
    Figure(
        "merge",
        "times as many bytes without the day in the key",
        "Bytes that a MERGE of one day reads in BigQuery: without pruning / with it",
        "The cost of an upsert follows the rows that change, not the table.",
    ),
)
"""The figures of the first screen, in its order."""
PICTURED = {
    **dict.fromkeys(("memory-inputs", "memory", "scaling", "scaling-10gb"), "peak_tree_mb"),
    **dict.fromkeys(("coalescing", "loads"), "jobs"),
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
