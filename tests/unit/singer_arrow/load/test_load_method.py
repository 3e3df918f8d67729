"""Steps common to all load methods: skip loaded batches, count files, name the file in errors."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from singer_arrow.errors import DataError, IdentityError
from singer_arrow.load.method import Item, Ledger, LoadContext, LoadMethod, Tally


@dataclass(frozen=True)
class PreparedItem:
    """An item, and whether it was prepared."""

    item: Item[Any]
    ready: bool = False
    rows: int = 4
    bytes: int = 0
    rejects: None = None


class Known(Ledger):
    """Has batch `known`, and those whose ids begin with `found`."""

    def loaded(self, batch_id: str) -> datetime | None:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) if batch_id == "known" else None

    def loaded_of(self, batch_ids: Collection[str]) -> dict[str, datetime]:
        return {b: datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC) for b in batch_ids if b.startswith("found")}


class KnowsOne(LoadMethod[LoadContext, PreparedItem]):
    """Refuses batch `bad`."""

    keeps_ledger = True
    prepared_class = PreparedItem

    def make_ready(self, item: Item[Any]) -> PreparedItem:
        if "bad" in item.urls[0]:
            msg = "the number 2 is too large"
            raise DataError(msg, url=item.urls[0], line=17, column="n")
        return PreparedItem(item, ready=True)

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        """Do nothing."""


def method(*, replay: bool = False) -> KnowsOne:
    return KnowsOne(
        LoadContext(
            stream="rows",
            tally=Tally("rows"),
            logger=logging.getLogger("target-x"),
            ledger=Known(),
            replay="load" if replay else None,
        )
    )


@pytest.mark.parametrize(
    ("logs", "replay", "is_refused"),
    [
        (("found-source", "found-log"), False, False),
        (("found-source", "other-log"), False, True),
        (("found-source", "other-log"), True, False),
        (("new-source", "new-log"), False, False),
        ((), False, False),
    ],
)
def test_objects_that_another_plan_log_brought_are_loaded_on_purpose_alone(
    logs: tuple[str, ...], replay: bool, is_refused: bool
) -> None:
    assert method(replay=replay).prepare(item("new", plan_log=logs, has_state=True)).ready
    some, brought = method(replay=replay), item("new", plan_log=logs)
    if is_refused:
        with pytest.raises(IdentityError, match="from another plan log"):
            some.prepare(brought)
        return
    assert some.prepare(brought).ready
    known = {entry for entry in logs if entry.startswith("found")}
    assert some.entries_of_logs([brought]) == dict.fromkeys(set(logs) - known, 0)


def item(batch_id: str | None = None, **more: Any) -> Item[Any]:
    return Item(
        **{"urls": ("s3://b/1", "s3://b/2"), "file_format": "parquet", "conversion": None} | more, batch_id=batch_id
    )


def test_a_loaded_batch_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    some = method()
    assert [some.prepare(item(b)).ready for b in ("known", "new", None)] == [False, True, True]
    (logged,) = caplog.messages
    assert logged.startswith(
        "Stream 'rows': batch known was loaded at 2026-01-02 03:04:05 UTC and is left out; to load"
    )
    counts = some.context.tally.counts()
    assert (counts["skipped"], counts["files"]) == (1, 4)


def test_what_turns_out_to_be_loaded_when_its_group_is_loaded_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    some = method()
    parts = [some.prepare(item(b)) for b in ("found-1", "new", None, "found-2")]
    assert [part.item.batch_id for part in some.fresh(parts)] == ["new", None]
    assert "batch found-2 was loaded at 2026-01-02 03:04:06 UTC and is left out" in caplog.messages[1]
    assert some.context.tally.counts()["skipped"] == 2
    assert method(replay=True).fresh(parts) == parts


def test_it_is_loaded_again_on_purpose() -> None:
    some = method(replay=True)
    assert some.prepare(item("known")).ready
    assert not some.leaves_out_loaded


def test_it_is_loaded_again_where_later_rows_may_have_replaced_its_own() -> None:
    class Merges(KnowsOne):
        merges = True

    some = Merges(method().context)
    assert some.prepare(item("known")).ready
    assert not some.leaves_out_loaded


def test_a_batch_has_the_row_count_of_its_message_unless_its_object_was_passed_through() -> None:
    some = method()
    for more in ({"rows": 4}, {"rows": None}, {"rows": 5, "is_source": True}, {"rows": 5, "is_temporary": True}):
        assert some.prepare(item("new", **more)).ready
    with pytest.raises(DataError, match="^s3://b/1: its BATCH message counts 5 rows, its files have 4"):
        some.prepare(item("new", rows=5))


def test_errors_of_batch_files_name_the_file() -> None:
    with pytest.raises(DataError, match=r"^s3://b/bad, line 17, column 'n': the number 2 is too large\. Or set on_bad"):
        method().prepare(item(urls=("s3://b/bad",)))


def test_errors_of_records_name_the_stream_and_what_to_do() -> None:
    words = r"^RECORD messages of stream 'rows', column 'n': the number 2 is too large\. Give the column another type"
    with pytest.raises(DataError, match=words):
        method().prepare(item(urls=("file:///nowhere/bad.jsonl",), is_temporary=True))
