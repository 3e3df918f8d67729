"""Columns that come, widen and drift."""

from __future__ import annotations

from acceptance.pipeline import Pipeline, check
from acceptance.scenario import scenario


@scenario()
def new_column(p: Pipeline) -> None:
    """A column that files have later is added to the table; older rows have null."""
    p.put("a.csv", "id,name\n1,one\n")
    p.run()
    p.put("b.csv", "id,name,extra\n2,two,x\n")
    p.run()
    p.expect([(1, "one", None), (2, "two", "x")], "id, name, extra")


@scenario()
def wider_column(p: Pipeline) -> None:
    """A text column takes longer texts, and a column of decimals more digits."""
    p.put("a.csv", "id,name\n1,short\n")
    p.run()
    p.put("b.csv", f"id,name\n2,{'x' * 40_000}\n")
    p.run()
    p.expect([(1, 5), (2, 40_000)], "id, LENGTH(name)")


@scenario()
def other_type(p: Pipeline) -> None:
    """Values of another type get a column beside the first, whose values stay."""
    p.put("a.csv", "id,n\n1,10\n")
    p.run()
    p.put("b.csv", "id,n\n2,text\n")
    p.run(state=False, schema={"n": "string"})
    names = sorted(name for name in p.columns() if name == "n" or name.startswith("n__"))
    p.notes["columns"] = names
    check(len(names) == 2, f"The table has the columns {names}")
    check((1, 10) in p.rows("id, n"), "The first column has lost its value")


@scenario()
def other_type_fails(p: Pipeline) -> None:
    """With on_drift: fail such a run ends before anything is loaded."""
    p.put("a.csv", "id,n\n1,10\n")
    p.run()
    p.put("b.csv", "id,n\n2,text\n")
    p.run(state=False, target={"on_drift": "fail"}, schema={"n": "string"}, fails=r"\bn\b")
    p.expect([(1, 10)], "id, n")
