"""The window log: what was written is found again, and never replaced."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singer_arrow.errors import DataError, IdentityError, SupersededError
from singer_arrow.naming import folder_name
from singer_arrow.storage.log_head import read_head
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.settings import Bookmark
from tap_flight_sql.stream import Window, WindowFile, WindowLog

SCHEMA = {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}


def log_in(folder: Path, start: int = 0) -> WindowLog:
    """Return the log, for a run without STATE, or with the one before a window."""
    root = Url.parse(str(folder))
    if not start:
        return WindowLog(Storage(), root, "my rows", Bookmark())
    head = read_head(Storage(), root.join("_windows", folder_name("my rows")), 0, "my rows")
    return WindowLog(Storage(), root, "my rows", Bookmark(start, start, head.log))


def window(folder: Path, number: int) -> Window:
    files = tuple(WindowFile(f"file://{folder}/{number}-{n}.parquet", n + 1, 100) for n in range(2))
    return Window("my rows", number, f"token-{number}", number or None, number + 1, "parquet", "zstd", SCHEMA, files)


def test_windows_are_found_again(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    assert log.next_number == 0
    for number in range(12):
        log.append(window(tmp_path, number))
    assert list(log_in(tmp_path).windows()) == [window(tmp_path, n) for n in range(12)]
    assert [w.number for w in log_in(tmp_path, 10).windows()] == [10, 11]
    assert log_in(tmp_path, 12).next_number == 12


def remove(folder: Path) -> None:
    shutil.rmtree(folder / "_windows")


def begin_anew(folder: Path) -> None:
    remove(folder)
    log_in(folder).append(window(folder, 0))


def remove_end(folder: Path) -> None:
    (path,) = (folder / "_windows").rglob("00000002.json")
    path.unlink()


def nothing(_: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "state", "text"),
    [
        (nothing, Bookmark(3, 3, "log"), None),
        (nothing, Bookmark(), None),
        (nothing, Bookmark(3, 3, "other"), "another window log"),
        (nothing, Bookmark(3, 3), "does not fit the window log"),
        (nothing, Bookmark(7, 0), "begins elsewhere than its STATE"),
        (remove, Bookmark(3, 3, "log"), "another window log"),
        (begin_anew, Bookmark(3, 3, "log"), "another window log"),
        (remove_end, Bookmark(3, 3, "log"), "at window 3, and .* ends before window 2"),
    ],
)
def test_a_state_of_another_log_reads_nothing(
    tmp_path: Path, change: Callable[[Path], None], state: Bookmark, text: str | None
) -> None:
    log = log_in(tmp_path)
    for number in range(3):
        log.append(window(tmp_path, number))
    assert log.head is not None
    given = replace(state, log=log.head.log) if state.log == "log" else state
    change(tmp_path)
    if text is None:
        WindowLog(Storage(), Url.parse(str(tmp_path)), "my rows", given)
        return
    with pytest.raises(IdentityError, match=text):
        WindowLog(Storage(), Url.parse(str(tmp_path)), "my rows", given)


def test_batches_are_the_same_at_any_time(tmp_path: Path) -> None:
    log_in(tmp_path).append(window(tmp_path, 0))
    (found,) = log_in(tmp_path).windows()
    assert list(found.batches()) == list(window(tmp_path, 0).batches())
    ids = [b.batch_id for n in range(3) for b in window(tmp_path, n).batches()]
    assert len(set(ids)) == 6
    assert [b.row_count for b in found.batches()] == [1, 2]


def test_a_number_is_given_once(tmp_path: Path) -> None:
    first, second = log_in(tmp_path), log_in(tmp_path)
    first.append(window(tmp_path, 0))
    first.append(window(tmp_path, 0))  # as if the answer to the first request was lost
    other = replace(window(tmp_path, 0), token="other", files=(WindowFile(f"file://{tmp_path}/mine", 1, 1),))
    (tmp_path / "mine").touch()
    with pytest.raises(SupersededError, match=r"00000000.json was written by another run of the stream meanwhile"):
        second.append(other)
    assert not (tmp_path / "mine").exists()
    assert list(log_in(tmp_path).windows()) == [window(tmp_path, 0)]


def test_a_missing_window_is_an_error(tmp_path: Path) -> None:
    for number in range(3):
        log_in(tmp_path).append(window(tmp_path, number))
    (missing,) = tmp_path.rglob("00000001.json")
    missing.unlink()
    with pytest.raises(DataError, match=r"00000001.json: the window log lacks this window"):
        log_in(tmp_path)
    assert [w.number for w in log_in(tmp_path, 2).windows()] == [2]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 2}', '{"version": 1, "stream": "a"}'])
def test_a_damaged_window_is_an_error(tmp_path: Path, text: str) -> None:
    log_in(tmp_path).append(window(tmp_path, 0))
    (file,) = tmp_path.rglob("00000000.json")
    file.write_text(text)
    with pytest.raises(DataError, match=r"00000000.json: it is no part of a window log"):
        list(log_in(tmp_path).windows())


def files_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.rglob("_windows/*/*") if not file.name.startswith("log-"))


def grow(folder: Path, count: int, start: int = 0) -> None:
    log = log_in(folder, start)
    for number in range(start, start + count):
        log.append(window(folder, number))


@pytest.mark.full
def test_a_log_of_thousands_of_windows_has_few_small_files(tmp_path: Path) -> None:
    """Each window has 400 bytes as a file of its own."""
    grow(tmp_path, 2000)
    assert files_in(tmp_path)[:2] == ["00000000-00000255.jsonl.zst", "00000256-00000511.jsonl.zst"]
    assert len(files_in(tmp_path)) <= 2000 // 256 + 2 * 15
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.zst")) < 60 * 2000
    assert list(log_in(tmp_path).windows()) == [window(tmp_path, n) for n in range(2000)]
    assert [w.number for w in log_in(tmp_path, 1000).windows()] == list(range(1000, 2000))
    assert log_in(tmp_path, 1000).next_number == 2000


def test_what_a_killed_compaction_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    grow(tmp_path, 15)
    entries = {file.name: file.read_bytes() for file in tmp_path.rglob("*.json")}
    grow(tmp_path, 1, 15)
    (folder,) = (tmp_path / "_windows").iterdir()
    assert files_in(tmp_path) == ["00000000-00000015.jsonl.zst"]
    for name in sorted(entries)[3:-1]:
        (folder / name).write_bytes(entries[name])  # as if the run had been killed before, or while it removed them
    assert list(log_in(tmp_path).windows()) == [window(tmp_path, n) for n in range(16)]
    grow(tmp_path, 1, 16)
    assert files_in(tmp_path) == ["00000000-00000015.jsonl.zst", "00000016.json"]


def test_a_run_that_slept_finds_its_number_compacted(tmp_path: Path) -> None:
    slept = log_in(tmp_path)
    grow(tmp_path, 16)
    other = replace(window(tmp_path, 0), token="other", files=(WindowFile(f"file://{tmp_path}/mine", 1, 1),))
    (tmp_path / "mine").touch()
    with pytest.raises(SupersededError, match=r"00000000.json was written by another run"):
        slept.append(other)
    assert files_in(tmp_path) == ["00000000-00000015.jsonl.zst"]
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_run_that_slept_finds_its_window_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """Another run follows the window and compacts it, before the first one has the answer that it is written."""
    grow(tmp_path, 5)
    slept, put = log_in(tmp_path, 5), Storage.put
    mine = replace(window(tmp_path, 5), token="mine", files=(WindowFile(f"file://{tmp_path}/mine", 1, 1),))
    (tmp_path / "mine").touch()

    def put_and_sleep(storage: Storage, *given: Any, **options: Any) -> bool:
        written = put(storage, *given, **options)
        monkeypatch.undo()
        grow(tmp_path, 10, 6)
        return written if is_answered else put(storage, *given, **options)  # an answer that is lost: put again

    monkeypatch.setattr(Storage, "put", put_and_sleep)
    slept.append(mine)
    assert (tmp_path / "mine").exists()
    assert [w.token for w in log_in(tmp_path).windows()][5] == "mine"
    assert [w.number for w in log_in(tmp_path).windows()] == list(range(16))


def test_windows_that_are_compacted_while_they_are_read_are_found(tmp_path: Path) -> None:
    grow(tmp_path, 15)
    windows = log_in(tmp_path).windows()
    found = [next(windows) for _ in range(4)]
    grow(tmp_path, 1, 15)
    assert [*found, *windows] == [window(tmp_path, n) for n in range(16)]


def test_a_missing_window_is_never_compacted_away(tmp_path: Path) -> None:
    grow(tmp_path, 10)
    (missing,) = tmp_path.rglob("00000004.json")
    missing.unlink()
    grow(tmp_path, 10, 10)
    assert "00000005-00000015.jsonl.zst" in files_in(tmp_path)
    with pytest.raises(DataError, match=r"00000004.json: the window log lacks this window"):
        log_in(tmp_path)
    assert [w.number for w in log_in(tmp_path, 7).windows()] == list(range(7, 20))


@pytest.mark.parametrize("damage", [b"", b"nothing", None])
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path, damage: bytes | None) -> None:
    grow(tmp_path, 16)
    (file,) = tmp_path.rglob("*.zst")
    file.write_bytes(file.read_bytes()[:-20] if damage is None else damage)
    with pytest.raises(DataError, match=r"00000000-00000015.jsonl.zst: it is no part of a window log"):
        list(log_in(tmp_path).windows())
