"""Changes of a user between runs of tap and target: the table is right, or one line, and the table as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_suite import sequences
from fault_suite.sequences import APPEND, OVERWRITE, UPSERT, Sequence, SequenceSite, Version
from tap_source import TapBucket

from local_cloud import Cloud

# What a plan log promises is the same for both, so each of these tests has one; `make faults` has all with both.
BIGQUERY, REDSHIFT = ([name] for name in sequences.WAREHOUSES)


@pytest.fixture
def site(cloud: Cloud, bq: Any, rs: Any, s3: Any, bucket: str, tap: Any, tmp_path: Path) -> SequenceSite:
    return SequenceSite(cloud, tmp_path, {"bigquery": bq, "redshift": rs}, TapBucket(s3, bucket, tap))


@pytest.mark.parametrize(
    "sequence",
    [
        Sequence(list(sequences.WAREHOUSES)[number % 2], method, ((change, state),))  # `make faults` has both for each
        for number, (method, change, state) in enumerate(
            (
                (APPEND, "root_changed", "kept"),
                (APPEND, "root_changed", "dropped"),
                (APPEND, "refresh_killed", "kept"),
                (APPEND, "refresh_killed", "dropped"),
                (APPEND, "beginning_removed", "dropped"),
                (APPEND, "log_of_another_stream", "dropped"),
                (APPEND, "overwritten_and_back", "kept"),
                (APPEND, "written_again", "kept"),
                (APPEND, "log_anew_from_state", "kept"),
                (APPEND, "table_and_log_anew", "dropped"),
                (APPEND, "rebuilt", "dropped"),
                (APPEND, "moved", "dropped"),
                (APPEND, "narrowed_and_back", "kept"),
                (APPEND, "window_and_back", "kept"),
                (APPEND, "upserted_between", "dropped"),
                (APPEND, "records_between", "older"),
                (APPEND, "dataset_changed_and_back", "kept"),
                (APPEND, "table_changed_and_back", "kept"),
                (UPSERT, "dataset_changed_and_back", "kept"),
                (UPSERT, "late_of_known_keys", "kept"),
                (UPSERT, "overwritten", "older"),
                (OVERWRITE, "source_deleted", "kept"),
                (OVERWRITE, "killed_target", "kept"),
            )
        )
    ],
    ids=lambda sequence: sequence.name.removeprefix("sequence, "),
)
def test_after_a_change_the_table_is_right_or_as_before(site: SequenceSite, sequence: Sequence) -> None:
    assert site.try_out(sequence).wrong == ()


def test_the_catalogue_has_each_change_with_each_method() -> None:
    known = {(s.service, s.method, s.changes[0][0]) for s in sequences.everything()}
    assert len(known) == len(sequences.CHANGES) * len(sequences.METHODS) * len(sequences.WAREHOUSES)
    assert len(sequences.everything()) >= 300


@pytest.mark.parametrize("service", REDSHIFT)
def test_a_run_with_state_alone_also_shows_the_log_to_the_table(site: SequenceSite, service: str) -> None:
    """Its former rows are removed, so that only the runs after it count."""
    world = site.world(Sequence(service, APPEND, ()))
    world.put("1", world.new())
    assert world.pipe(None)
    world.empty("TRUNCATE TABLE {rows}")
    world.loaded = dict(world.objects)
    world.put("2", world.new())
    assert world.pipe(world.states[-1])
    sequences.root_changed(world)
    assert not world.pipe(None)
    assert "another plan log" in world.log
    assert world.problems == []


@pytest.mark.parametrize("service", BIGQUERY)
def test_overwrite_with_what_is_new_alone_is_refused(site: SequenceSite, service: str) -> None:
    """Without STATE all is sent; with it, the table would lose the rest."""
    world = site.world(Sequence(service, OVERWRITE, ()))
    world.stream["replication_method"] = "INCREMENTAL"
    world.put("1", world.new())
    assert world.pipe(None)
    world.put("2", world.new())
    assert not world.pipe(world.states[-1])
    assert "replication_method to FULL_TABLE" in world.log
    assert world.pipe(None)
    assert world.problems == []


@pytest.mark.parametrize("service", REDSHIFT)
def test_a_full_table_without_rows_empties_its_table(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, OVERWRITE, ()))
    world.stream["replication_method"] = "FULL_TABLE"
    for version in (world.new(), Version("empty", range(0), world.moment(-60)), world.new(-120)):
        world.put("1", version)
        assert world.pipe(world.states[-1] if world.states else None), world.log
        assert world.log.count("is a full table and has no row") == (version.content != "v1")
    assert world.problems == []


@pytest.mark.parametrize("service", BIGQUERY)
def test_a_full_table_is_appended_by_each_run(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, APPEND, ()))
    world.stream["replication_method"] = "FULL_TABLE"
    world.put("1", world.new())
    for _ in range(2):
        world.loaded = {}
        assert world.pipe(world.states[-1] if world.states else None)
    assert world.problems == []


@pytest.mark.parametrize("service", REDSHIFT)
@pytest.mark.parametrize("before", ["loaded", "planned", "killed"])
def test_an_object_that_was_gone_and_is_back_unchanged_is_never_doubled(
    site: SequenceSite, service: str, before: str
) -> None:
    """Nothing shows whether a bundle was loaded with it; if it was not, the advice of the warning brings its rows."""
    world = site.world(Sequence(service, APPEND, ()))
    gone, other = world.new(), world.new()
    world.put("gone", gone)
    world.put("other", other)
    if before == "loaded":
        world.pipe(None)
    else:
        world.tap("--write-plan")
    world.delete("gone")
    world.pipe(None, cut=1 if before == "killed" else None)
    world.table = other.rows if before == "planned" else gone.rows + other.rows
    world.now += 1
    world.put("gone", replace(gone, at=world.moment()))
    world.loaded = dict(world.objects)
    assert world.pipe(world.states[-1] if world.states else None)
    if before != "killed":  # all of its plan was still to be sent
        assert "gone.jsonl was written again without a change" in world.log
    if before == "planned":
        world.delete("gone")
        world.put("moved", replace(gone, at=world.moment()))
        assert world.pipe(world.states[-1])
    world.empty("DROP TABLE {rows}")
    assert world.pipe(None)
    assert world.problems == []


@pytest.mark.parametrize("service", BIGQUERY)
def test_objects_that_were_moved_are_named_as_new_ones(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, APPEND, ()))
    world.put("1", world.new())
    assert world.pipe(None)
    sequences.moved(world)
    assert world.pipe(world.states[-1])
    assert world.log.count("its path was changed") == 1
    world.put("2", world.new())
    assert world.pipe(world.states[-1])
    assert world.log.count("its path was changed") == 1
    assert world.problems == []


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize(
    ("service", "between"),
    [
        ("bigquery", {}),
        ("bigquery", {"load_method": UPSERT}),
        ("bigquery", {"load_via": "storage_write"}),
        ("redshift", {}),
        ("redshift", {"load_method": UPSERT}),
    ],
    ids=str,
)
def test_records_between_batches_are_not_appended_again(
    site: SequenceSite, service: str, *, has_log: bool, between: dict[str, str]
) -> None:
    """A ledger has the batches alone; a run without STATE would bring the rows of the RECORD messages too."""
    world = site.world(Sequence(service, APPEND, ()))
    world.put("1", world.new())
    assert world.pipe(None)
    world.stream["key_properties"] = ["id"]
    sequences.records_between(world, has_log=has_log, **between)
    world.stream["key_properties"] = []
    if has_log:  # else the STATE is of no log
        world.put("2", world.new())
        assert world.pipe(world.states[-1])
        assert "sent as RECORD messages" not in world.log
    assert not world.pipe(None)
    assert "came by RECORD messages" in world.log
    world.table += world.objects["records"].rows  # as the user allows it
    assert world.pipe(None, replay="skip")
    assert world.log.count("rows of the same files will be there twice") == 1
    assert world.log.count("sent as RECORD messages") == has_log * 2
    world.empty("TRUNCATE TABLE {rows}")
    assert world.pipe(None)
    assert world.problems == []


@pytest.mark.parametrize("service", REDSHIFT)
def test_a_full_table_between_batches_is_not_appended_again(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, APPEND, ()))
    world.put("1", world.new())
    assert world.pipe(None)
    incremental = world.states[-1]
    world.stream["replication_method"] = "FULL_TABLE"
    world.put("2", world.new())
    world.loaded = {}
    assert world.pipe(incremental)
    del world.stream["replication_method"]
    assert not world.pipe(None)
    assert "by replication method FULL_TABLE" in world.log
    world.empty("TRUNCATE TABLE {rows}")
    assert world.pipe(None)
    assert world.problems == []


@pytest.mark.parametrize("service", BIGQUERY)
def test_an_upsert_into_a_table_that_was_made_anew_needs_a_run_without_state(site: SequenceSite, service: str) -> None:
    """It may be an earlier content; what came since would be missing."""
    world = site.world(Sequence(service, UPSERT, ()))
    for day in "1234":
        world.put(day, world.new())
        is_refused = not world.pipe(world.states[-1] if world.states else None)
        assert is_refused is (day == "3")
        if is_refused:
            assert "which went into a former table of that name" in world.log
            assert world.pipe(None)
        if day == "2":
            sequences.rebuilt(world)
    assert world.problems == []


@pytest.mark.parametrize("service", REDSHIFT)
def test_older_objects_of_a_new_path_are_loaded(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, APPEND, ()))
    older = world.new()
    world.source.put(f"{world.prefix}/more/x.jsonl", older.text, at=older.at)
    world.now += 60
    world.put("1", world.new())
    assert world.pipe(None)
    base = f"s3://{world.source.bucket}/{world.prefix}"
    world.stream["path"] = [f"{base}/in/*.jsonl", f"{base}/more/*.jsonl"]
    world.table += older.rows
    for _ in range(2):
        assert world.pipe(world.states[-1])
        world.put("2", world.new())
    assert world.pipe(None)
    assert world.problems == []


@pytest.mark.parametrize("service", BIGQUERY)
def test_a_former_content_is_loaded_after_a_new_plan_log_was_begun(site: SequenceSite, service: str) -> None:
    world = site.world(Sequence(service, APPEND, ()))
    first = world.new()
    for content in (first.content, "other"):
        world.put("1", replace(first, content=content, at=world.moment()))
        assert world.pipe(world.states[-1] if world.states else None)
        world.now += 20
    sequences.log_anew_from_state(world)
    world.put("1", replace(first, at=world.moment()))
    for _ in range(2):
        assert world.pipe(world.states[-1])
    assert world.problems == []


@pytest.mark.parametrize("cure", ["no STATE", "the path of before", "a new log"])
def test_objects_that_a_narrower_path_passed_over_are_not_forgotten(site: SequenceSite, cure: str) -> None:
    world = site.world(Sequence("bigquery", APPEND, ()))
    world.put("1", world.new())
    assert world.pipe(None)
    sequences.planned_and_narrowed(world)
    planned = world.objects["planned"]
    if cure == "the path of before":
        world.stream["path"] = world.url("narrow*")
        del world.objects["planned"]
        assert world.pipe(world.states[-1])
    else:
        assert not world.pipe(world.states[-1])
        assert "a run with another path passed over objects that were planned before" in world.log
        if cure == "a new log":
            assert world.tap("--new-plan-log", state=world.states[-1]).code == 0
            world.table -= planned.rows
            world.loaded = dict(world.objects)
            world.put("2", world.new())
        assert world.pipe(None if cure == "no STATE" else world.states[-1])
    assert world.problems == []


@pytest.mark.parametrize("fails", [False, True])
def test_places_behind_an_end_date_are_read_once_it_moves_on(site: SequenceSite, fails: bool) -> None:
    """Also files that were there before a late one of the day before; and those that a failed run had planned."""
    world = site.world(Sequence("bigquery", APPEND, ()))
    world.stream["path"] = f"s3://{world.source.bucket}/{world.prefix}/in/{{date:%Y-%m-%d}}/*.jsonl"
    world.more = {"start_date": "2024-05-01", "end_date": "2024-05-02", "replication": {"overlap_minutes": 0}}
    world.put("2024-05-01/a", world.new())
    assert world.pipe(None)
    today, late = world.new(), world.new()
    world.source.put(f"{world.prefix}/in/2024-05-02/a.jsonl", today.text, at=today.at)
    if fails:
        world.more["end_date"] = "2024-05-03"
        world.tap(state=world.states[-1])
        world.more["end_date"] = "2024-05-02"
    world.put("2024-05-01/late", late)
    assert world.pipe(world.states[-1])
    world.more["end_date"] = "2024-05-03"
    world.put("2024-05-02/a", today)
    world.put("2024-05-02/b", world.new())
    assert world.pipe(world.states[-1])
    assert "its path was changed" not in world.log
    assert world.pipe(None)
    assert world.problems == []
