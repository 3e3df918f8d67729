"""Medians, ratios, goals and the table made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_machine import MACHINE
from benchmarks import report
from benchmarks.case import Case, Contender, Goal
from benchmarks.rounds import Run


def run(wall: float, cpu: float, **facts: float) -> Run:
    return {"wall_s": wall, "cpu_s": cpu, "peak_tree_mb": 100.0, "peak_process_mb": 90.0, **facts}


RUNS = {
    "slow": [run(4.0, 8.0, rows=1000, bytes=5e6), run(6.0, 9.0, rows=1000, bytes=5e6)],
    "fast": [run(2.0, 2.0, rows=1000, jobs=1), run(1.0, 1.0, rows=1000, jobs=1), run(9.0, 1.5, rows=1000, jobs=1)],
}


def case(*goals: Goal) -> Case:
    contenders = [Contender(name, f"{name} settings", lambda _: [], lambda *_: {}) for name in RUNS]
    return Case("example", "What it compares.", contenders, goals, columns=(("jobs", "load jobs"),))


def test_medians_and_rows_per_cpu_second() -> None:
    found = report.medians(RUNS["fast"])

    assert found["wall_s"] == 2.0
    assert found["cpu_s"] == 1.5
    assert found["rows_per_cpu_s"] == pytest.approx(1000 / 1.5)


def test_rows_per_cpu_second_of_a_run_are_kept() -> None:
    assert report.medians([run(1, 2, rows=10, rows_per_cpu_s=99.0)])["rows_per_cpu_s"] == 99.0


@pytest.mark.parametrize(
    ("goal", "value", "reached"),
    [
        (Goal("", "cpu_s", "fast", "slow", at_most=0.2), 1.5 / 8.5, True),
        (Goal("", "cpu_s", "fast", "slow", at_most=0.1), 1.5 / 8.5, False),
        (Goal("", "rows_per_cpu_s", "fast", "slow", at_least=5), 8.5 / 1.5, True),
        (Goal("", "cpu_s", "fast", "slow", at_least=5, turned=True), 8.5 / 1.5, True),
        (Goal("", "cpu_s", "slow", ("slow", "fast"), at_least=0.5, turned=True), 1.5 / 8.5, False),
        (Goal("", "wall_s", "fast", at_most=2), 2.0, True),
        (Goal("", "jobs", "fast", at_least=2), 1.0, False),
        (Goal("", "wall_s", "fast", ("slow", "fast"), at_most=1.1), 1.0, True),
        (Goal("", "rows_per_cpu_s", "slow", ("slow", "fast"), at_least=0.5), 1.5 / 8.5, False),
    ],
)
def test_goals(goal: Goal, value: float, reached: bool) -> None:
    judged = report.judge(goal, RUNS)

    assert judged["value"] == pytest.approx(value)
    assert judged["reached"] is reached


def test_the_table_has_medians_spreads_ratios_and_settings() -> None:
    goal = Goal("CPU against slow", "cpu_s", "fast", "slow", at_most=0.1)
    text = report.markdown(report.result(case(goal), RUNS, machine=MACHINE, scale=1))

    lines = text.splitlines()
    assert lines[0] == "## example"
    head, _, slow, fast = _rows(lines)
    assert head == ["", "wall s", "x", "CPU s", "x", "peak MB", "rows", "MB out", "rows / CPU s", "load jobs", "n"]
    assert slow == ["slow", "5 (4-6)", "1.00", "8.5 (8-9)", "1.00", "100 (100-100)", "1,000", "5", "118", "", "2"]
    assert fast == ["fast", "2 (1-9)", "0.40", "1.5 (1-2)", "0.18", "100 (100-100)", "1,000", "", "667", "1", "3"]
    assert "- fast: fast settings" in lines
    assert "| CPU against slow | <= 0.1 | 0.176 | **no** |" in lines
    assert "2030-01-02, A processor, 2 cores, 8.0 GB, Linux x86_64, Python 3.13.0, pyarrow 26.0.1." in lines


def test_a_brief_table_has_medians_alone_and_settings_once() -> None:
    contenders = [replace(contender, settings="the same") for contender in case().contenders]
    found = report.result(replace(case(), contenders=contenders), RUNS, machine=MACHINE, scale=1)
    lines = report.measured(found, brief=True).splitlines()

    head, _, slow, fast = _rows(lines)
    assert head == ["", "wall s", "CPU s", "peak MB", "MB out", "rows / CPU s", "load jobs", "n"]
    assert slow == ["slow", "5", "8.5", "100", "5", "118", "", "2"]
    assert fast == ["fast", "2", "1.5", "100", "", "667", "1", "3"]
    assert "- slow; fast: the same" in lines
    assert lines[-1] == "2030-01-02, A processor, 2 cores, 8.0 GB, Linux x86_64, Python 3.13.0."


def _rows(lines: list[str]) -> tuple[list[str], list[str], list[str], list[str]]:
    first = next(n for n, line in enumerate(lines) if line.startswith("|"))
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[first : first + 4]]
    return cells[0], cells[1], cells[2], cells[3]


def test_an_empty_column_is_left_out() -> None:
    runs = {name: [run(1.0, 1.0)] for name in RUNS}
    head = _rows(report.markdown(report.result(case(), runs, machine=MACHINE, scale=1)).splitlines())[0]

    assert head == ["", "wall s", "x", "CPU s", "x", "peak MB", "n"]


def test_scaled_results_are_in_a_folder_of_their_own_and_marked(tmp_path: Path) -> None:
    whole = report.result(case(), RUNS, machine=MACHINE, scale=1)
    part = report.result(case(Goal("", "cpu_s", "fast", at_most=1)), RUNS, machine=MACHINE, scale=0.1)

    assert report.write(whole, tmp_path).name == "example.json"
    assert report.write(part, tmp_path).name == "example.local.json"
    assert json.loads((tmp_path / "example.json").read_text()) == json.loads(json.dumps(whole))
    assert "Rows scaled by 0.1." in report.markdown(part)
    assert part["goals"] == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (0, "0"),
        (3, "3"),
        (0.12345, "0.123"),
        (1.2345, "1.23"),
        (53.5, "53.5"),
        (1234.5, "1,234"),
        (1e7, "10,000,000"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert report.number(value) == text
