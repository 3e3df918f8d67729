"""A MERGE reads only the partitions of its keys, and gives the same result as an unbounded one."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.cloud import bigquery
from singer_lines import Batches, activate, load, record, schema, state
from warehouses import BigQuery

from local_cloud import Cloud
from target_bigquery import load as load_methods

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("v", pa.int64()),
    ]
)
DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in range(40)]
FAR = [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]
Row = dict[str, Any]


@pytest.fixture
def warehouse(cloud: Cloud, bq: Any, dataset: str) -> BigQuery:
    """Create a dataset in the local BigQuery."""
    bq.create_dataset(dataset)
    return BigQuery(cloud, bq, dataset)


def row(number: int, day: date | None, *, name: str | None = None, v: int = 0, hour: int = 12) -> Row:
    at = datetime(day.year, day.month, day.day, hour, 59, 59, 999999, UTC) if day else None
    return {"id": number, "name": f"n{number}" if name is None else name, "day": day, "at": at, "v": v}


def dry(bq: Any, text: str) -> int:
    return int(bq.query(text, job_config=bigquery.QueryJobConfig(dry_run=True)).total_bytes_processed)


def listed(bq: Any, dataset: str) -> list[Any]:
    """Return the MERGE jobs into a dataset."""
    jobs = (j for j in bq.list_jobs() if j.job_type == "query")
    return [j for j in jobs if j.query.startswith("MERGE") and f"`{dataset}`" in j.query]


def merged(bq: Any, dataset: str) -> list[int]:
    """Return the bytes that each MERGE processed, in order."""
    jobs = [bq.get_job(j.job_id, location=j.location) for j in listed(bq, dataset)]
    return [int(j.total_bytes_processed) for j in sorted(jobs, key=lambda j: j.created)]


def test_the_local_bigquery_counts_the_bytes_of_the_merged_partitions_only(bq: Any, warehouse: BigQuery) -> None:
    def count(text: str) -> int:
        size = bq.get_table(f"{warehouse.schema}.{name}").num_bytes
        read = dry(bq, text.format(t=f"`{warehouse.schema}.{name}`"))
        return read * 40 // size  # of forty rows

    name = "days"
    bq.query_and_wait(f"CREATE TABLE `{warehouse.schema}.days` (d DATE, v INT64) PARTITION BY d")
    bq.query_and_wait(
        f"INSERT INTO `{warehouse.schema}.days` (d, v) "
        "SELECT DATE_ADD(DATE '2024-01-01', INTERVAL n DAY), n FROM UNNEST(GENERATE_ARRAY(0, 37)) AS n "
        "UNION ALL SELECT NULL, 1 UNION ALL SELECT NULL, 2"
    )
    everything = "SELECT v FROM {t}"
    for condition, partitions in {
        "d = DATE '2024-01-05'": 1,
        "d BETWEEN DATE '2024-01-05' AND DATE '2024-01-07'": 3,
        "d > DATE '2024-02-06'": 1,
        "DATE '2024-01-02' >= d": 2,
        "d IS NULL": 2,
        "(d < DATE '2024-01-02' OR d IS NULL) AND v > 7": 3,
        "d < DATE '2024-01-02' OR v = 1": 40,
        "d = DATE '1999-01-01'": 0,
        "v = 5": 40,
    }.items():
        assert count(f"{everything} WHERE {condition}") == partitions, condition
        assert count(f"DELETE FROM {{t}} WHERE {condition}") == partitions, condition
    merge = "MERGE {t} AS t USING (SELECT DATE '2024-01-05' AS d) AS s ON t.d = s.d AND t.d <= DATE '2024-01-05' "
    assert count(merge + "WHEN MATCHED THEN DELETE") == 5
    assert count(merge + "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE") == 40
    name = "hours"
    bq.query_and_wait(f"CREATE TABLE `{warehouse.schema}.hours` (h TIMESTAMP) PARTITION BY TIMESTAMP_TRUNC(h, HOUR)")
    bq.query_and_wait(
        f"INSERT INTO `{warehouse.schema}.hours` (h) "
        "SELECT TIMESTAMP_ADD(TIMESTAMP '2024-01-01 00:30:00+00', INTERVAL n HOUR) "
        "FROM UNNEST(GENERATE_ARRAY(0, 39)) AS n"
    )
    assert count("SELECT h FROM {t} WHERE h BETWEEN '2024-01-01 01:59:00+00' AND '2024-01-01 02:00:00+00'") == 2
    name = "ranges"
    by_range(bq, f"{warehouse.schema}.ranges", pa.schema([("n", pa.int64())]), "n", 0, 20, 5)
    bq.query_and_wait(f"INSERT INTO `{warehouse.schema}.ranges` (n) SELECT n FROM UNNEST(GENERATE_ARRAY(-10, 29)) AS n")
    assert count("SELECT n FROM {t} WHERE n = 7") == 5
    assert count("SELECT n FROM {t} WHERE n BETWEEN 4 AND 5") == 10


def by_range(bq: Any, name: str, columns: pa.Schema, column: str, start: int, end: int, width: int) -> None:
    """Create a table partitioned by integer ranges."""
    kinds = {"int64": "INT64", "string": "STRING", "date32[day]": "DATE", "timestamp[us, tz=UTC]": "TIMESTAMP"}
    table = bigquery.Table(f"{bq.project}.{name}", [bigquery.SchemaField(f.name, kinds[str(f.type)]) for f in columns])
    table.range_partitioning = bigquery.RangePartitioning(bigquery.PartitionRange(start, end, width), column)
    bq.create_table(table)


LAYOUTS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "the day is part of the key": (("id", "day"), {"partition_by": "day"}),
    "the hour is part of the key": (("at", "id"), {"partition_by": "at:hour", "cluster_by": ["id", "at"]}),
    "keys may go to another month": (("id",), {"partition_by": "day:month", "cluster_by": ["id"]}),
    "keys are texts": (("name",), {"partition_by": "at:year", "cluster_by": ["name"]}),
    "ranges of keys": (("id",), {}),
    "nothing to go by": (("id",), {}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_found_wherever_they_are(layout: str, warehouse: BigQuery, batch: Batches, bq: Any) -> None:
    """Random rows, keys that move between partitions, distant days and null ones, against a plain dict."""
    keys, settings = LAYOUTS[layout]
    if layout == "ranges of keys":
        by_range(bq, f"{warehouse.schema}.rows", COLUMNS, "id", 0, 1000, 100)
    rng, expected, messages = random.Random(layout), dict[Any, Row](), list[dict[str, Any]]()
    ids = [-(2**63), 2**63 - 1, *range(-20, 1020, 40)]
    texts = ["", "'", "\\", "\\'; --", "é\U0001f642", "a\nb", "long" * 100, "A", "a"]
    may_be_null = {"day", "at"}.isdisjoint(keys)
    for version in range(6):
        few = rng.choice([1, 3, 25])
        near = rng.choice([DAYS[:3], DAYS, FAR, [*DAYS[20:22], FAR[1]]])
        rows = [
            row(
                rng.choice(ids),
                None if may_be_null and rng.random() < 0.2 else rng.choice(near),
                name=rng.choice(texts),
                v=version * 100 + n,
                hour=rng.randrange(24),
            )
            for n in range(few)
        ]
        expected |= {tuple(r[k] for k in keys): r for r in rows}
        sent = [{k: as_sent(v) for k, v in r.items()} for r in rows]
        if version == 3:
            messages += [record(**r) for r in sent]
        elif version % 2:
            messages.append(batch(sent, columns=COLUMNS, file_format="jsonl"))
        else:
            messages.append(batch(rows, columns=COLUMNS))
        messages.append(activate(0))  # only merges the rows before it
    settings = {"load_method": "upsert", **settings}
    load([schema(columns=COLUMNS, keys=keys), *messages], warehouse.config | settings)
    found = {tuple(r[k] for k in keys): {c: r[c] for c in COLUMNS.names} for r in warehouse.table(order="1")}
    assert found == expected
    assert warehouse.one("SELECT COUNT(*) FROM {rows}") == (len(expected),)
    texts_of_merges = merges(bq, warehouse.schema)
    assert len(texts_of_merges) == 6
    bounded = [text for text in texts_of_merges if re.search(r"t\.`\w+` (?:= (?!s\.)|BETWEEN )", text)]
    assert bool(bounded) != (layout == "nothing to go by")


def as_sent(value: Any) -> Any:
    """Return a value as a RECORD contains it."""
    return value.isoformat() if isinstance(value, date) else value


def merges(bq: Any, dataset: str) -> list[str]:
    return [j.query for j in listed(bq, dataset)]


def history(warehouse: BigQuery, batch: Batches, keys: Sequence[str], **settings: Any) -> Mapping[str, Any]:
    """Create a table of forty days; return the settings of an upsert into it."""
    rows = [row(40 * n + k, day) for n, day in enumerate(DAYS) for k in range(40)]
    config = warehouse.config | {"load_method": "upsert", "partition_by": "day", **settings}
    load([schema(columns=COLUMNS, keys=tuple(keys)), batch(rows, columns=COLUMNS), state(1)], config)
    return config


def test_a_merge_reads_the_days_of_its_keys(
    warehouse: BigQuery, batch: Batches, bq: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = history(warehouse, batch, ("id", "day"))
    whole = bq.get_table(f"{warehouse.schema}.rows").num_bytes
    changes = [row(40 * n + 1, DAYS[n], v=1) for n in (38, 39)] + [row(5, DAYS[0], v=1), row(9000, DAYS[39], v=1)]
    caplog.set_level(logging.INFO)
    load([schema(columns=COLUMNS, keys=("id", "day")), batch(changes, columns=COLUMNS), state(2)], dict(config))
    staged = 4 * 7 * 8  # rows of seven columns, as the local BigQuery counts
    assert merged(bq, warehouse.schema)[-1] == 3 * whole // 40 + staged
    assert "and reads of the table what the values of day ask for" in caplog.text
    assert warehouse.one("SELECT COUNT(*), SUM(v), COUNT(DISTINCT id) FROM {rows}") == (1601, 4, 1601)


def test_a_merge_reads_all_days_where_a_key_may_be_on_any(warehouse: BigQuery, batch: Batches, bq: Any) -> None:
    config = history(warehouse, batch, ("id",))
    whole = bq.get_table(f"{warehouse.schema}.rows").num_bytes
    moved = [row(1, DAYS[39], v=1), row(2, None, v=1), row(1599, DAYS[0], v=1)]
    load([schema(columns=COLUMNS, keys=("id",)), batch(moved, columns=COLUMNS), state(2)], dict(config))
    assert merged(bq, warehouse.schema)[-1] == whole + 3 * 7 * 8
    assert warehouse.one("SELECT COUNT(*), COUNT(DISTINCT id), SUM(v) FROM {rows}") == (1600, 1600, 3)


@pytest.mark.parametrize("stay", [True, {"ro*": True}, {"ro*": True, "rows": False}])
def test_a_merge_reads_the_days_of_its_rows_where_keys_stay(
    stay: Any, warehouse: BigQuery, batch: Batches, bq: Any
) -> None:
    config = history(warehouse, batch, ("id",), keys_stay_in_partition=stay)
    size = bq.get_table(f"{warehouse.schema}.rows").num_bytes // 1600
    changes = [row(1, DAYS[0], v=1), row(1599, DAYS[39], v=1), row(9001, DAYS[39], v=1)]
    load([schema(columns=COLUMNS, keys=("id",)), batch(changes, columns=COLUMNS), state(3)], dict(config))
    read = 80 if stay is True or "rows" not in stay else 1600
    assert merged(bq, warehouse.schema)[-1] == read * size + 3 * 7 * 8
    assert warehouse.one("SELECT COUNT(*), COUNT(DISTINCT id), SUM(v) FROM {rows}") == (1601, 1601, 3)


@pytest.mark.parametrize("via", ["load_job", "storage_write"])
def test_a_row_that_has_only_its_key_is_found_where_keys_stay(via: str, warehouse: BigQuery, batch: Batches) -> None:
    """Such as a row that marks its key as deleted."""
    columns = COLUMNS.append(pa.field("_sdc_deleted_at", pa.timestamp("us", "UTC")))
    keys_stay = {"keys_stay_in_partition": True, "hard_delete": True, "load_via": via}
    config = history(warehouse, batch, ("id",), **keys_stay)
    gone = {"id": 1, "_sdc_deleted_at": datetime(2024, 3, 1, tzinfo=UTC)}
    lines = [schema(columns=columns, keys=("id",)), batch([gone, row(2, DAYS[0], v=1)], columns=columns), state(2)]
    load(lines, dict(config))
    assert warehouse.one("SELECT COUNT(*), SUM(v), COUNTIF(id = 1) FROM {rows}") == (1599, 1, 0)
    assert warehouse.one("SELECT COUNT(*) FROM {rows} WHERE day IS NULL") == (0,)


def test_rows_without_key_ranges_prune_no_partition(
    warehouse: BigQuery, batch: Batches, bq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = history(warehouse, batch, ("id", "day"))
    together = load_methods.together
    monkeypatch.setattr(load_methods, "together", lambda found, rows: together([*found, None], rows))
    changes = [row(1, DAYS[0], v=1)]
    load([schema(columns=COLUMNS, keys=("id", "day")), batch(changes, columns=COLUMNS), state(2)], dict(config))
    assert " BETWEEN " not in merges(bq, warehouse.schema)[0]
    assert warehouse.one("SELECT COUNT(*), SUM(v) FROM {rows}") == (1600, 1)


def test_statements_of_redshift_hold_the_ranges_of_the_keys(redshift: Any, cloud: Cloud) -> None:
    keys, start = ("id", "at", "name"), [row(n, DAYS[n % 40]) for n in range(100)]
    redshift.run([schema(columns=COLUMNS, keys=keys), redshift.batch(start, columns=COLUMNS)], load_method="upsert")
    changes = [row(n, DAYS[n % 40], v=1) for n in (10, 50, 12)] + [row(-5, FAR[1], v=1)]
    redshift.run([schema(columns=COLUMNS, keys=keys), redshift.batch(changes, columns=COLUMNS)], load_method="upsert")
    assert redshift.sql("SELECT COUNT(*), SUM(v) FROM {rows}") == [(101, 4)]
    text = [s for s in cloud.redshift_statements() if s.startswith("MERGE") and redshift.schema in s][-1]
    assert (
        '"rows"."id" BETWEEN -5 AND 50 AND "rows"."at" BETWEEN '
        "'1969-12-31 12:59:59.999999+00' AND '2024-01-13 12:59:59.999999+00' WHEN MATCHED"
    ) in text


def test_redshift_finds_rows_wherever_they_are(redshift: Any) -> None:
    """Random rows against a plain dict; rows are identified by the key alone."""
    rng, expected = random.Random(7), dict[Any, Row]()
    columns = pa.schema([("k", pa.decimal128(20, 3)), ("d", pa.date32()), ("v", pa.int64())])
    for version in range(4):
        rows = [
            {"k": rng.choice([-(10**16), -1, 0, 1, 10**16]), "d": rng.choice([*DAYS[:3], *FAR]), "v": version * 10 + n}
            for n in range(rng.choice([1, 8]))
        ]
        expected |= {(r["k"], r["d"]): r["v"] for r in rows}
        message = schema(columns=columns, keys=("k", "d"))
        redshift.run([message, redshift.batch(rows, columns=columns)], load_method="upsert")
    assert {(int(k), d): v for k, d, v in redshift.sql("SELECT k, d, v FROM {rows}")} == expected
