"""overwrite with the local Redshift: SCHEMA changes within a run, lost answers, and failing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from redshift_lines import Loads
from singer_lines import COLUMNS, record, rows, schema, state

from local_cloud import Cloud
from singer_arrow.errors import LoadError

WIDER = COLUMNS.append(pa.field("more", pa.string()))


def altered(cloud: Cloud, table: str) -> list[str]:
    return [s for s in cloud.redshift_statements() if s.startswith("ALTER TABLE") and table in s]


def test_columns_of_a_later_schema_are_widened_where_they_need_it_alone(redshift: Loads, cloud: Cloud) -> None:
    def run(text: str) -> None:
        redshift.run(
            [
                schema(),
                record(id=1, name="x"),
                schema(columns=WIDER),
                record(id=2, name="y", more=text),
                schema(),
                record(id=3, name="z"),
                state(1),
            ],
            load_method="overwrite",
        )

    run("short")
    table = f'"{redshift.schema}"."rows"'
    assert [s.rpartition(" ADD ")[2] for s in altered(cloud, table)] == ['COLUMN "more" VARCHAR(256)']
    run("m" * 300)
    assert redshift.columns()["more"] == "VARCHAR(1024)"
    run("m" * 301)
    assert len(altered(cloud, table)) == 2
    assert [r["more"] for r in redshift.table()] == [None, "m" * 301, None]


@pytest.mark.parametrize("statement", ["CREATE TABLE", "ALTER TABLE"])
def test_lost_answers_about_the_staging_table(
    statement: str, redshift: Loads, redshift_faults: Callable[..., None]
) -> None:
    rule: dict[str, Any] = {"match": f"^{statement} .*_sdc_staging_", "action": "kill", "at": "after", "times": 1}
    redshift_faults(rule)
    messages = [
        schema(),
        redshift.batch(rows(0, 2)),
        schema(columns=WIDER),
        record(id=2, name="c", more="d"),
        state(1),
    ]
    redshift.run(messages, load_method="overwrite")
    assert redshift.ids() == [0, 1, 2]
    assert redshift.staging_tables() == []


def test_a_failed_run_leaves_no_staging_table(redshift: Loads) -> None:
    redshift.run([schema(), redshift.batch(rows(0, 2)), state(1)])
    good, bad = redshift.batch(rows(2, 2)), redshift.batch([], file_format="jsonl", batch_id="a") | {"row_count": 1}
    with pytest.raises(LoadError):
        redshift.run([schema(), good, state(2), bad, state(3)], load_method="overwrite")
    assert redshift.staging_tables() == []
    assert redshift.ids() == [0, 1]
