"""Compaction of the log depends on the log alone, and bounds the number of files."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime
from pathlib import Path

import pytest
from plan_runs import folder_of, info, log_in, segment

from singer_arrow.storage.log_head import FANOUT, MAX_BYTES, compactions, newest_cover
from tap_s3_files.plan_log import LogFile, checkpoint_name, entry_name, parse_name

TIME = datetime(2024, 1, 1, tzinfo=UTC)


def entry(number: int, size: int = 1000) -> LogFile:
    return LogFile(number, number, size, entry_name(number))


def joined(files: list[LogFile]) -> LogFile:
    first, last = files[0].first, files[-1].last
    return LogFile(first, last, sum(f.bytes for f in files), checkpoint_name(first, last, TIME), TIME)


def grow(count: int, first: int = 0, size: int = 1000) -> tuple[list[LogFile], int]:
    """Append that many entries to a log; return the bytes written in checkpoints."""
    files: list[LogFile] = []
    written = 0
    for number in range(first, first + count):
        files.append(entry(number, size))
        while some := compactions(files):
            written += sum(f.bytes for f in some)
            files = newest_cover([*files, joined(some)])
    return files, written


@pytest.mark.parametrize("first", [0, 1, 17, 250, 300])
def test_a_log_of_any_length_has_few_files(first: int) -> None:
    for count in (1, 15, 16, 17, 256, 1000, 5000):
        files, written = grow(count, first)
        assert [f.first for f in files[1:]] == [f.last + 1 for f in files[:-1]]
        assert (files[0].first, files[-1].last) == (first, first + count - 1)
        assert len(files) <= 4 * FANOUT
        assert written <= 4 * 1000 * count  # each is rewritten a few times only


def test_large_files_are_left() -> None:
    """Segments of 2,000 objects, 60 bytes each: ten million objects."""
    files, _ = grow(5000, size=120_000)
    assert len(files) <= 60
    assert max(f.bytes for f in files) <= MAX_BYTES


def test_the_same_segments_make_the_same_ranges_in_whatever_order_they_come() -> None:
    expected, _ = grow(300)
    late = newest_cover([entry(n) for n in range(300)])
    while some := compactions(late):
        late = newest_cover([*late, joined(some)])
    assert [(f.first, f.last) for f in late] == [(f.first, f.last) for f in expected]


def test_nothing_is_due_in_a_log_of_one_range() -> None:
    assert compactions([]) is None
    assert compactions([entry(n) for n in range(FANOUT - 1)]) is None
    assert compactions([joined([entry(n) for n in range(FANOUT)])]) is None


def test_names_hold_the_content_of_a_file() -> None:
    for file in (entry(17), entry(1_234_567), joined([entry(3), entry(1_000_004)])):
        assert parse_name(file.name, file.bytes) == file
    for name in ("history.json", "000001-form-1.json", "000001-parts-0.json", "checkpoint-000001.parquet", "1.json"):
        assert parse_name(name, 1) is None


def test_what_is_in_a_larger_checkpoint_too_is_left_out() -> None:
    entries = [entry(n) for n in range(40)]
    small, large = joined(entries[16:32]), joined(entries[:32])
    found = [*entries, small, large]
    random.Random(1).shuffle(found)
    assert newest_cover(found) == [large, *entries[32:]]


@pytest.mark.full
def test_an_object_is_60_bytes_in_a_checkpoint_at_most(tmp_path: Path) -> None:
    log, each = log_in(tmp_path), 2000
    for number in range(FANOUT):
        log.append(
            segment(
                number,
                *(
                    info(f"day={n // 500}/part-{n:07}.snappy.parquet", n * 3, size=n * 7919, etag=f'"{md5(n)}"')
                    for n in range(number * each, (number + 1) * each)
                ),
            )
        )
    (file,) = folder_of(tmp_path).glob("checkpoint-*")
    assert file.stat().st_size <= 60 * each * FANOUT


def md5(n: int) -> str:
    return hashlib.md5(str(n).encode(), usedforsecurity=False).hexdigest()
