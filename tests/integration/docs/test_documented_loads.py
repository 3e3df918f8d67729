"""Examples of the documentation that need data of their own: redo one day; layouts of tables."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from documented import ROOT, block, run_script

from local_cloud.programs import Programs

REDO = (
    (ROOT / "docs/redo-a-day.md")
    .read_text()
    .replace("s3://source/", "s3://shop/")
    .replace("s3://stage/", "s3://my-stage/")
)
LAYOUTS = (ROOT / "docs/partition-and-cluster.md").read_text()
DAYS = ("01", "02", "03")


def write_day(s3: Any, day: str, *names: str) -> None:
    rows = "id,name\n" + "".join(f"{day}-{n},{name}\n" for n, name in enumerate(names))
    s3.put_object(Bucket="shop", Key=f"flights/2013/01/flights-2013-01-{day}.csv.gz", Body=gzip.compress(rows.encode()))


def test_one_day_is_loaded_again(shop: Any, bq: Any, run: Programs, tmp_path: Path) -> None:
    def names() -> dict[str, list[str]]:
        rows = bq.query("SELECT id, name FROM redone.flights ORDER BY id").result()
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row["id"][:2], []).append(row["name"])
        return found

    for day in DAYS:
        write_day(shop, day, "a", "b")
    run_script(block(REDO, "sh"), run, tmp_path)
    assert names() == {day: ["a", "b"] for day in DAYS}
    for changed in ((), ("c",)):  # the same files once more, then files that were written anew
        if changed:
            write_day(shop, "02", *changed)
        bq.query(block(REDO, "sql")).result()
        assert names().keys() == {"01", "03"}
        assert re.search(
            r"^flights +1 ", run_script(block(REDO, "sh", after="2. Load the day"), run, tmp_path), re.MULTILINE
        )
        assert names() == {"01": ["a", "b"], "02": list(changed) or ["a", "b"], "03": ["a", "b"]}


SCHEMA = {
    "type": "object",
    "properties": {
        "at": {"type": ["null", "string"], "format": "date-time"},
        "country": {"type": ["null", "string"]},
        "user_id": {"type": ["null", "integer"]},
    },
}


def schema_line(stream: str) -> str:
    return json.dumps({"type": "SCHEMA", "stream": stream, "schema": SCHEMA, "key_properties": []}) + "\n"


def layout(target: str) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(block(LAYOUTS, "json", after=f"<!-- tested: {target} -->"))
    return given


def test_tables_are_partitioned_and_clustered(run: Programs, bq: Any, dataset: str) -> None:
    lines = schema_line("events") + schema_line("log_web")
    run("target-bigquery", config=["ENV", layout("bigquery")], stdin=lines).check()
    events, log = (bq.get_table(f"{dataset}.{name}") for name in ("events", "log_web"))
    assert (events.time_partitioning.field, events.time_partitioning.type_) == ("at", "DAY")
    assert (log.time_partitioning.field, log.time_partitioning.type_) == ("at", "MONTH")
    assert (events.clustering_fields, log.clustering_fields) == (["country", "user_id"], None)


def test_tables_are_distributed_and_sorted(run: Programs, rs: Any, schema: str) -> None:
    given = layout("redshift") | {"default_target_schema": schema}
    run("target-redshift", config=["ENV", given], stdin=schema_line("events")).check()
    with rs.cursor() as cursor:
        cursor.execute(
            "SELECT column_name, distkey, sortkey FROM svv_redshift_columns WHERE database_name = current_database() "
            "AND schema_name = %s AND table_name = 'events' AND (distkey OR sortkey <> 0) ORDER BY 1",
            (schema,),
        )
        assert [tuple(row) for row in cursor.fetchall()] == [
            ("at", False, 1),
            ("country", False, 2),
            ("user_id", True, 0),
        ]
