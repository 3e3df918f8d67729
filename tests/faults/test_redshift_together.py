"""Several targets load the same table concurrently: no row is lost or duplicated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from local_settings import ONE_EACH
from singer_lines import Batches, Message, lines, rows, schema, some_batches, state, states
from warehouses import Warehouse

from local_cloud.programs import Programs

pytestmark = pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)


def at_once(
    run: Programs, inputs: Sequence[list[Message]], methods: Sequence[str] = (), **settings: Any
) -> list[list[Any]]:
    """Run several targets on the same messages concurrently; return the STATEs of each."""
    own = [{"load_method": method} for method in methods] or [{}] * len(inputs)
    started = [run.start("target-redshift", config=["ENV", settings | more]) for more in own]
    for process, messages in zip(started, inputs, strict=True):
        assert process.stdin
        process.stdin.write(lines(messages).encode())
        process.stdin.flush()
    ends = [process.communicate(timeout=120) for process in started]
    log = "\n".join(err.decode() for _, err in ends)
    assert [process.returncode for process in started] == [0] * len(started), log[-6000:]
    assert "Traceback" not in log
    return [states(out) for out, _ in ends]


@pytest.mark.smoke
def test_the_same_batches(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    messages = some_batches(batch, 8)
    outputs = at_once(run, [messages, messages, messages], **ONE_EACH)
    assert [sent[-1] for sent in outputs] == [7, 7, 7]
    assert warehouse.table() == rows(0, 16)
    count = "SELECT COUNT(*) AS n, COUNT(DISTINCT batch_id) AS distinct_n FROM {_sdc_batches}"
    assert warehouse.one(f"{count} WHERE SUBSTRING(batch_id, 1, 5) <> '_sdc_'") == (8, 8)  # without those of tables


def test_the_same_keys(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    def content(who: str, first: int) -> list[dict[str, Any]]:
        return [{"id": first + n, "name": f"{who} {first + n}"} for n in range(10)]

    inputs = [
        [schema(), *(m for n in range(0, 40, 5) for m in (batch(content(who, n), batch_id=f"{who}-{n}"), state(n)))]
        for who in ("a", "b")
    ]
    states = at_once(run, inputs, load_method="upsert", **ONE_EACH)
    assert [sent[-1] for sent in states] == [35, 35]
    got = warehouse.table()
    assert [r["id"] for r in got] == list(range(45))
    assert all(r["name"] in (f"a {r['id']}", f"b {r['id']}") for r in got)


def test_each_with_columns_of_its_own(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    inputs = []
    for n in range(3):
        columns = pa.schema([("id", pa.int64()), *((f"c{n}_{i}", pa.string()) for i in range(3))])
        content = [{"id": n, **{f"c{n}_{i}": "x" * 300 * (n + 1) for i in range(3)}}]
        inputs.append([schema(columns=columns), batch(content, columns=columns, batch_id=f"b{n}"), state(n)])
    at_once(run, inputs)
    assert len(warehouse.columns("rows")) == 10
    assert [len(r[f"c{n}_2"]) for n, r in enumerate(warehouse.table())] == [300, 600, 900]


def test_the_same_table_widened(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    inputs = [
        [schema(), batch([{"id": n, "name": "x" * size}], batch_id=f"b{n}"), state(n)]
        for n, size in enumerate((3000, 60_000, 500))
    ]
    at_once(run, inputs)
    assert [len(r["name"]) for r in warehouse.table()] == [3000, 60_000, 500]
    assert warehouse.columns("rows")["name"] == "varchar(65535)"


def test_one_replaces_the_table_while_others_load_it(run: Programs, warehouse: Warehouse, batch: Batches) -> None:
    warehouse.load([schema(), batch(rows(0, 3), batch_id="before")])
    methods = ["overwrite", "append-only", "upsert", "overwrite"]
    inputs = [
        [schema(), *(m for i in range(3) for m in (batch(rows(100 * n + i, 1), batch_id=f"{n}-{i}"), state(i)))]
        for n in range(1, 5)
    ]
    states = at_once(run, inputs, methods, **ONE_EACH)
    assert [sent[-1] for sent in states] == [2] * 4
    found = [r["id"] for r in warehouse.table()]
    assert len(found) == len(set(found))
    whole = {n: {100 * n + i for i in range(3)} for n in range(5)}
    replaced = [n for n in (1, 4) if whole[n] <= set(found)]
    assert len(replaced) == 1  # all rows of the run that finished last, and rows that others appended after it
    assert set(found) <= whole[replaced[0]] | whole[2] | whole[3]
