"""The window log: what was written is found again, and never replaced."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from singer_arrow.errors import DataError, SupersededError
from singer_arrow.storage.storage import Storage
from singer_arrow.storage.urls import Url
from tap_flight_sql.window_log import Window, WindowFile, WindowLog

SCHEMA = {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}


def log_in(folder: Path, start: int = 0) -> WindowLog:
    return WindowLog(Storage(), Url.parse(str(folder)), "my rows", start)


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
