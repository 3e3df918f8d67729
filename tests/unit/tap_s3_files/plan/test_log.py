"""The plan log is append-only: numbers are unique, and every reader finds the same segments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_runs import folder_of, info, log_in, names, run, segment

from singer_arrow.errors import DataError, NotFoundError, SupersededError
from singer_arrow.storage import log_head
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import ObjectInfo, Url
from tap_s3_files import plan_log
from tap_s3_files.plan_log import PlanLog
from tap_s3_files.plan_model import Segment, Task
from tap_s3_files.settings import Watermark


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Compact three files into one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_head, "FANOUT", 3)
        patch.setattr(plan_log, "ROWS_AT_ONCE", 7)
        yield


def made(number: int, text: str = "") -> Segment:
    """Return a segment of two objects."""
    return segment(number, info(f"{number}a{text}", number), info(f"{number}b{text}", number + 0.5))


def fill(log: PlanLog, count: int) -> list[Segment]:
    """Append that many segments."""
    new = [made(log.next_number + n) for n in range(count)]
    for found in new:
        log.append(found)
    return new


def everything(log: PlanLog) -> list[Segment]:
    return list(log.segments(log.first_number, log.next_number))


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder_of(folder).iterdir() if not p.name.startswith("log-"))


def test_a_segment_survives_its_file(tmp_path: Path) -> None:
    odd = Segment(
        number=0,
        stream="orders",
        target_bytes=5 << 30,
        before=Watermark(info("a", 0.123456).modified, "s3://b/é"),
        after=None,
        tasks=(Task((info("a%20b", 0.25, etag='"x"'), info("é", 1, etag=None, size=5 << 40))), Task((info("c"),))),
        from_queue=True,
        settings="s",
    )
    again = replace(made(1), tasks=(Task((info("1"), info("2")), again=((0, 3), (1, 1))), Task((info("3"),))))
    for number, found in enumerate((odd, again, made(2))):
        log_in(tmp_path).append(replace(found, number=number))
    assert files(tmp_path) == ["checkpoint-000000-000002-20240101T000002500000.parquet"]
    assert everything(log_in(tmp_path)) == [odd, again, made(2)]


def test_an_empty_log_has_nothing(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    assert (log.first_number, log.next_number, everything(log)) == (0, 0, [])


def test_a_segment_that_is_missing_is_not_found(tmp_path: Path) -> None:
    log_in(tmp_path).append(made(4))
    for number in (0, 3, 5):
        with pytest.raises(NotFoundError, match=f"00000{number}"):
            log_in(tmp_path).read(number)
    assert log_in(tmp_path).read(4) == made(4)


@pytest.mark.parametrize("first", [0, 1, 5])
def test_any_range_is_read(tmp_path: Path, first: int) -> None:
    log = log_in(tmp_path)
    log.append(made(first))
    every = [made(first), *fill(log, 16)]
    for start in range(first - 2, first + 18):
        for end in range(first - 2, first + 18):
            expected = [s for s in every if start <= s.number < end]
            assert list(log_in(tmp_path).segments(start, end)) == expected if start == end - 3 else True
            assert [s.number for s in log.segments(start, end)] == [s.number for s in expected]


def test_a_log_that_is_read_only_is_left_as_it_is(tmp_path: Path) -> None:
    fill(log_in(tmp_path), 2)
    before = files(tmp_path)
    fill(log_in(tmp_path, read_only=True), 5)
    assert files(tmp_path) == before


@pytest.mark.parametrize("others", [1, 2, 3, 5, 9, 14, 27, 40])
def test_a_run_that_slept_while_others_appended_ends(tmp_path: Path, others: int) -> None:
    fill(log_in(tmp_path), 4)
    sleeper = log_in(tmp_path)
    for _ in range(others):
        fill(log_in(tmp_path), 1)
    before, every = files(tmp_path), everything(log_in(tmp_path))
    with pytest.raises(SupersededError, match="written by another run") as caught:
        sleeper.append(made(4, "other"))
    assert "\n" not in str(caught.value)
    assert "run again" in str(caught.value)
    assert files(tmp_path) == before
    assert everything(log_in(tmp_path)) == every


@pytest.mark.parametrize("others", [1, 2, 3, 5, 9, 14])
def test_two_runs_that_append_the_same_segment_are_both_right(tmp_path: Path, others: int) -> None:
    fill(log_in(tmp_path), 4)
    sleeper = log_in(tmp_path)
    fill(log_in(tmp_path), others)
    for number in range(4, 4 + others):
        sleeper.append(made(number))
    assert everything(log_in(tmp_path)) == [made(n) for n in range(4 + others)]
    fill(sleeper, 3)
    assert everything(log_in(tmp_path)) == [made(n) for n in range(4 + others + 3)] == everything(sleeper)


class LostAnswers(Storage):
    """A storage that writes, but then answers that the file existed already."""

    def put(self, url: Url, data: Any, **options: Any) -> bool:
        return super().put(url, data, **options) and not options.get("if_absent")


def test_a_segment_whose_answer_was_lost_is_ours(tmp_path: Path) -> None:
    fill(log_in(tmp_path, LostAnswers()), 5)
    assert everything(log_in(tmp_path)) == [made(n) for n in range(5)]


@settings(max_examples=settings.default.max_examples // 3)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=25))
def test_any_number_of_segments_is_few_files_with_names_that_depend_on_them_alone(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int]
) -> None:
    one, other = (tmp_path_factory.mktemp("plans") for _ in range(2))
    for count in counts:
        fill(log_in(one), count)
    fill(log_in(other), sum(counts))
    assert files(one) == files(other)
    assert everything(log_in(one)) == everything(log_in(other))
    every = everything(log_in(one))
    assert every == [made(n) for n in range(sum(counts))]
    assert len(files(one)) <= 2 * 5  # 3**5 > 100 segments
    assert everything(log_in(one)) == every


class KilledError(Exception):
    """Raised where the process is killed."""


class Killed(Storage):
    """A storage that kills the process before or after its nth modifying call."""

    def __init__(self, calls: int, *, after: bool) -> None:
        super().__init__()
        self.calls, self.after = calls, after

    def _change(self, change: Any) -> Any:
        self.calls -= 1
        if not self.calls and not self.after:
            raise KilledError
        found = change()
        if not self.calls:
            raise KilledError
        return found

    def put(self, *given: Any, **options: Any) -> bool:
        return bool(self._change(lambda: super(Killed, self).put(*given, **options)))

    def delete(self, urls: Any) -> None:
        for url in urls:  # some may be removed and others not
            self._change(lambda url=url: super(Killed, self).delete([url]))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("calls", range(1, 45))
def test_killed_at_any_change_the_log_has_what_was_appended(tmp_path: Path, calls: int, after: bool) -> None:
    log, appended = log_in(tmp_path, Killed(calls, after=after)), 0
    with suppress(KilledError):
        while appended < 100:
            log.append(made(appended))
            appended += 1
    assert appended < 100
    found = everything(log_in(tmp_path))
    assert found in ([made(n) for n in range(appended)], [made(n) for n in range(appended + 1)])
    fill(log_in(tmp_path), 9)
    assert everything(log_in(tmp_path)) == [made(n) for n in range(len(found) + 9)]


@pytest.mark.parametrize("read", range(12))
def test_a_reader_continues_while_its_entries_are_compacted(tmp_path: Path, read: int) -> None:
    every = fill(log_in(tmp_path), 11)
    reader, writer = log_in(tmp_path), log_in(tmp_path)
    found = reader.segments(0, 11)
    begun = [next(found) for _ in range(read - 1)]
    fill(writer, 16)
    assert begun + list(found) == every
    assert reader.groups(info("a").modified)[0].first == 0
    assert reader.read(10) == every[10]


class Meanwhile(Storage):
    """A storage that runs an action once, just before an existing object is read."""

    def __init__(self, name: str, action: Any) -> None:
        super().__init__()
        self.name, self.action = name, action

    def get(self, url: Url, **options: Any) -> Any:
        if url.name == self.name and self.action is not None:
            action, self.action = self.action, None
            action()
        return super().get(url, **options)

    def put(self, url: Url, data: Any, **options: Any) -> bool:
        if url.name == self.name and self.action is not None:
            action, self.action = self.action, None
            action()
        return super().put(url, data, **options)


@pytest.mark.parametrize("name", ["000006.json", "checkpoint-000003-000005-20240101T000005500000.parquet"])
def test_times_are_those_of_a_log_that_is_compacted_meanwhile(tmp_path: Path, name: str) -> None:
    fill(log_in(tmp_path), 8)
    assert name in files(tmp_path)
    reader = log_in(tmp_path, Meanwhile(name, lambda: fill(log_in(tmp_path), 1)))
    assert [g.first for g in reader.groups(info("a").modified)] == [0, 3, 6]


@pytest.mark.parametrize(
    "name",
    [
        "000008.json",
        "checkpoint-000006-000008-20240101T000008500000.parquet",
        "checkpoint-000000-000008-20240101T000008500000.parquet",
    ],
)
def test_two_runs_compact_at_once(tmp_path: Path, name: str) -> None:
    """The other run makes all the changes that this one is about to make, and more."""
    fill(log_in(tmp_path), 8)
    writer = log_in(tmp_path, Meanwhile(name, lambda: fill(log_in(tmp_path), 9)))
    fill(writer, 1)
    every = everything(log_in(tmp_path))
    assert every == [made(n) for n in range(len(every))]
    assert len(every) >= 17
    fill(log_in(tmp_path), 10)
    assert everything(log_in(tmp_path)) == [made(n) for n in range(len(every) + 10)]


def test_a_missing_segment_is_an_error_that_names_it(tmp_path: Path) -> None:
    fill(log_in(tmp_path), 5)
    (folder_of(tmp_path) / "000003.json").unlink()
    with pytest.raises(DataError, match=r"000003\.json.*the plan log lacks this segment") as caught:
        log_in(tmp_path)
    assert "\n" not in str(caught.value)
    assert "begin a new log on purpose with --new-plan-log" in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 2, "tasks": 3}', "\xff"])
def test_a_damaged_segment_is_named(tmp_path: Path, text: str) -> None:
    fill(log_in(tmp_path), 1)
    (folder_of(tmp_path) / "000000.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"000000\.json"):
        log_in(tmp_path).read(0)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no Parquet" * 20])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, data: bytes) -> None:
    fill(log_in(tmp_path), 3)
    (name,) = files(tmp_path)
    (folder_of(tmp_path) / name).write_bytes(data)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        log_in(tmp_path).read(0)


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    folder_of(tmp_path).mkdir(parents=True)
    for name in ("notes.txt", "1.json", "000001.json.bak", "checkpoint-1-2.parquet"):
        (folder_of(tmp_path) / name).write_text("x")
    fill(log_in(tmp_path), 9)
    assert everything(log_in(tmp_path)) == [made(n) for n in range(9)]
    assert len(files(tmp_path)) == 5


def test_what_is_in_an_entry_can_be_read_by_people(tmp_path: Path) -> None:
    list(run(log := log_in(tmp_path), [info("a", 5)], None, identity="s"))
    assert log.head is not None
    assert json.loads((folder_of(tmp_path) / "000000.json").read_text()) == {
        "version": 2,
        "stream": "orders",
        "number": 0,
        "target_bytes": 1 << 20,
        "before": None,
        "after": {"last_modified": "2024-01-01T00:00:05+00:00", "key": "s3://b/in/a"},
        "from_queue": False,
        "settings": "s",
        "paths": "9b2a80ec0ce6709b",
        "log": log.head.log,
        "tasks": [
            {"objects": [{"url": "s3://b/in/a", "etag": "e", "size": 10, "modified": "2024-01-01T00:00:05+00:00"}]}
        ],
    }


def objects_of(segments: list[Segment]) -> list[ObjectInfo]:
    return [o for s in segments for o in s.objects]


@pytest.mark.full
def test_of_what_runs_have_appended_nothing_is_forgotten(tmp_path: Path) -> None:
    state = None
    for n in range(60):
        found = list(run(log_in(tmp_path), [info(f"{m:02}", 60 * m) for m in range(n + 1)], state))
        state = found[-1][1]
    assert names(objects_of(everything(log_in(tmp_path)))) == [f"{n:02}" for n in range(60)]
    assert len(files(tmp_path)) <= 8
