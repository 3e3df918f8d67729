"""Runs that are repeated, or killed: every row once."""

from __future__ import annotations

import json

from acceptance.pipeline import Pipeline, check, csv, numbered
from acceptance.scenario import scenario

SLOW = {"max_batch_age_seconds": 0.2, "max_batch_mb": 0.001}
"""One load for each batch, so that there is a middle."""


@scenario()
def again_without_state(p: Pipeline) -> None:
    """A run without STATE sends the same batches, and the target leaves them out."""
    p.put("a.csv", numbered(0, 3))
    p.run()
    p.put("b.csv", numbered(3, 5))
    p.run(state=False)
    p.run(state=False)
    p.expect(numbered(0, 5))


@scenario()
def again_with_state(p: Pipeline) -> None:
    """A run with STATE after which nothing is new loads nothing."""
    p.put("a.csv", numbered(0, 3))
    p.run()
    before = json.dumps(p.state)
    p.run()
    check(json.dumps(p.state) == before, "The STATE has changed")
    p.expect(numbered(0, 3))


@scenario()
def again_on_purpose(p: Pipeline) -> None:
    """With replay: load the same batches are loaded again."""
    p.put("a.csv", numbered(0, 2))
    p.run()
    p.run(state=False, target={"replay": "load"})
    p.expect(numbered(0, 2) * 2)


@scenario()
def table_that_was_dropped(p: Pipeline) -> None:
    """After its table was dropped, a run without STATE loads all rows again."""
    p.put("a.csv", numbered(0, 3))
    p.run()
    p.warehouse.query(f"DROP TABLE {p.warehouse.quoted(p.stream)}")
    p.run(state=False)
    p.expect(numbered(0, 3))


def _killed(p: Pipeline, side: str) -> None:
    for i in range(40):
        p.put(f"{i:02}.csv", csv(numbered(30 * i, 30 * i + 30)))
    batches = p.tap()["batch_config"] | {"target_file_mb": 0.0001}
    running = p.start({"batch_config": batches}, SLOW)
    running.kill(side)
    running.wait()
    p.notes["rows at the kill"] = p.rows("COUNT(*)")[0][0]
    p.run({"batch_config": batches}, SLOW)
    p.expect(numbered(0, 1200))
    p.run({"batch_config": batches}, SLOW, state=False)
    p.expect(numbered(0, 1200))


@scenario()
def target_killed(p: Pipeline) -> None:
    """After kill -9 of the target in the middle, the next runs have every row once."""
    _killed(p, "target")


@scenario()
def tap_killed(p: Pipeline) -> None:
    """After kill -9 of the tap in the middle, the next runs have every row once."""
    _killed(p, "tap")


@scenario()
def singer_arrow_run(p: Pipeline) -> None:
    """`singer-arrow run` loads what is new, from the STATE that it keeps itself."""
    p.put("a.csv", numbered(0, 3))
    tap, target = (
        {"name": name, "config": config} for name, config in (("tap-s3-files", p.tap()), (p.warehouse.program, {}))
    )
    (p.folder / "pipeline.yml").write_text(
        json.dumps({"tap": tap, "target": target, "state": f"{p.url('state.json')}"})
    )
    p.program("singer-arrow", "run", "pipeline.yml")
    p.put("b.csv", numbered(3, 5))
    p.program("singer-arrow", "run", "pipeline.yml")
    p.expect(numbered(0, 5))
