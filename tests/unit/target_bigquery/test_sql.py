"""SQL statements: their text, and quoting of hostile names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from singer_arrow.load.method import LAST, LOG
from target_bigquery import sql
from target_bigquery.columns import columns_of
from target_bigquery.sql import ColumnRanges
from target_bigquery.types import MAX_COLUMNS


def test_names_are_quoted_whatever_they_hold() -> None:
    assert sql.quoted("p-1", "d", "t") == "`p-1`.`d`.`t`"
    assert sql.quoted("a`; DROP TABLE x --") == "`a\\`; DROP TABLE x --`"
    assert sql.quoted("a\\") == "`a\\\\`"


NEWER = (
    "(t.`rank` > s.`rank` AND SPLIT(t.`rank`, ' ')[OFFSET(0)] = SPLIT(s.`rank`, ' ')[OFFSET(0)] "
    "AND (REGEXP_REPLACE(t.`rank`, '(  [0-9a-f]{8})? [0-9]{5}[.][0-9]{12}$', '') "
    "<> REGEXP_REPLACE(s.`rank`, '(  [0-9a-f]{8})? [0-9]{5}[.][0-9]{12}$', '') "
    "OR LEFT(RIGHT(t.`rank`, 27), 8) = LEFT(RIGHT(s.`rank`, 27), 8)))"
)
NOT_NEWER = f"WHEN MATCHED AND {NEWER} IS NOT TRUE"


def test_merge() -> None:
    columns = columns_of(pa.schema([("id", pa.int64()), ("part", pa.float64()), ("rank", pa.string())]))
    assert sql.merge("`t`", "`s`", columns, ["id", "part"], rank="rank") == (
        "MERGE `t` AS t USING (SELECT * EXCEPT (`_sdc_order`) FROM `s` WHERE TRUE QUALIFY ROW_NUMBER() OVER "
        "(PARTITION BY `id`, CAST(`part` AS STRING) ORDER BY `rank` DESC, `_sdc_order` DESC) = 1) AS s "
        f"ON t.`id` = s.`id` AND t.`part` = s.`part` {NOT_NEWER} THEN UPDATE SET `rank`=s.`rank` "
        "WHEN NOT MATCHED THEN INSERT (`id`,`part`,`rank`) VALUES (s.`id`,s.`part`,s.`rank`)"
    )


def test_a_merge_of_as_many_columns_as_a_table_may_have_fits() -> None:
    names = [f"a_name_of_bytes_{n:04d}" for n in range(MAX_COLUMNS)]
    assert {len(name) for name in names} == {20}
    columns = columns_of(pa.schema([(name, pa.int64()) for name in names]))
    text = sql.merge("`t`", "`s`", columns, names[:1], rank=names[1])
    assert 900_000 < len(text) < sql.MOST_BYTES


def test_merge_empties_what_may_hold_earlier_values() -> None:
    columns = columns_of(pa.schema([("id", pa.int64()), ("n", pa.string())]))
    text = sql.merge("`t`", "`s`", columns, ["id"], rank="n", emptied=["n__integer", "x"])
    assert " UPDATE SET `n`=s.`n`,`n__integer`=NULL,`x`=NULL WHEN NOT MATCHED" in text
    assert "`n__integer`" not in text.partition("WHEN NOT MATCHED")[2]


def test_entries_are_parameters() -> None:
    text = sql.add_ledger_entries(2).format(ledger="`l`")
    assert text.endswith(
        "VALUES (@batch_0, @stream, @job, @rows_0, CURRENT_TIMESTAMP()), "
        "(@batch_1, @stream, @job, @rows_1, CURRENT_TIMESTAMP())"
    )


def test_settled_entries_have_jobs_and_times_of_their_own() -> None:
    text = sql.add_ledger_entries(1, 2).format(ledger="`l`")
    assert text.endswith(
        "VALUES (@batch_0, @stream, @job, @rows_0, CURRENT_TIMESTAMP()), "
        "(@settled_batch_0, @stream, @settled_job_0, @settled_rows_0, @settled_at_0), "
        "(@settled_batch_1, @stream, @settled_job_1, @settled_rows_1, @settled_at_1)"
    )
    assert sql.add_ledger_entries(0, 1).endswith(
        "VALUES (@settled_batch_0, @stream, @settled_job_0, @settled_rows_0, @settled_at_0)"
    )


def test_claims_hold_their_write_stream() -> None:
    name = "projects/example.com:p-1/datasets/d/tables/t_é/streams/Cic2_Y-m8:s8"
    found = sql.CLAIM.fullmatch(sql.claim(name))
    assert found is not None
    assert found[1] == name
    assert sql.CLAIM.fullmatch(sql.NOTHING) is None
    assert sql.CLAIM.fullmatch("SELECT 'x' AS write_stream") is None


@pytest.mark.parametrize(
    "text",
    [
        sql.LEDGER_ENTRIES_BETWEEN,
        sql.LEDGER_ENTRIES_OF_JOB,
        sql.HAS_LEDGER_ENTRIES,
        sql.DELETE_LEDGER_ENTRIES,
        sql.LEDGER_ENTRIES_OF,
        sql.count_rows("`t`"),
        sql.delete_versions("`t`", "_sdc_table_version"),
        sql.mark_versions_deleted("`t`", "_sdc_table_version", "_sdc_deleted_at"),
    ],
)
def test_texts_are_one_statement(text: str) -> None:
    assert ";" not in text
    for constant in (LAST, LOG, " ", ""):
        text = text.replace(f"'{constant}'", "")
    assert "'" not in text  # no statement contains a value


def test_a_table_may_require_a_condition_on_its_partitions() -> None:
    every = "(`d` IS NULL OR `d` IS NOT NULL)"
    assert sql.count_rows("`t`", "d") == f"SELECT COUNT(*) AS `rows` FROM `t` WHERE {every}"
    assert sql.delete_versions("`t`", "v", "d").endswith(f"< @version AND {every}")
    assert sql.mark_versions_deleted("`t`", "v", "x", "d").endswith(f"`x` IS NULL AND {every}")
    columns = columns_of(pa.schema([("id", pa.int64())]))
    merge = sql.merge("`t`", "`s`", columns, ["id"], rank="id", filtered_by="d")
    assert "ON t.`id` = s.`id` AND (t.`d` IS NULL OR t.`d` IS NOT NULL) WHEN" in merge
    bounds = [ColumnRanges("d", (("1", "2"),))]
    bounded = sql.merge("`t`", "`s`", columns, ["id"], rank="id", filtered_by="d", bounds=bounds)
    assert "ON t.`id` = s.`id` AND t.`d` BETWEEN 1 AND 2 WHEN" in bounded


def test_rows_are_replaced() -> None:
    assert sql.replace_rows("`t`", "`s`", ["a", "b"]) == (
        "BEGIN TRANSACTION; TRUNCATE TABLE `t`; INSERT INTO `t` (`a`,`b`) SELECT `a`,`b` FROM `s`; COMMIT TRANSACTION"
    )
    assert sql.replace_streamed_rows("`t`", "`s`", ["a", "b"], "d") == (
        "MERGE `t` AS t USING `s` AS s ON FALSE WHEN NOT MATCHED BY SOURCE AND (t.`d` IS NULL OR t.`d` IS NOT NULL) "
        "THEN DELETE WHEN NOT MATCHED THEN INSERT (`a`,`b`) VALUES (s.`a`,s.`b`)"
    )


def test_versions() -> None:
    assert sql.delete_versions("`t`", "v") == "DELETE FROM `t` WHERE `v` < @version"
    assert sql.mark_versions_deleted("`t`", "v", "d") == (
        "UPDATE `t` SET `d` = CURRENT_TIMESTAMP() WHERE `v` < @version AND `d` IS NULL"
    )
