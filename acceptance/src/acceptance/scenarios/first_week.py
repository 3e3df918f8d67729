"""The tasks of a first week with the suite: each works as its page in docs/ says, and no warning is shown without need.

Each scenario is one task of somebody who has a bucket and a warehouse. `run` is given the warnings that are true.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Mapping
from typing import Any

from acceptance.pipeline import NotHeldError, Pipeline, check, csv, numbered, parquet
from acceptance.scenario import scenario

DAY = "in/{date:%Y-%m-%d}/*.csv"


def run(p: Pipeline, *warnings: str, **options: Any) -> str:
    """Run the pipeline, and check that it logs these warnings, each as a pattern, and no others."""
    log = p.run(**options)
    _check_warnings(log, *warnings)
    return log


def _check_warnings(log: str, *warnings: str) -> None:
    found = [line for line in log.splitlines() if re.search(r"\bWARNING\b", line)]
    if others := [line for line in found if not any(re.search(pattern, line) for pattern in warnings)]:
        raise NotHeldError(f"A warning that nothing asks for: {others[0]}")
    missing = [pattern for pattern in warnings if not any(re.search(pattern, line) for line in found)]
    check(not missing, f"No warning with {missing}")


def files(p: Pipeline, *more: str, state: Mapping[str, Any] | None = None, **stream: Any) -> list[str]:
    """Return options of the tap that name its settings, and a STATE."""
    (p.folder / "tap.json").write_text(json.dumps(p.tap(**stream)))
    (p.folder / "given.json").write_text(json.dumps(state or {}))
    return ["--config=ENV", "--config", "tap.json", *(["--state", "given.json"] if state else []), *more]


def small(p: Pipeline) -> dict[str, Any]:
    """Return settings of the tap for small batch files."""
    return {"batch_config": {**p.tap()["batch_config"], "target_file_mb": 0.0001}}


def described(p: Pipeline, **stream: Any) -> list[str]:
    """Write a pipeline file, and return the command that runs it."""
    pipeline = {
        "name": p.stream,
        "tap": {"name": "tap-s3-files", "config": p.tap(**stream)},
        "target": {"name": p.warehouse.program, "config": {}},
        "state": "state.json",
    }
    (p.folder / "pipeline.yml").write_text(json.dumps(pipeline))  # JSON is YAML
    return ["singer-arrow", "run", "pipeline.yml"]


# Loading what there is


@scenario()
def week_01_a_folder(p: Pipeline) -> None:
    """A folder of CSV files becomes a table."""
    p.put("a.csv", numbered(0, 3))
    p.put("b.csv", numbered(3, 5))
    run(p, key_properties=[])
    p.expect(numbered(0, 5))


@scenario()
def week_02_nested_folders(p: Pipeline) -> None:
    """Files in folders of folders are found, those of other names are not."""
    p.put("2024/05/a.csv", numbered(0, 2))
    p.put("2024/06/deep/b.csv", numbered(2, 4))
    p.put("2024/06/deep/readme.md", "# not a table")
    run(p, path=f"{p.url('in')}/**/*.csv")
    p.expect(numbered(0, 4))


@scenario()
def week_03_compressed_files(p: Pipeline) -> None:
    """Files that are compressed are read by their names."""
    p.put("a.csv.gz", gzip.compress(csv(numbered(0, 3))))
    run(p)
    p.expect(numbered(0, 3))


@scenario()
def week_04_json_lines(p: Pipeline) -> None:
    """JSON Lines keep nested objects as they are."""
    p.put("a.jsonl", '{"id": 1, "name": "one", "of": {"x": [1, 2]}}\n{"id": 2, "name": null, "of": {"x": []}}\n')
    run(p)
    p.expect([(1, "one"), (2, None)])


@scenario()
def week_05_parquet(p: Pipeline) -> None:
    """Parquet keeps its types."""
    p.put("a.parquet", parquet({"id": [1, 2], "name": ["one", "two"], "price": [1.5, 2.5]}))
    run(p)
    p.expect([(1, "one", 1.5), (2, "two", 2.5)], "id, name, price")


@scenario()
def week_06_a_workbook(p: Pipeline) -> None:
    """The first sheet of a workbook becomes a table."""
    try:
        from openpyxl import Workbook  # type: ignore[import-untyped]
    except ImportError:
        raise NotHeldError("openpyxl is needed to write a workbook: pip install openpyxl") from None
    book, out = Workbook(), io.BytesIO()
    for row in (("id", "name"), (1, "one"), (2, "two")):
        book.active.append(row)
    book.save(out)
    p.put("a.xlsx", out.getvalue())
    run(p)
    p.expect([(1, "one"), (2, "two")])


# The next days


@scenario()
def week_07_new_files(p: Pipeline) -> None:
    """The next run loads what is new, and one without new files ends at once."""
    p.put("a.csv", numbered(0, 2))
    run(p)
    p.put("b.csv", numbered(2, 3))
    run(p)
    run(p)
    p.expect(numbered(0, 3))


@scenario()
def week_08_a_lost_state(p: Pipeline) -> None:
    """Without its STATE a run loads nothing twice."""
    p.put("a.csv", numbered(0, 2))
    run(p)
    p.put("b.csv", numbered(2, 3))
    run(p, state=False)
    p.expect(numbered(0, 3))


@scenario()
def week_09_upsert(p: Pipeline) -> None:
    """Rows of known keys replace the former ones."""
    p.put("a.csv", [(1, "one"), (2, "two")])
    run(p, load_method="upsert")
    p.put("b.csv", [(2, "new"), (3, "three")])
    run(p, load_method="upsert")
    p.expect([(1, "one"), (2, "new"), (3, "three")])


@scenario()
def week_10_replace_daily(p: Pipeline) -> None:
    """A file of the whole replaces the table each day."""
    whole = {"load_method": "overwrite", "replication_method": "FULL_TABLE"}
    p.put("a.csv", numbered(0, 3))
    run(p, **whole)
    p.put("a.csv", numbered(1, 5, "new"))
    run(p, **whole)
    p.expect(numbered(1, 5, "new"))


@scenario()
def week_11_a_corrected_file(p: Pipeline) -> None:
    """A file that is uploaded again with other rows is merged by its key."""
    p.put("a.csv", [(1, "one"), (2, "wrong")])
    run(p, load_method="upsert")
    p.put("a.csv", [(1, "one"), (2, "right")])
    run(p, load_method="upsert")
    p.expect([(1, "one"), (2, "right")])


@scenario()
def week_12_a_new_column(p: Pipeline) -> None:
    """A column that new files have is added to the table."""
    p.put("a.csv", numbered(0, 2))
    run(p)
    p.put("b.csv", csv([(2, "row 2", "x")], "id,name,more"))
    run(p)
    p.expect([(0, "row 0", None), (1, "row 1", None), (2, "row 2", "x")], "id, name, more")


@scenario()
def week_13_a_bad_row(p: Pipeline) -> None:
    """A bad row ends the run with its place; once the file is corrected, all of it is loaded."""
    p.put("a.csv", "id,name\n1,one\n2,two,three\n")
    p.run(schema={"id": "integer", "name": "string"}, fails=r"a\.csv.*(line|row) 3")
    p.put("a.csv", "id,name\n1,one\n2,two\n")
    run(p, schema={"id": "integer", "name": "string"})
    p.expect([(1, "one"), (2, "two")])


@scenario()
def week_14_bad_rows_put_aside(p: Pipeline) -> None:
    """Bad rows go to a table of their own, the others are loaded."""
    p.put("a.csv", "id,name\n1,one\nx,two\n3,three\n")
    given = {"on_bad_row": "dead_letter"}
    run(p, "rejected|bad row|written to table", target=given, schema={"id": "integer", "name": "string"}, **given)
    p.expect([(1, "one"), (3, "three")])
    check(len(p.rows("reason", "_sdc_rejected")) >= 1, "The bad row is not in _sdc_rejected")


# Columns


@scenario()
def week_15_columns_renamed(p: Pipeline) -> None:
    """A column gets another name and type."""
    p.put("a.csv", csv([(1, "7"), (2, "8")], "id,number"))
    run(p, columns={"name": {"from": "number", "type": "string"}})
    p.expect([(1, "7"), (2, "8")])


@scenario()
def week_16_columns_masked(p: Pipeline) -> None:
    """A column is masked before it leaves the tap."""
    p.put("a.csv", [(1, "Maria"), (2, "")])
    run(p, columns={"name": {"mask": {"keep_first": 1}}})
    p.expect([(1, "M***"), (2, None)])


@scenario()
def week_17_columns_left_out(p: Pipeline) -> None:
    """Columns that nobody needs are left out."""
    p.put("a.csv", csv([(1, "one", "secret")], "id,name,password"))
    run(p, columns={"password": False})
    check("password" not in p.columns(), "The column is in the table")
    p.expect([(1, "one")])


@scenario()
def week_18_columns_of_the_path(p: Pipeline) -> None:
    """Folders such as `country=de` become a column."""
    p.put("country=de/a.csv", [(1, "eins")])
    p.put("country=fr/a.csv", [(2, "deux")])
    run(p, partition_columns=True)
    p.expect([(1, "eins", "de"), (2, "deux", "fr")], "id, name, country")


@scenario()
def week_19_a_table_for_each_folder(p: Pipeline) -> None:
    """Each folder becomes a table of its own."""
    p.put("week19_eu/a.csv", [(1, "one")])
    p.put("week19_us/a.csv", [(2, "two")])
    run(p, name="{kind}", path=f"{p.url('in')}/{{kind}}/*.csv")
    p.expect([(1, "one")], table="week19_eu")
    p.expect([(2, "two")], table="week19_us")


@scenario()
def week_20_two_streams(p: Pipeline) -> None:
    """Two streams of one tap become two tables."""
    p.put("orders/a.csv", [(1, "one")])
    p.put("items/a.csv", [(2, "two")])
    streams = [
        {"name": f"week20_{kind}", "path": f"{p.url('in')}/{kind}/*.csv", "key_properties": ["id"]}
        for kind in ("orders", "items")
    ]
    run(p, tap={"streams": streams})
    p.expect([(1, "one")], table="week20_orders")
    p.expect([(2, "two")], table="week20_items")


# Looking before loading


@scenario()
def week_21_init(p: Pipeline) -> None:
    """`init` writes settings of what is in a bucket, and they load it."""
    p.put("a.csv", numbered(0, 2))
    text = p.program("tap-s3-files", "init", f"{p.url('in')}/")
    _check_warnings(text)
    command = ["--config=ENV", "--config", "tap-s3-files.yml", "--plan"]
    check(re.search(r"\b1 +\d+ ", p.program("tap-s3-files", *command)), "The settings find no file")


@scenario()
def week_22_preview(p: Pipeline) -> None:
    """`--preview` shows the first rows and loads nothing."""
    p.put("a.csv", numbered(0, 2))
    text = p.program("tap-s3-files", *files(p, "--preview"))
    _check_warnings(text)
    check("row 1" in text, "The rows are not shown")
    check(p.stream not in p.warehouse.tables(), "The table was created")


@scenario()
def week_23_plan(p: Pipeline) -> None:
    """`--plan` says what a run would read."""
    p.put("a.csv", numbered(0, 2))
    text = p.program("tap-s3-files", *files(p, "--plan"))
    _check_warnings(text)
    check(re.search(rf"{p.stream} +1 +\d+", text), f"The plan does not count the file: {text[-300:]}")


# Days, and days again


@scenario()
def week_24_a_backfill(p: Pipeline) -> None:
    """Two ranges of dates, each with a plan log of its own, come into one table."""
    for day in (1, 2, 3, 4):
        p.put(f"2024-05-0{day}/a.csv", numbered(day, day + 1))
    for begin, end in (("2024-05-01", "2024-05-03"), ("2024-05-03", "2024-05-05")):
        window = {"start_date": begin, "end_date": end, "plan_root": str(p.url(f"plans/{begin}"))}
        run(p, tap=window, path=str(p.url(DAY)), state=False)
    p.expect(numbered(1, 5))


@scenario()
def week_25_a_day_again(p: Pipeline) -> None:
    """The rows of a day are deleted and loaded again."""
    for day in (1, 2):
        p.put(f"2024-05-0{day}/a.csv", numbered(day, day + 1))
    stream = {"path": str(p.url(DAY)), "key_properties": ["id"], "load_method": "upsert"}
    run(p, tap={"start_date": "2024-05-01"}, **stream)
    p.put("2024-05-02/a.csv", numbered(2, 3, "corrected"))
    run(p, tap={"start_date": "2024-05-01"}, **stream)
    p.expect([*numbered(1, 2), *numbered(2, 3, "corrected")])


# When something breaks


@scenario()
def week_26_a_kill(p: Pipeline) -> None:
    """After kill -9 of the target the same command is run again, and each row is there once."""
    for n in range(6):
        p.put(f"{n}.csv", numbered(n * 10, n * 10 + 10))
    running = p.start(small(p), {"max_batch_age_seconds": 0.1})
    running.kill("target")
    running.wait()
    run(p, tap=small(p))
    p.expect(numbered(0, 60))


@scenario()
def week_27_a_wrong_setting(p: Pipeline) -> None:
    """A misspelt setting is named with the right one before anything is read."""
    p.put("a.csv", numbered(0, 1))
    p.run(key_propertys=["id"], fails="key_properties")
    run(p)
    p.expect(numbered(0, 1))


# In production


@scenario()
def week_28_a_pipeline_file(p: Pipeline) -> None:
    """`singer-arrow run` keeps STATE in a file, so that the next run loads what is new."""
    p.put("a.csv", numbered(0, 2))
    command = described(p)
    _check_warnings(p.program(*command))
    p.put("b.csv", numbered(2, 3))
    _check_warnings(p.program(*command))
    p.expect(numbered(0, 3))


@scenario()
def week_29_a_dry_run(p: Pipeline) -> None:
    """`--dry-run` shows what the next run would load, and changes nothing."""
    p.put("a.csv", numbered(0, 2))
    text = p.program(*described(p), "--dry-run")
    _check_warnings(text)
    check(p.stream not in p.warehouse.tables(), "The table was created")


@scenario()
def week_30_loaded_files_are_moved(p: Pipeline) -> None:
    """Files that are loaded are moved to an archive."""
    p.put("a.csv", numbered(0, 2))
    given = {"after_load": {"move": str(p.url("done"))}, "path": f"{p.url('in')}/*.csv"}
    _check_warnings(p.program(*described(p, **given)))
    check(not p.objects("in"), "The file is still there")
    p.put("b.csv", numbered(2, 3))
    _check_warnings(p.program(*described(p, **given)))
    p.expect(numbered(0, 3))


@scenario()
def week_31_records(p: Pipeline) -> None:
    """Without a place for batch files, rows go through the pipe as records."""
    p.put("a.csv", numbered(0, 2))
    run(p, tap={"batch_config": None}, load_method="upsert")
    p.put("b.csv", numbered(1, 3, "new"))
    run(p, tap={"batch_config": None}, load_method="upsert")
    p.expect([(0, "row 0"), *numbered(1, 3, "new")])
