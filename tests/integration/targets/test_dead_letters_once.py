"""Bad rows are recorded once for a run interrupted at any step of a load, and before the STATE after them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from held_load_job import HELD_SECONDS
from singer_lines import Batches, Message, lines, schema, state, states
from waiting import wait_until
from warehouses import Warehouse

from local_cloud.programs import Programs
from singer_arrow.load.run import Checkpoints
from target_bigquery import load as bigquery_load
from target_bigquery.load import DeadLetterTable
from target_redshift import sql
from target_redshift.connection import Session

DEAD = {"on_bad_row": "dead_letter"}
GOOD = [0, 2, 3, 5, 6, 8]


class Stop(BaseException):
    """Raised to end a run at this point, as a signal would."""


@pytest.fixture
def messages(batch: Batches) -> list[Message]:
    """Return three batches of three rows, the second row of each bad, and a STATE after each.

    Each brings another bad row, which its tap could not read.
    """
    found = [schema()]
    for number in range(3):
        content: list[dict[str, Any]] = [{"id": n, "name": "x"} for n in range(3 * number, 3 * number + 3)]
        content[1]["id"] = "no number"
        of_tap = {"file": "s3://in/a.csv", "position": 9, "column_name": "id", "reason": "no number", "record": "{}"}
        made = batch(content, file_format="jsonl", batch_id=f"b-{number}")
        found += [{**made, "rejected": [of_tap]}, state(number)]
    return found


def check(warehouse: Warehouse, batches: int = 3) -> None:
    """Check that each good row is loaded once, and each bad one recorded once."""
    assert [row["id"] for row in warehouse.table()] == GOOD[: 2 * batches]
    found = warehouse.query("SELECT batch_id, position FROM {_sdc_rejected} ORDER BY batch_id, position")
    assert [tuple(row.values()) for row in found] == [(f"b-{n}", at) for n in range(batches) for at in (2, 9)]


def stop_at(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, is_it: Callable[..., bool], *, after: bool) -> None:
    """End the run before or after the first call of a given function."""
    function, stopped = getattr(where, name), list[bool]()

    def stopping(*args: Any, **options: Any) -> Any:
        if stopped or not is_it(*args):
            return function(*args, **options)
        stopped.append(True)
        if after:
            function(*args, **options)
        raise Stop

    monkeypatch.setattr(where, name, stopping)


STEPS: dict[str, dict[str, tuple[Any, str, Callable[..., bool], bool]]] = {
    "bigquery": {
        "before the bad rows": (DeadLetterTable, "write", lambda *_: True, False),
        "after the bad rows": (DeadLetterTable, "write", lambda *_: True, True),
        "before the load job": (bigquery_load, "run_load_job", lambda *given: given[2] == "rows", False),
        "after the load job": (bigquery_load, "run_load_job", lambda *given: given[2] == "rows", True),
        "before the state": (Checkpoints, "close", lambda *_: True, False),
    },
    "redshift": {
        "before the bad rows": (Session, "execute", lambda _, text, *__: "INTO" in text and "_sdc_rej" in text, False),
        "after the bad rows": (Session, "execute", lambda _, text, *__: "INTO" in text and "_sdc_rej" in text, True),
        "before the commit": (Session, "execute", lambda _, text, *__: text == sql.COMMIT, False),
        "after the commit": (Session, "execute", lambda _, text, *__: text == sql.COMMIT, True),
        "before the state": (Checkpoints, "close", lambda *_: True, False),
    },
}


@pytest.mark.parametrize(
    ("warehouse", "step"), [(name, step) for name, steps in STEPS.items() for step in steps], indirect=["warehouse"]
)
def test_a_run_that_ends_between_two_steps_is_repeated_without_harm(
    step: str,
    warehouse: Warehouse,
    messages: list[Message],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where, name, is_it, after = STEPS[warehouse.name][step]
    with monkeypatch.context() as patched:
        stop_at(patched, where, name, is_it, after=after)
        with pytest.raises(Stop):
            warehouse.load(messages, **DEAD)
    assert states(capsys.readouterr().out) == []
    warehouse.load(messages, **DEAD)
    check(warehouse)
    assert states(capsys.readouterr().out)[-1] == 2


def test_overwrite_that_is_interrupted_leaves_no_bad_rows(
    warehouse: Warehouse, messages: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        stop_at(patched, warehouse.target, "process_endofpipe", _true, after=False)
        with pytest.raises(Stop):
            warehouse.load(messages, load_method="overwrite", max_batch_mb=0.000001, **DEAD)
    assert "_sdc_rejected" not in warehouse.tables()
    warehouse.load(messages, load_method="overwrite", **DEAD)
    check(warehouse)


def _true(*_: Any) -> bool:
    return True


@pytest.mark.parametrize("warehouse", ["bigquery"], indirect=True)
def test_killed_while_the_load_job_of_the_good_rows_runs(
    warehouse: Warehouse,
    messages: list[Message],
    run: Programs,
    tmp_path: Path,
    fail_jobs: Callable[..., Any],
    bq: Any,
) -> None:
    fail_jobs(
        {"job": "load", "match": rf"{warehouse.schema}\.rows$", "delay_s": HELD_SECONDS, "reason": "backendError"}
    )
    killed(warehouse, messages, run, tmp_path, lambda: _written(bq, warehouse.schema))
    fail_jobs()
    warehouse.load(messages, **DEAD)
    check(warehouse)


@pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
def test_killed_before_the_transaction_commits(
    warehouse: Warehouse,
    messages: list[Message],
    run: Programs,
    tmp_path: Path,
    redshift_faults: Callable[..., None],
    rs: Any,
) -> None:
    redshift_faults({"match": "^insert into .*_sdc_batches", "delay_s": HELD_SECONDS, "times": 1})

    def is_written() -> bool:
        statements = [text for (text,) in rs.execute("LOCAL CLOUD STATEMENTS") if warehouse.schema in text]
        return any("INSERT" in text and "_sdc_rejected" in text for text in statements)

    killed(warehouse, messages, run, tmp_path, is_written)
    redshift_faults()
    warehouse.load(messages, **DEAD)
    check(warehouse)


def _written(client: Any, dataset: str) -> bool:
    from google.api_core.exceptions import NotFound

    try:
        return bool(client.get_table(f"{dataset}._sdc_rejected").num_rows)
    except NotFound:
        return False


def killed(
    warehouse: Warehouse, messages: list[Message], run: Programs, folder: Path, is_time: Callable[[], bool]
) -> None:
    """Run a target as a process and kill it at the given time; no STATE has been written."""
    command = Programs(run.env, folder).command(warehouse.program, config=["ENV", DEAD])
    given = folder / "messages"
    given.write_text(lines(messages))
    with given.open("rb") as source:
        process = subprocess.Popen(
            command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=run.env
        )
    try:
        wait_until(is_time)
    finally:
        process.kill()
        out, _ = process.communicate(timeout=60)
    assert out == b""
