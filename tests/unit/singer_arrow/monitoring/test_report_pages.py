"""Pages of one and of many runs: their text, and what a browser makes of them."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from run_reports import BEGIN, made

from singer_arrow.monitoring.report import Report, RunOutcome, joined
from singer_arrow.monitoring.report_pages import duration_text, history_page, main, nice_seconds, nice_top, run_page
from singer_arrow.run_figures import StreamFigures

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
LONG = "a-name-without-any-space-that-is-much-longer-than-a-narrow-screen-is-wide"
FAILED = RunOutcome(
    status="failed", exit_code=1, error=("DataError", "s3://b/<a>.csv, line 3: 'x' is no number", "data")
)


def figures(stream: str = "orders", rows: int = 1234) -> StreamFigures:
    return StreamFigures(
        stream=stream,
        is_complete=True,
        counts={"objects": 2, "rows_read": rows + 1, "rows_written": rows, "rows_skipped": 1, "bytes": 5_600_000},
        seconds=12.5,
        phases={"plan": 0.5, "read": 8.0, "write": 4.0},
        table=f"project.raw.{stream}",
        inputs=tuple(f"s3://{LONG}/{n}.csv" for n in range(30)),
        watermark=BEGIN,
        left={"objects": 0},
    )


def good_run() -> str:
    _, first = made(settings={"dataset": "raw"})
    _, second = made(figures(), figures(LONG), settings={"dataset": LONG}, previous=first, hours=1)
    return run_page(second)


def failed_run() -> str:
    return run_page(made(figures(), StreamFigures(stream="late"), outcome=FAILED)[1])


def pipeline_runs() -> list[tuple[str, Report]]:
    """Return the reports of three runs of a pipeline; of the second the tap failed, and the target was killed."""
    found = []
    for n in range(3):
        of = {"hours": n, "pipeline": ("sales", f"run-{n}")}
        outcomes = (FAILED, RunOutcome()) if n == 1 else (None, None)
        found.append(made(figures(rows=10), connector="tap-s3-files", outcome=outcomes[0], **of))
        found.append(made(figures(rows=7), connector="target-x", outcome=outcomes[1], **of))
    for _, report in found[2:4]:
        error = {"type": "PipelineError", "message": "the <cause>", "code": "data"}
        report["pipeline"] |= {"status": "failed", "exit_code": 137, "error": error}
    return found


def pipeline_run() -> str:
    return run_page(*(report for _, report in pipeline_runs()[2:4]))


def history() -> str:
    runs = [
        made(
            figures(rows=n * 1000 % 7001),
            outcome=FAILED if n == 7 else None,
            hours=n,
            connector=("tap-s3-files", "target-x")[n % 2],
        )
        for n in range(40)
    ]
    runs.append(made(outcome=RunOutcome(), hours=40))
    return history_page(runs, now=BEGIN + timedelta(days=3), last=40)


PAGES: dict[str, tuple[Callable[[], str], list[str]]] = {
    "good": (good_run, ["1,234", "5.6 MB", "12.5 s", "project.raw.orders", "30 files", "dataset", LONG, "succeeded"]),
    "failed": (failed_run, ["s3://b/&lt;a&gt;.csv, line 3", "DataError", "late", "failed"]),
    "pipeline": (
        pipeline_run,
        ["sales", "tap-s3-files", "target-x", "the &lt;cause&gt;", "s3://b/&lt;a&gt;.csv, line 3"],
    ),
    "history": (
        history,
        ["The last 40 runs", "19 of 19", "19 of 21", "tap-s3-files", "target-x", "killed", "<rect", "<polyline"],
    ),
}
MEASURE = """
document.body.dataset.width = document.documentElement.scrollWidth
document.body.dataset.color = getComputedStyle(document.querySelector("h1")).color
"""
SORT = """
const clicked = name => {
  const heads = [...document.querySelectorAll("table.sorts th")], column = heads.findIndex(h => h.textContent === name)
  heads[column].querySelector("button").click()
  const shown = [...document.querySelectorAll("table.sorts tbody tr")].map(row => row.cells[column].textContent.trim())
  return `${name} ${heads[column].ariaSort}: ${shown.join("|")}`
}
const names = ["Rows written", "Rows written", "Duration", "Streams", "Streams"]
document.body.dataset.sorted = names.map(clicked).join(" / ")
"""
SCHEMES = {"dark": "0", "light": "1"}
"""Values of Chromium's setting `preferredColorScheme`."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_figures_and_needs_no_other_file(name: str) -> None:
    make, texts = PAGES[name]
    page = make()
    assert not [text for text in texts if text not in page]
    assert not re.search(r"<link rel=\"stylesheet|src=|@import|url\(|https?://", page)
    assert "prefers-color-scheme: dark" in page
    (script,) = re.findall("<script>(.*?)</script>", page, re.DOTALL)
    assert page.count("<script") == 1
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {source_of(script)}\"" in page


def source_of(script: str) -> str:
    """Return what a Content-Security-Policy names a script by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def in_browser(page: str, script: str, folder: Path, *options: str) -> tuple[str, str]:
    """Return what a browser makes of a page and of a script that its policy lets run after its own, and its log."""
    file = folder / "page.html"
    page = page.replace("script-src ", f"script-src {source_of(script)} ", 1)
    file.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    fixed = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={folder}/u",
    ]
    command = [CHROMIUM, *fixed, *options, "--dump-dom", file.as_uri()]
    shown = subprocess.run(command, capture_output=True, timeout=100, check=True)
    return shown.stdout.decode(), shown.stderr.decode()


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_the_page(name: str, width: int, scheme: str, tmp_path: Path) -> None:
    make, texts = PAGES[name]
    scheme_option = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    dom, log = in_browser(make(), MEASURE, tmp_path, scheme_option, f"--window-size={width},900")
    assert "CONSOLE" not in log
    assert not [text for text in texts if text not in dom]
    (measured,) = re.findall(r'data-width="(\d+)"', dom)
    assert int(measured) <= max(width, 500)  # some versions of Chromium have no narrower window
    (red,) = re.findall(r'data-color="rgb\((\d+),', dom)
    assert (int(red) > 128) == (scheme == "dark")
    body = re.sub(r"<style>.*</style>", "", dom, flags=re.DOTALL)
    assert "undefined" not in body


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_a_click_on_the_head_of_a_column_sorts_its_table(tmp_path: Path) -> None:
    """By values, not by texts: 1,234 is more than 900, and 2 min 5 s more than 40 s; what has no value is last."""
    streams = [
        StreamFigures(stream=name, counts={} if rows is None else {"rows_written": rows}, seconds=seconds)
        for name, rows, seconds in (("b", 900, 125.0), ("c", 1234, 40.0), ("a", None, 3.0))
    ]
    dom, log = in_browser(run_page(made(*streams)[1]), SORT.replace("Streams", "Stream"), tmp_path)
    assert "CONSOLE" not in log
    (found,) = re.findall('data-sorted="(.*?)"', dom)
    assert found.split(" / ") == [
        "Rows written descending: 1,234|900|",
        "Rows written ascending: 900|1,234|",
        "Duration descending: 2 min 5 s|40 s|3 s",
        "Stream ascending: a|b|c",
        "Stream descending: c|b|a",
    ]
    dom, _ = in_browser(history(), SORT, tmp_path)
    (sorted_texts,) = re.findall('data-sorted="Rows written descending: (.*?) / ', dom)
    rows = [int(text.replace(",", "")) for text in sorted_texts.split("|") if text]
    assert len(rows) == 39
    assert rows == sorted(rows, reverse=True)


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_no_other_script_runs(tmp_path: Path) -> None:
    page = good_run().replace("</main>", "<script>document.body.dataset.foreign = 'ran'</script></main>")
    dom, log = in_browser(page, "document.body.dataset.own = 'ran'", tmp_path)
    assert 'data-own="ran"' in dom
    assert "data-foreign" not in dom
    assert "Content Security Policy" in log


@pytest.mark.parametrize(
    ("largest", "top"), [(0, 1), (3, 5), (7001, 10_000), (0.03, 0.05), (200, 200), (201, 250), (251, 500)]
)
def test_axes_end_at_round_numbers(largest: float, top: float) -> None:
    assert nice_top(largest) == pytest.approx(top)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *[(0, "0 s"), (0.04, "40 ms"), (8.04, "8 s"), (12.5, "12.5 s"), (60, "1 min"), (125, "2 min 5 s")],
        *[(3600, "1 h"), (10_920, "3 h 2 min"), (86_400, "24 h"), (172_800, "2 days"), (None, "")],
    ],
)
def test_durations_in_words(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_a_stream_without_facts_and_no_settings_take_no_room() -> None:
    page = failed_run()
    assert page.count('<div class="card"') == 1
    assert "<h2>Settings" not in page
    assert "1 setting, without" in good_run()


def test_tap_and_target_of_a_run_are_one_entry_with_the_figures_of_the_target() -> None:
    page = history_page([*pipeline_runs(), made(figures(), hours=5)], now=BEGIN + timedelta(days=3), last=10)
    assert re.findall("<h2>(.*?)</h2>", page) == ["sales", "target-x", "All runs"]
    assert re.findall('href="(.*?).html"', page) == [made(hours=5)[0], "run-2", "run-1", "run-0"]
    assert "4 runs" in page
    assert re.findall(r"\d of \d", page) == ["2 of 3", "1 of 1"], "of each pipeline"
    assert page.count('class="status failed"') == 1
    assert page.count('data-name="Rows written" data-value="7">') == 3
    whole = joined([report for _, report in reversed(pipeline_runs()[:2])])
    assert [part["run"]["connector"] for part in whole["parts"]] == ["tap-s3-files", "target-x"]
    assert (whole["run"]["connector"], whole["run"]["status"], whole["run"]["seconds"]) == ("sales", "succeeded", 90)


def test_while_a_part_runs_the_whole_runs_and_then_its_error_is_that_of_a_part() -> None:
    _, tap = made(outcome=FAILED, connector="tap-x", pipeline=("sales", "run"))
    for outcome, status in ((RunOutcome(), "running"), (None, "failed")):
        whole = joined([tap, made(outcome=outcome, pipeline=("sales", "run"))[1]])
        assert (whole["run"]["status"], whole["error"]["code"]) == (status, "data")


def test_reports_of_earlier_versions_are_read() -> None:
    name, report = made(figures())
    del report["pipeline"]
    for stream in report["streams"]:
        del stream["complete_until"]
    assert "1,234" in run_page(report)
    assert f'href="{name}.html"' in history_page([(name, report)], now=BEGIN, last=1)


def test_a_folder_without_reports_is_an_error(tmp_path: Path) -> None:
    ran = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert ran.exit_code == 1
    assert ran.output == (
        f"Error: {tmp_path} has no report; give the connectors the setting report, with this folder [not-found]\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("largest", "top"), [(0.4, 0.5), (45, 60), (61, 120), (100_000, 172_800)])
def test_axes_of_seconds_end_at_times(largest: float, top: float) -> None:
    assert nice_seconds(largest) == pytest.approx(top)
