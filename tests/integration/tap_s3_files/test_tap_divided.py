"""Large objects that are divided into ranges, each a task of its own: the rows are those of undivided objects."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tap_source import Source, ids_of, moment, state_of

from local_cloud.programs import Programs, Ran

ROWS = 120_000
"""Of each object: somewhat more than the 8 MiB from which on objects are divided."""


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    return Source(s3, bucket, tap)


def records(start: int = 0) -> list[dict[str, Any]]:
    chance = random.Random(start)
    return [
        {"id": start + n, "text": f'{chance.randbytes(16).hex()}\n"{n}", {chance.randbytes(12).hex()}', "share": n / 4}
        for n in range(ROWS)
    ]


def csv_text(rows: list[dict[str, Any]]) -> str:
    quoted = ('"' + row["text"].replace('"', '""') + '"' for row in rows)
    return "id,text,share\n" + "".join(f"{r['id']},{text},{r['share']}\n" for r, text in zip(rows, quoted, strict=True))


def parquet_bytes(rows: list[dict[str, Any]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=9_000, compression="none", use_dictionary=False)
    return out.getvalue()


def put(source: Source, kind: str, start: int = 0, *, at: int = 0, name: str = "a") -> None:
    rows = records(start)
    bodies: dict[str, Any] = {
        "csv": lambda: csv_text(rows),
        "jsonl": lambda: "".join(json.dumps(row) + "\n" for row in rows),
        "parquet": lambda: parquet_bytes(rows),
    }
    source.put(f"in/{name}.{kind}", bodies[kind](), at=moment(at))


def config(source: Source, range_mb: float | None = 2, **more: Any) -> dict[str, Any]:
    own = {"stream": {"path": f"s3://{source.bucket}/in/*"}, "batch_config": source.batches(), "max_workers": 2}
    return source.config(**own, **({} if range_mb is None else {"object_range_mb": range_mb}), **more)


def apart(source: Source, name: str) -> dict[str, Any]:
    """Return settings with which a run keeps its batch files and its plan in a place of its own."""
    batches = source.batches()
    batches["storage"]["root"] += f"/{name}"
    return {"batch_config": batches}


def catalog_of(source: Source, settings: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(source.tap("tap-s3-files", config=settings, discover=True).check().stdout)
    return found


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_rows_and_line_numbers_are_those_of_an_undivided_object(source: Source, kind: str) -> None:
    put(source, kind)
    divided = source.run(config(source))
    whole = source.run(config(source, 0) | apart(source, "whole"))
    assert len(divided.of_type("BATCH")) >= 4
    assert len(whole.of_type("BATCH")) == 1
    rows, expected = source.rows(divided), source.rows(whole)
    if kind == "csv":  # a line of each row is within quotes: rows of ranges are numbered by the lines before them
        numbers = [row.pop("_sdc_source_lineno") for row in rows]
        assert numbers == sorted(set(numbers))
        expected = [{name: value for name, value in row.items() if name != "_sdc_source_lineno"} for row in expected]
    assert rows == expected
    assert "1 object" in divided.stderr
    assert source.run(config(source), state=state_of(divided)).of_type("BATCH") == []


@pytest.mark.smoke
def test_a_run_without_state_follows_the_ranges_that_were_planned(source: Source) -> None:
    put(source, "csv")
    first = source.run(config(source))
    again = source.run(config(source, 5))
    assert again.stdout == first.stdout
    assert "finding where its" in first.stderr
    assert "finding where its" not in again.stderr


def test_a_run_continues_after_each_state(source: Source) -> None:
    put(source, "csv")
    put(source, "jsonl", ROWS, at=1)
    catalog = catalog_of(source, config(source))
    ran = source.run(config(source), catalog=catalog)
    ids, states = ids_of(ran), [m["value"] for m in ran.of_type("STATE")]
    assert len(states) >= len(ids)
    for number in range(0, len(ids), 3):
        rest = ids_of(source.run(config(source), catalog=catalog, state=states[number]))
        assert rest == ids[number + 1 :]


def test_shards_share_the_ranges_of_one_object(source: Source) -> None:
    put(source, "csv")
    settings = config(source)
    catalog = catalog_of(source, settings)
    plan = source.tap("tap-s3-files", "--write-plan", config=settings, catalog=catalog).check()
    assert "finding where its" in plan.stderr
    shards = [source.run({**settings, "shard": f"{n}/3"}, catalog=catalog) for n in range(3)]
    assert all(len(ids_of(ran)) >= 1 for ran in shards)
    assert not any("finding where its" in ran.stderr for ran in shards)
    rows = sorted((row for ran in shards for row in source.rows(ran)), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(range(ROWS))
    whole = source.run(settings, catalog=catalog)
    assert sorted(ids_of(whole)) == sorted(i for ran in shards for i in ids_of(ran))


def test_what_shards_would_read_is_shown_for_ranges(source: Source) -> None:
    put(source, "csv")
    ran = source.tap("tap-s3-files", "--plan", "--shard-count", "2", config=config(source)).check()
    (shown,) = [line.split() for line in ran.stdout.splitlines() if line.startswith("rows ") and "csv" in line]
    assert shown[1] == "1"
    assert int(shown[3]) >= 4


def test_without_a_setting_only_very_large_objects_of_several_runs_are_divided(source: Source) -> None:
    put(source, "csv")
    source.tap("tap-s3-files", "--write-plan", config=config(source, None)).check()
    assert len(ids_of(source.run(config(source, None)))) == 1


def test_an_object_that_is_replaced_is_read_in_its_new_version(source: Source) -> None:
    """The plan has ranges of the old version; those of the new one are planned in their stead."""
    put(source, "csv")
    settings = config(source)
    catalog = catalog_of(source, settings)
    source.tap("tap-s3-files", "--write-plan", config=settings, catalog=catalog).check()
    put(source, "csv", ROWS, at=5)
    ran = source.run(settings, catalog=catalog)
    assert [row["id"] for row in source.rows(ran)] == list(range(ROWS, 2 * ROWS))
    assert "was replaced or deleted since it was listed" in ran.stderr


def test_records_are_sent_of_ranges_that_were_planned(source: Source) -> None:
    put(source, "jsonl")
    settings = config(source) | {"plan_root": f"s3://{source.bucket}/plan"}
    catalog = catalog_of(source, settings)
    source.tap("tap-s3-files", "--write-plan", config=settings, catalog=catalog).check()
    del settings["batch_config"]
    ran: Ran = source.run(settings, catalog=catalog)
    assert [row["id"] for row in source.rows(ran)] == list(range(ROWS))


def test_passthrough_does_not_divide(source: Source) -> None:
    put(source, "parquet")
    ran = source.run(config(source, passthrough=True, metadata_columns=False))
    (batch,) = ran.of_type("BATCH")
    assert batch["manifest"] == [f"s3://{source.bucket}/in/a.parquet"]
    divided = config(source, metadata_columns=False) | apart(source, "divided")
    first = source.run(divided)
    again = source.run(divided | {"passthrough": True})
    assert ids_of(first) == ids_of(again)  # ranges are converted, whatever the settings are now
    assert [row["id"] for row in source.rows(again)] == list(range(ROWS))


def test_a_bad_row_has_its_line_in_the_object(source: Source) -> None:
    rows = [f"{n},name {n} {'x' * 70}\n" for n in range(ROWS)]
    rows[100_000] = "bad,name\n"
    source.put("in/a.csv", "id,name\n" + "".join(rows))
    stream = {"path": f"s3://{source.bucket}/in/*", "schema": {"id": "int64"}, "on_drift": "fail"}
    settings = source.config(stream=stream, batch_config=source.batches(), object_range_mb=2)
    ran = source.tap("tap-s3-files", config=settings)
    assert ran.code == 1
    assert "a.csv, line 100002, column 'id'" in ran.stderr
    assert ran.of_type("BATCH")
