"""The cuts of an object are durable before a file is sent, and decided by one run only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from singer_arrow.errors import DataError, IdentityError, SupersededError
from singer_arrow.read_options import ResumePoint
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.plan_model import Cut, Cuts, Position

FIRST = Cut("s3://b/1", 0, 10, 500, Position(0, 10, ResumePoint(10, 900, 11)))
SECOND = Cut("s3://b/2", 10, 7, 400, Position(0, 17, None))
LAST = Cut("s3://b/3", 17, 3, 100, None)


def cuts(folder: Path, name: str = "x", storage: Storage | None = None, **options: Any) -> Cuts:
    return Cuts(storage or Storage(), Url.parse(str(folder / "c")), name, **options)


def test_cuts_are_found_again_in_order(tmp_path: Path) -> None:
    made = cuts(tmp_path)
    assert made.known() == []
    for number, cut in enumerate((FIRST, SECOND, LAST)):
        made.add(cut)
        assert made.known() == [FIRST, SECOND, LAST][: number + 1]
    assert cuts(tmp_path).known() == [FIRST, SECOND, LAST]
    assert cuts(tmp_path, "other").known() == []
    assert cuts(tmp_path, is_new=True).known() == []


@pytest.mark.parametrize("missing", [0, 10])
def test_a_cut_that_is_missing_before_others_is_named(tmp_path: Path, missing: int) -> None:
    made = cuts(tmp_path)
    for cut in (FIRST, SECOND, LAST):
        made.add(cut)
    (tmp_path / "c" / f"x-{missing}.json").unlink()
    with pytest.raises(IdentityError, match=rf"x-{missing}\.json is missing, .* Restore it") as caught:
        cuts(tmp_path).known()
    assert "\n" not in str(caught.value)
    assert cuts(tmp_path, "other").known() == []


def test_the_last_cuts_may_be_missing_as_after_a_kill(tmp_path: Path) -> None:
    made = cuts(tmp_path)
    made.add(FIRST)
    made.add(SECOND)
    (tmp_path / "c" / "x-10.json").unlink()
    assert cuts(tmp_path).known() == [FIRST]


def test_a_cut_elsewhere_is_refused_and_the_same_one_is_not(tmp_path: Path) -> None:
    cuts(tmp_path).add(FIRST)
    same = cuts(tmp_path, is_new=True)
    same.add(replace(FIRST, url="s3://b/other", bytes=1, rows=9))  # as a run with other settings has written it
    assert same.known()[0].url == "s3://b/other"
    with pytest.raises(SupersededError, match=r"x-0\.json was written by another run .*; run again"):
        cuts(tmp_path, is_new=True).add(replace(FIRST, after=Position(0, 9, ResumePoint(9, 800, 10))))
    assert cuts(tmp_path).known() == [FIRST]


class LostAnswers(Storage):
    """A storage that writes, but then answers that the file existed already."""

    def put(self, url: Url, data: Any, **options: Any) -> bool:
        super().put(url, data, **options)
        return False


def test_a_cut_whose_answer_was_lost_is_ours(tmp_path: Path) -> None:
    made = cuts(tmp_path, storage=LostAnswers(), is_new=True)
    made.add(FIRST)
    made.add(SECOND)
    assert cuts(tmp_path).known() == [FIRST, SECOND]


@pytest.mark.parametrize("text", ["[]", "{", json.dumps({"url": "s3://b/1"}), '{"after": {"place": 1}}'])
def test_a_damaged_cut_is_named(tmp_path: Path, text: str) -> None:
    cuts(tmp_path).add(FIRST)
    (tmp_path / "c" / "x-0.json").write_text(text)
    with pytest.raises(DataError, match=r"x-0\.json") as caught:
        cuts(tmp_path).known()
    assert "\n" not in str(caught.value)
