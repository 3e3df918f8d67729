"""Random messages of two streams and several runs: tables match a small model, and no STATE is early."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from singer_lines import Batches, load
from table_model import (
    DELETES,
    NONE,
    SOFT,
    STREAMS,
    TYPES,
    Activate,
    Again,
    End,
    Model,
    NewVersion,
    Operation,
    Rows,
    Schema,
    State,
    Tap,
    comparable,
)
from warehouses import WAREHOUSES, Warehouse

from local_cloud import Cloud
from singer_arrow.errors import UnfinishedStreamError
from singer_arrow.load.run import Checkpoints

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-(2**63), 2**63 - 1),
    "t": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    "f": st.floats(allow_nan=False, allow_infinity=False),
    "b": st.booleans(),
    "d": st.dates(date(1000, 1, 1)),
    "m": st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
}
streams = st.sampled_from(STREAMS)
row = st.tuples(st.integers(0, 3), st.fixed_dictionaries({name: st.none() | VALUES[name] for name in TYPES}))
schemas = st.builds(Schema, streams, st.lists(st.sampled_from(sorted(TYPES)), unique=True, max_size=4).map(tuple))
rows = st.builds(
    Rows, streams, st.sampled_from(["RECORD", "parquet", "jsonl"]), st.lists(row, max_size=3).map(tuple), st.booleans()
)
plain = st.one_of(rows, rows, st.builds(State), schemas, st.builds(Activate, streams), st.builds(End, streams))
taps = st.just(Tap()) | st.builds(Tap, st.just(True), st.booleans(), st.frozensets(streams))
with_replays = st.lists(plain | st.builds(Again, streams, st.integers(0, 3)), max_size=8)
with_versions = st.lists(plain | st.builds(NewVersion, streams), max_size=8)
first = st.tuples(*(st.builds(Schema, st.just(s), schemas.map(lambda x: x.names)) for s in STREAMS))
limits = st.fixed_dictionaries(
    {"max_batch_mb": st.sampled_from([0.000001, 64]), "batch_size_rows": st.sampled_from([1, 2, 1000])}
)


@st.composite
def stories(draw: st.DrawFn) -> tuple[str, list[tuple[Any, list[Operation], Tap]]]:
    """Generate the effect of ACTIVATE_VERSION and one or two runs, in which the tap may fail.

    A batch is not sent again under another version.
    """
    deletes = draw(st.sampled_from(DELETES))
    run = st.tuples(first, with_replays if deletes == NONE else with_versions, taps)
    return deletes, draw(st.lists(run, min_size=1, max_size=2))


@pytest.fixture(autouse=True)
def states_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Release every STATE as soon as it is allowed."""
    monkeypatch.setitem(Checkpoints.__init__.__kwdefaults__, "interval", 0.0)


@pytest.fixture(params=WAREHOUSES)
def places(request: pytest.FixtureRequest, cloud: Cloud, bq: Any, rs: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a new schema for each example."""
    for name, value in cloud.environ().items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    client = {"bigquery": bq, "redshift": rs}[request.param]
    return lambda: WAREHOUSES[request.param](cloud, client, f"test_{uuid.uuid4().hex[:12]}")


@pytest.mark.parametrize("method", ["append-only", "upsert", "overwrite"])
def test_tables_and_states_are_those_of_the_model(method: str, places: Any, tmp_path: Path) -> None:
    @settings(
        max_examples=max(4, settings.default.max_examples // 12),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(stories(), limits)
    def check(story: tuple[str, list[tuple[Any, list[Operation], Tap]]], sizes: dict[str, Any]) -> None:
        deletes, runs = story
        event(deletes)
        warehouse: Warehouse = places()
        model = Model(method, deletes, skips_known=method == "append-only", batch=Batches(tmp_path))
        own = {"add_record_metadata": deletes == SOFT, "hard_delete": deletes == "hard", "load_method": method}
        try:
            for schemas, operations, tap in runs:
                follow(model, warehouse, model.play(operations, schemas, tap), own | sizes)
                event(f"kept {len(model.kept)}")
        finally:
            warehouse.drop()

    check()


def follow(model: Model, warehouse: Warehouse, messages: list[Any], config: Any) -> None:
    """Run the target; check the tables whenever a STATE is written, and at the end."""
    states: list[int] = []
    early: list[Any] = []

    def look(value: Any) -> None:
        states.append(value["n"])
        tables = warehouse.tables()
        for stream in STREAMS:
            text = f"SELECT id, tok FROM {warehouse.quoted(stream)}"
            found = [tuple(r.values()) for r in warehouse.run(text)] if stream in tables else []
            if missing := model.missing(stream, value["n"], found):
                early.append((value, stream, missing))

    with pytest.raises(UnfinishedStreamError) if model.kept else nullcontext():
        load(messages, warehouse.config | config, warehouse.target, on_state=look)
    assert states == sorted(set(states))
    assert (states[-1] if states else None) == model.last_state
    assert not early
    for stream in STREAMS:
        found = warehouse.run(f"SELECT * FROM {warehouse.quoted(stream)}")
        rows = [comparable(r, deleted=r.get("_sdc_deleted_at") is not None) for r in found]
        assert sorted(rows, key=repr) == model.rows(stream)
