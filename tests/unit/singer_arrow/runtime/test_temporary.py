"""Temporary folders are removed with their process, however it ends, and never before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from singer_arrow.runtime.process import LOCK, TemporaryFolder, remove_abandoned, temporary_folder

NAME = "target-things"
PROGRAM = """
import sys
from singer_arrow.runtime.process import TemporaryFolder, temporary_folder
folder = TemporaryFolder(sys.argv[1])
folder.new(".x").write_text("rows")
with temporary_folder("batch-files-") as inner:
    print(folder.path, inner.parent, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], Path, Path]]:
    """Start a process with two such folders; return it and the folders."""
    command = [sys.executable, "-c", PROGRAM, NAME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield running, *map(Path, running.stdout.readline().split())
        running.kill()


@pytest.mark.full
def test_a_killed_process_leaves_a_folder_that_the_next_run_removes() -> None:
    with process() as (running, folder, other):
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        assert list(folder.iterdir())
        mine = TemporaryFolder(NAME)
        assert mine.path.exists()
        assert not folder.exists()
        assert other.exists()
        remove_abandoned("singer-arrow")
        assert not other.exists()


@pytest.mark.full
def test_the_folder_of_a_living_process_stays() -> None:
    with process() as (running, folder, other):
        remove_abandoned(NAME)
        remove_abandoned("singer-arrow")
        assert other.exists()
        assert sorted(p.suffix for p in folder.iterdir()) == [".lock", ".x"]
        assert running.poll() is None
        running.communicate("")
        assert running.returncode == 0
        assert not folder.exists()  # removed with its process
        assert not other.exists()


def test_what_is_not_known_to_be_ours_stays(temporary: Path) -> None:
    other = temporary / "elsewhere"
    other.mkdir()
    (other / LOCK).touch()
    (temporary / f"{NAME}-notes").mkdir()
    (temporary / f"{NAME}-file").touch()
    (temporary / f"{NAME}-link").symlink_to(other)
    named = temporary / f"{NAME}-linked-lock"
    named.mkdir()
    (named / LOCK).symlink_to(other / LOCK)
    before = sorted(temporary.rglob("*"))
    remove_abandoned(NAME)
    assert sorted(temporary.rglob("*")) == before


def test_many_threads_get_one_folder() -> None:
    folder = TemporaryFolder(NAME)
    barrier = threading.Barrier(16)
    found: set[Path] = set()

    def ask() -> None:
        barrier.wait()
        found.add(folder.new(".x").parent)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {folder.path}


def test_a_folder_that_is_removed_may_be_used_again() -> None:
    folder = TemporaryFolder(NAME)
    first = folder.path
    folder.remove()
    assert not first.exists()
    assert folder.path.exists()
    folder.remove()
    folder.remove()


def test_a_folder_that_somebody_else_removed_is_made_again() -> None:
    folder = TemporaryFolder(NAME)
    shutil.rmtree(folder.path)
    folder.new(".x").touch()


def test_folders_of_a_process_end_with_their_use() -> None:
    with temporary_folder("some-") as folder:
        (folder / "file").touch()
        with temporary_folder("some-") as other:
            assert other.parent == folder.parent
    assert not folder.exists()
    assert folder.parent.exists()
