"""The performance page, its charts and the README's table: generated from results, and checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench_machine import MACHINE
from benchmarks import page, pictures
from benchmarks.limits import LIMITS
from benchmarks.pictures import Bar, Panel


def contender(name: str, settings: str, rows: int, cpu: float) -> dict[str, Any]:
    run = {"wall_s": 2 * cpu, "cpu_s": cpu, "peak_tree_mb": 100.0, "rows": rows, "rows_per_s": rows / (2 * cpu)}
    return {"name": name, "settings": settings, "median": run | {"rows_per_cpu_s": rows / cpu}, "runs": [run]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a repository with a README and two results."""
    (tmp_path / "README.md").write_text(f"before {page.BEGIN}old{page.END} after")
    results = tmp_path / "results"
    results.mkdir()
    (tmp_path / "docs").mkdir()
    goal = {"text": "rows per CPU second", "goal": ">= 200", "value": 250.0, "reached": True}
    missed = {"text": "peak <MB>", "goal": "<= 1", "value": 2.0, "reached": False}
    for name, goals in (("wide", [missed]), ("taxi-parquet", [goal])):
        found = {
            "case": name,
            "about": f"About {name}.",
            "scale": 1,
            "machine": MACHINE,
            "columns": [],
            "contenders": [
                contender("ours", "`tap-s3-files`, defaults", 500, 1.0),
                contender("<peer>", "its", 10, 5.0),
            ],
            "goals": goals,
        }
        (results / f"{name}.json").write_text(json.dumps(found))
        (results / f"{name}.local.json").write_text("not read")
    return tmp_path


def test_all_is_written_and_then_found_up_to_date(root: Path) -> None:
    texts = page.files(root, root / "results")
    assert set(page.stale(root, texts)) == set(texts)
    (root / page.IMAGES).mkdir()
    (root / page.IMAGES / "gone.svg").write_text("of a case that is no more")
    page.write(root, texts)
    assert page.stale(root, page.files(root, root / "results")) == []

    index = (root / page.INDEX).read_text()
    first = index.index("| [taxi-parquet](performance/taxi-parquet.md) | About taxi-parquet. | 1 of 1 |")
    assert first < index.index("| [wide](performance/wide.md) | About wide. | 0 of 1 |")
    for case, goal in (
        ("taxi-parquet", "rows per CPU second | >= 200 | 250 | yes"),
        ("wide", "peak <MB> | <= 1 | 2 | **no**"),
    ):
        text = (root / page.CASE_PAGES / f"{case}.md").read_text()
        assert text.startswith(
            f"# {case}\n\nWritten by `make docs`; `make bench CASES={case}` measures again. About {case}."
        )
        assert f"| {goal} |" in text
        assert "A processor, 2 cores" in text
        assert f"](../images/{case}.svg)" in text
    headline = f"images/{page.HEADLINE}.svg"
    assert f"]({headline})" in (root / page.PAGE).read_text()
    pictured = {f"images/{name}.svg" for name in ("taxi-parquet", "wide")}
    assert {f"images/{path.name}" for path in (root / page.IMAGES).iterdir()} == pictured | {headline}


def test_a_page_has_the_first_sentences_and_those_about_its_size(root: Path) -> None:
    path = root / "results" / "wide.json"
    about = "Wide: `a` and S3. Each has 150 columns. More is in the case. Here 5 files. Left out: one 1.5 of them."
    path.write_text(json.dumps(json.loads(path.read_text()) | {"about": about}))
    text = page.files(root, root / "results")[f"{page.CASE_PAGES}/wide.md"]
    assert "again. Wide: `a` and S3. Each has 150 columns. Here 5 files. Left out: one 1.5 of them.\n" in text


def test_what_limits_a_goal_that_is_not_reached_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = {("wide", "peak <MB>"): "the bound.", ("taxi-parquet", "rows per CPU second"): "of one that is reached"}
    monkeypatch.setattr(page, "LIMITS", reasons)
    texts = page.files(root, root / "results")

    assert "- peak <MB>: the bound.\n" in texts[f"{page.CASE_PAGES}/wide.md"]
    assert all("of one that is reached" not in text for text in texts.values())


def test_each_goal_of_the_repository_that_is_not_reached_has_its_bound() -> None:
    found = [json.loads(path.read_text()) for path in sorted(page.RESULTS.glob("*.json"))]
    goals = {(each["case"], goal["text"]): goal["reached"] for each in found for goal in each["goals"]}

    assert {name for name, reached in goals.items() if not reached} <= set(LIMITS) <= set(goals)
    assert {(figure.case, figure.goal) for figure in page.FIGURES} <= set(goals)
    assert "| **no** |" in (page.ROOT / "README.md").read_text()


def test_pictures_of_the_repository_show_a_metric_that_has_a_title() -> None:
    titles = [title for title, _ in page.METRICS.values()]
    for picture in sorted((page.ROOT / page.IMAGES).glob("*.svg")):
        label = ElementTree.parse(picture).getroot().get("aria-label") or picture.read_text()
        assert any(title in label for title in titles) or picture.stem == page.HEADLINE, picture.name


def test_the_readme_keeps_the_text_around_the_figures(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = page.Figure("taxi-parquet", "rows per CPU second", "rows", "Many.", is_in_readme=True)
    others = [measured._replace(case="none"), measured._replace(text="not in README", is_in_readme=False)]
    monkeypatch.setattr(page, "FIGURES", [measured, *others])
    page.write(root, page.files(root, root / "results"))
    text = (root / "README.md").read_text()

    assert text.startswith(f"before {page.BEGIN}\n| figure | goal |")
    assert text.endswith(f"{page.END} after")
    assert "old" not in text
    linked = "[rows](docs/performance/taxi-parquet.md)"
    assert f"| {linked} | >= 200 | 250 | yes |" in text
    assert "not in README" not in text
    overview = (root / page.PAGE).read_text()
    assert "| [not in README](performance/taxi-parquet.md) | >= 200 | 250 | yes | Many. |" in overview
    assert "(images/rows-per-cpu-second.svg)" in overview


def test_pages_of_cases_that_are_gone_are_removed(root: Path) -> None:
    page.write(root, page.files(root, root / "results"))
    (root / "results/wide.json").unlink()
    texts = page.files(root, root / "results")
    assert "docs/performance/wide.md" in page.stale(root, texts)
    page.write(root, texts)
    assert [path.name for path in (root / page.CASE_PAGES).iterdir()] == ["taxi-parquet.md"]


@pytest.mark.parametrize("change", ["edited", "missing", "left over"])
def test_what_differs_is_named(root: Path, change: str) -> None:
    texts = page.files(root, root / "results")
    page.write(root, texts)
    picture = root / page.IMAGES / "wide.svg"
    if change == "edited":
        picture.write_text(picture.read_text().replace("wide", "narrow"))
    elif change == "missing":
        picture.unlink()
    else:
        picture = picture.rename(picture.with_name("other.svg"))
        picture.with_name("wide.svg").write_text(texts["docs/images/wide.svg"])

    assert page.stale(root, texts) == [f"docs/images/{picture.name}"]


def test_bars_are_as_long_as_their_values_and_inside_the_card() -> None:
    bars = [Bar("ours & <more>", 200.0, ours=True), Bar("half", 100.0), Bar("nothing", 0.0), Bar("n" * 90, 3.14159)]
    drawn = ElementTree.fromstring(
        pictures.chart("Rows < CPU", "more is better", [Panel("One", bars), Panel("", bars)])
    )
    space = "{http://www.w3.org/2000/svg}"
    rects = [each for each in drawn.iter(f"{space}rect") if each.get("class") != "card"]
    widths = [float(each.get("width", "nan")) for each in rects]
    right, bottom = float(drawn.get("width", "0")), float(drawn.get("height", "0"))

    assert widths[0] == widths[4] == pytest.approx(2 * widths[1], abs=0.1)
    assert all(float(each.get("x", "0")) + width < right for each, width in zip(rects, widths, strict=True))
    assert all(float(each.get("y", "0")) < bottom for each in drawn.iter() if each.get("y"))
    assert [each.get("class") for each in rects[:2]] == ["ours", "other"]
    description = drawn.find(f"{space}desc")
    assert description is not None
    assert description.text is not None
    assert description.text.startswith("One: ours & <more> 200, half 100, nothing 0, ")
    assert "prefers-color-scheme: dark" in ElementTree.tostring(drawn, encoding="unicode")


def test_without_results_the_readme_has_no_table(root: Path) -> None:
    for path in (root / "results").iterdir():
        path.unlink()
    page.write(root, page.files(root, root / "results"))

    assert (root / "README.md").read_text() == f"before {page.BEGIN}\n{page.END} after"
