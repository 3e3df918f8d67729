"""Load methods and their settings."""

from __future__ import annotations

from typing import Any

from acceptance.pipeline import Pipeline, check, numbered
from acceptance.scenario import scenario

WHOLE: dict[str, Any] = {"load_method": "overwrite", "replication_method": "FULL_TABLE"}


@scenario()
def append_only(p: Pipeline) -> None:
    """Append-only adds the rows of new objects to those that are there."""
    p.put("a.csv", [(1, "one"), (2, "two")])
    p.run()
    p.put("b.csv", [(2, "two again"), (3, "three")])
    p.run()
    p.expect([(1, "one"), (2, "two"), (2, "two again"), (3, "three")])


@scenario()
def upsert(p: Pipeline) -> None:
    """Upsert replaces the rows of keys that come again, and adds the others."""
    p.put("a.csv", [(1, "one"), (2, "two")])
    p.run(load_method="upsert")
    p.put("b.csv", [(2, "two new"), (3, "three")])
    p.run(load_method="upsert")
    p.expect([(1, "one"), (2, "two new"), (3, "three")])
    p.run(load_method="upsert", state=False)
    p.expect([(1, "one"), (2, "two new"), (3, "three")])


@scenario()
def overwrite(p: Pipeline) -> None:
    """Overwrite replaces the table by what the objects hold now."""
    p.put("a.csv", numbered(0, 3))
    p.run(**WHOLE)
    p.put("a.csv", numbered(2, 5, "new"))
    p.run(**WHOLE)
    p.expect(numbered(2, 5, "new"))


@scenario()
def overwrite_under_readers(p: Pipeline) -> None:
    """A reader sees the old rows or the new ones during an overwrite, never a mix or an empty table."""
    p.put("a.csv", numbered(0, 2000))
    p.run(**WHOLE)
    p.put("a.csv", numbered(0, 3000, "new"))
    running = p.start(**WHOLE)
    seen = set(p.poll(lambda: p.rows("COUNT(*), MIN(name)")[0], running))
    running.wait()
    p.notes["readers saw"] = sorted(map(str, seen))
    check(seen <= {(2000, "row 0"), (3000, "new 0")}, f"Readers saw {sorted(map(str, seen))}")
    check(p.rows("COUNT(*)") == [(3000,)], "The new rows are not there")


@scenario()
def hard_delete(p: Pipeline) -> None:
    """Upsert with hard_delete removes the row of a key that comes with a time in _sdc_deleted_at."""
    header = "id,name,_sdc_deleted_at\n"
    p.put("a.csv", header + "1,one,\n2,two,\n")
    settings = {"hard_delete": True}
    types = {"_sdc_deleted_at": "timestamp"}
    p.run(target=settings, load_method="upsert", schema=types)
    p.put("b.csv", header + "2,two,2026-01-01T00:00:00Z\n3,three,\n")
    p.run(target=settings, load_method="upsert", schema=types)
    p.expect([(1, "one"), (3, "three")])
