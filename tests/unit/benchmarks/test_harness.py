"""Measurements of process trees with known CPU time and memory."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from benchmarks.harness import BenchmarkError, Command, measure

SPIN = "import time\nwhile time.process_time() < {seconds}: pass\n"
HOLD = "import time; held = bytearray({megabytes} * 1_000_000)\n"
SPAWN = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {code!r}])\n"


def python(code: str) -> Command:
    return Command([sys.executable, "-c", code])


def test_cpu_of_the_whole_tree_is_counted(tmp_path: Path) -> None:
    child = SPIN.format(seconds=0.3)
    measured = measure([python(SPAWN.format(code=child) + SPIN.format(seconds=0.2) + "child.wait()")], tmp_path)

    assert measured.cpu >= 0.5
    assert measured.cpu_of == (measured.cpu,)


def test_each_command_of_a_pipeline_has_its_own_cpu(tmp_path: Path) -> None:
    measured = measure([python("print('through', flush=True)"), python(SPIN.format(seconds=0.3) + COPY)], tmp_path)

    idle, busy = measured.cpu_of
    assert busy >= 0.3
    assert measured.cpu == pytest.approx(idle + busy)
    assert measured.stdout.read_text() == "through\n"


COPY = "import sys; sys.stdout.write(sys.stdin.read())"


def test_memory_is_that_of_all_processes_at_once(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    child = HOLD.format(megabytes=80) + f"open({str(ready)!r}, 'w').close(); time.sleep(600)"
    wait = f"import os\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.01)\ntime.sleep(0.8); child.kill()"
    folder = tmp_path / "run"
    folder.mkdir()
    measured = measure([python(SPAWN.format(code=child) + HOLD.format(megabytes=60) + wait)], folder)

    assert measured.peak_tree >= 140_000_000
    assert 80_000_000 <= measured.peak_process < 140_000_000


def test_an_orphan_counts_and_does_not_survive(tmp_path: Path) -> None:
    ready, orphan = tmp_path / "ready", tmp_path / "orphan"
    grandchild = SPIN.format(seconds=0.3) + f"open({str(ready)!r}, 'w').close(); time.sleep(600)"
    child = (
        "import os, subprocess, sys\n"
        f"left = subprocess.Popen([sys.executable, '-c', {grandchild!r}], start_new_session=True)\n"
        f"open({str(orphan)!r}, 'w').write(str(left.pid))\n"
        "os._exit(0)"
    )
    wait = f"import os, time\nchild.wait()\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.01)"
    parent = SPAWN.format(code=child) + wait
    folder = tmp_path / "run"
    folder.mkdir()
    measured = measure([python(parent)], folder)

    assert measured.cpu >= 0.3
    assert measured.cpu_of[0] < measured.cpu
    with pytest.raises(ProcessLookupError):
        os.kill(int(orphan.read_text()), 0)


def test_wall_time_spans_the_pipeline(tmp_path: Path) -> None:
    before = time.time()
    measured = measure([python("import time; time.sleep(0.2)"), python(COPY)], tmp_path)

    assert measured.wall >= 0.2
    assert before <= measured.started <= time.time() - measured.wall + 0.01


def test_stdin_and_environment_reach_the_command(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.write_text("from a file")
    code = "import os, sys; print(sys.stdin.read(), os.environ['BENCH_WORD'])"
    measured = measure([Command([sys.executable, "-c", code], {"BENCH_WORD": "and a word"}, given)], tmp_path)

    assert measured.stdout.read_text() == "from a file and a word\n"


def test_a_failure_has_the_command_and_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"exit code 3: .*python.*\n +the reason"):
        measure([python("import sys; print('the reason', file=sys.stderr); sys.exit(3)")], tmp_path)


def test_a_failure_within_a_pipeline_is_seen(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="exit code 4"):
        measure([python("import sys; sys.exit(4)"), python(COPY)], tmp_path)


def test_a_missing_program_ends_the_commands_before_it(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"cannot start no-such-program: No such file"):
        measure([python("import time; time.sleep(600)"), Command(["no-such-program"])], tmp_path)


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="exit code -9"):
        measure([python("import time; time.sleep(600)")], tmp_path, timeout=0.2)
