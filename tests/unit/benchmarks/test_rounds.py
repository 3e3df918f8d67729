"""The order in which contenders run, and the stored results of a run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.case import Case, Contender, Facts
from benchmarks.harness import BenchmarkError, Command, Measured
from benchmarks.rounds import run_case


def contender(name: str, log: list[str], rounds: int | None = None) -> Contender:
    def commands(folder: Path) -> list[Command]:
        log.append(name)
        assert not list(folder.iterdir())
        return [Command([sys.executable, "-c", f"print({name!r})"])]

    def facts(folder: Path, measured: Measured) -> Facts:
        assert measured.stdout == folder / "stdout"
        return {"rows": len(measured.stdout.read_text())}

    return Contender(name, "", commands, facts, rounds)


def test_contenders_take_turns_and_slow_ones_stop_early(tmp_path: Path) -> None:
    log: list[str] = []
    logged: list[str] = []
    case = Case("turns", "", [contender("a", log), contender("slow", log, 1), contender("b", log)], rounds=2)
    runs = run_case(case, folder=tmp_path, rounds=None, log=logged.append)

    assert log == ["a", "b", "a", "slow", "b", "a", "b"]
    assert {name: len(each) for name, each in runs.items()} == {"a": 2, "slow": 1, "b": 2}
    assert runs["slow"][0]["rows"] == 5
    assert {"wall_s", "cpu_s", "peak_tree_mb", "peak_process_mb"} < set(runs["a"][0])
    assert len(logged) == len(log)
    assert not list(tmp_path.iterdir())


def test_what_is_to_be_discarded_goes_also_after_a_failure(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_text("much")
    failing = Contender("fails", "", lambda _: [Command([sys.executable, "-c", "raise SystemExit(1)"])], lambda *_: {})
    with pytest.raises(BenchmarkError):
        run_case(Case("fails", "", [failing], discard=[large]), folder=tmp_path, rounds=1, log=lambda _: None)

    assert not list(tmp_path.iterdir())
