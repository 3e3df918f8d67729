"""Run the contenders of a case in turn, round after round, so that what disturbs the machine disturbs all alike."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.case import Case, Contender
from benchmarks.harness import Measured, measure

Run = dict[str, float]
"""Everything known about one run of one contender, by name with its unit."""


def run_case(case: Case, *, folder: Path, rounds: int | None, log: Callable[[str], None]) -> dict[str, list[Run]]:
    """Run a case and return the runs of each contender, in the order of the contenders.

    Before the first round each contender that takes part in all of them runs once unmeasured, so that files are in
    the page cache and bytecode is compiled for everyone.

    Args:
        folder: where the runs write; what they wrote is removed after each one.
        rounds: instead of the case's own number.
        log: takes a line of progress.

    Raises:
        BenchmarkError: a contender failed or gave wrong output.
    """
    try:
        return _run_case(case, folder, rounds or case.rounds, log)
    finally:
        for path in case.discard:
            path.unlink(missing_ok=True)


def _run_case(case: Case, folder: Path, total: int, log: Callable[[str], None]) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {contender.name: [] for contender in case.contenders}
    for number in range(total + 1):
        for contender in case.contenders:
            if number > (contender.rounds or total) or (number == 0 and contender.rounds is not None):
                continue
            run = _run(contender, folder)
            if number:
                runs[contender.name].append(run)
            log(f"{f'round {number}/{total}' if number else 'warm-up'}  {contender.name}: {_line(run)}")
    return runs


def _run(contender: Contender, parent: Path) -> Run:
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        measured = measure(contender.commands(folder), folder)
        return figures(measured) | contender.facts(folder, measured)
    finally:
        shutil.rmtree(folder)


def figures(measured: Measured) -> Run:
    """What the harness measured, as figures with units in their names."""
    parts = {f"cpu_s_of_{n}": cpu for n, cpu in enumerate(measured.cpu_of, 1)} if len(measured.cpu_of) > 1 else {}
    return {
        "wall_s": measured.wall,
        "cpu_s": measured.cpu,
        "peak_tree_mb": measured.peak_tree / 1e6,
        "peak_process_mb": measured.peak_process / 1e6,
    } | parts


def _line(run: Run) -> str:
    return f"{run['wall_s']:.2f} s wall, {run['cpu_s']:.2f} s CPU, {run['peak_tree_mb']:.0f} MB"
