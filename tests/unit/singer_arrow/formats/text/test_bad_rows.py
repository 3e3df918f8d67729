"""Bad rows of CSV, lines and fixed width: skipped, rescued, or an error."""

from __future__ import annotations

import json
import logging
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.casting.from_text import BadValueError, from_text
from singer_arrow.enforcement.bad_rows import fit_text
from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import RESCUED, FixedColumn, ReadOptions, ReadProgress

XY = pa.schema([("x", pa.string()), ("y", pa.int64()), (RESCUED, pa.string())])
Row = tuple[Any, Any, Any]


def read(
    objects: Any, data: bytes, name: str = "a.csv", schema: pa.Schema = XY, **how: Any
) -> tuple[list[Row], ReadProgress]:
    progress, options = ReadProgress(), ReadOptions(**how)
    batches = list(FORMATS[name.split(".")[1]].read(objects.reader(data, name), schema, options, progress))
    for batch in batches:
        batch.validate(full=True)
    rows = [tuple(row.values()) for row in pa.Table.from_batches(batches, schema).to_pylist()]
    return [(*row[:-1], row[-1] and json.loads(row[-1])) for row in rows], progress  # type: ignore[misc]


kinds: Any = st.sampled_from(
    [
        (b"a,1", ("a", 1), None),
        (b'"a\nb",2', ("a\nb", 2), None),
        (b'"",', ("", None), None),
        (b"a,z", ("a", None), {"y": "z"}),
        (b'a,"1\n2"', ("a", None), {"y": "1\n2"}),
        (b"a", None, ("a", "row has 1 field, header has 2")),
        (b'1,"2\n",3', None, ('1,"2\n",3', "row has 3 fields, header has 2")),
        (b"\xc3\xa9\xff,2", None, ("é\\xff,2", "invalid UTF-8 (byte 0xff)")),
        (b"\xff,2,\xff", None, ("\\xff,2,\\xff", "row has 3 fields, header has 2")),
        (b"", (), None),
        (b"# x,\xff", (), None),
    ]
)


@given(
    rows=st.lists(kinds, max_size=25),
    block=st.integers(1, 60),
    end=st.sampled_from([b"\n", b"\r\n"]),
    mode=st.sampled_from([("skip", "ignore"), ("rescue", "ignore"), ("skip", "rescue"), ("fail", "rescue")]),
)
def test_each_row_counts_for_itself(objects: Any, rows: Any, block: int, end: bytes, mode: tuple[str, str]) -> None:
    on_bad_row, on_drift = mode
    data = b"x,y" + end + b"".join(raw.replace(b"\n", end) + end for raw, *_ in rows)
    due, skipped, rescued = list[Row](), 0, 0
    for _, good, bad in rows:
        if good == ():
            continue
        fits, parsed = bad is None, good is not None
        if fits:
            due.append((*good, None))
        elif parsed and "rescue" in mode:
            due.append((*good, bad))
            rescued += 1
        elif not parsed and on_bad_row == "rescue":
            due.append((None, None, {"_raw": bad[0], "_error": bad[1]}))
            rescued += 1
        else:
            skipped += 1
    how: Any = {"on_bad_row": on_bad_row, "on_drift": on_drift, "block_bytes": block, "comment": "#", "delimiter": ","}
    if on_bad_row == "fail" and skipped:
        with pytest.raises(DataError, match=r"line \d+: (row has|invalid UTF-8)"):
            read(objects, data, **how)
        return
    found, progress = read(objects, data, **how)
    assert repr(found).replace("\\r\\n", "\\n") == repr(due)
    assert (progress.skipped, progress.rescued) == (skipped, rescued)


@pytest.mark.parametrize("block", [1, 30, 4 << 20])
def test_a_quote_that_is_never_closed_costs_its_line(objects: Any, block: int) -> None:
    data = b'x,y\na,1\n"b\n","2\nc,3\nd,""\n"",\nlast,5'
    found, progress = read(objects, data, on_bad_row="rescue", block_bytes=block)
    error = {"_raw": '"b\n","2', "_error": "a quote is opened in this row and never closed"}
    assert found == [
        ("a", 1, None),
        (None, None, error),
        ("c", 3, None),
        ("d", None, None),
        ("", None, None),
        ("last", 5, None),
    ]
    assert progress.rescued == 1
    assert read(objects, data, on_bad_row="skip", block_bytes=block)[0] == [r for r in found if r[2] is None]
    escaped = b"x,y\na,1\nb,2\\"
    how: Any = {"on_bad_row": "rescue", "block_bytes": block, "escape": "\\"}
    assert read(objects, escaped, **how)[0][-1][2]["_raw"] == "b,2\\"


@pytest.mark.full
def test_what_is_too_long_is_an_error_unless_a_quote_makes_it_so(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        "singer_arrow.reading.chunks",
        "singer_arrow.formats.csv_read",
        "singer_arrow.formats.text",
    ):
        monkeypatch.setattr(f"{module}.MAX_RECORD_BYTES", 1000)
    data = b'x,y\na,1\n\n"b\n","2\n' + b"z,3\n" * 5000 + b'"q",4\n"r,5\n' + b"z,3\n" * 500
    with pytest.raises(DataError, match=r"line [34]: a row is longer than"):
        read(objects, data, block_bytes=10)
    for block in (10, 300):
        found, progress = read(objects, data, on_bad_row="skip", block_bytes=block)
        assert (len(found), progress.skipped) == (5502, 2)
    options, kind, progress = ReadOptions(on_bad_row="rescue", block_bytes=300), FORMATS["csv"], ReadProgress()
    steps = [(progress.resume_point, b) for b in kind.read(objects.reader(data, "a.csv"), XY, options, progress)]
    for i in (0, 1, 2, 10, len(steps) - 10):
        again = kind.read(objects.reader(data, "a.csv"), XY, options, ReadProgress(steps[i][0]))
        assert list(again) == [b for _, b in steps[i + 1 :]]
    with pytest.raises(DataError, match=r"line 2: a row is longer than"):
        read(objects, b"x,y\n" + b"z" * 5000, on_bad_row="skip", block_bytes=10)
    with pytest.raises(DataError, match=r"line 1: the line is longer than"):
        read(objects, b"z" * 5000, "a.lines", on_bad_row="skip", block_bytes=10)


def test_the_first_bad_rows_are_logged_with_their_line(objects: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = b"x,y\n" + b'"a\nb",z\n' * 5000
    with caplog.at_level(logging.WARNING):
        _, progress = read(objects, data, on_bad_row="skip", block_bytes=1000)
    assert progress.skipped == 5000
    assert len(caplog.messages) == 10
    assert "a.csv, line 20, column 'y': 'z' is not an integer; further ones" in caplog.messages[-1]


def test_columns_that_are_not_read_are_not_checked(objects: Any) -> None:
    """A row is bad only for a column that is read; a file's own column of the name is no loss."""
    data = b"x,y,z\na,1,\xff\nb,q,\xff\n\xff,2,\n"
    assert read(objects, data, on_bad_row="skip")[0] == [("a", 1, None)]
    own = f"x,{RESCUED}\na,mine\n".encode()
    assert read(objects, own, on_bad_row="rescue")[0] == [("a", None, {RESCUED: "mine"})]
    assert read(objects, own.replace(b"mine", b'"""mine"""'))[0] == [("a", None, "mine")]


def test_a_sample_leaves_bad_rows_out_if_the_reading_does(objects: Any) -> None:
    data = b"x,y\n1,2\n1,2,3\n\xff,2\n"
    with pytest.raises(DataError, match="line 3"):
        objects.infer(data, "a.csv")
    assert objects.infer(data, "a.csv", on_bad_row="skip").types == [pa.int64(), pa.int64()]
    fixed = (FixedColumn("x", 1, 2),)
    with pytest.raises(DataError, match="line 2: it is not UTF-8"):
        objects.infer(b"1\n\xff\n", "a.fixed_width", fixed_width=fixed)
    found = objects.infer(b"1\n\xff\n", "a.fixed_width", fixed_width=fixed, on_bad_row="rescue")
    assert found.types == [pa.int64()]


# ---- lines, fixed width


line_kinds: Any = st.sampled_from([b"1", b" 22 ", b"x", b"3\xff", b"", b"# \xff"])


@given(
    lines=st.lists(line_kinds, max_size=20),
    block=st.integers(1, 40),
    end=st.sampled_from([b"\n", b"\r\n"]),
    skip=st.integers(0, 3),
    on_bad_row=st.sampled_from(["skip", "rescue"]),
    name=st.sampled_from(["a.lines", "a.fixed_width"]),
)
def test_lines_count_for_themselves(
    objects: Any, lines: list[bytes], block: int, end: bytes, skip: int, on_bad_row: str, name: str
) -> None:
    fixed = name == "a.fixed_width"
    due = list[Any]()
    for line in lines[skip:]:
        if fixed and (not line or line.startswith(b"#")):
            continue
        try:
            value = int(line)
        except ValueError:
            if on_bad_row == "rescue":
                reason = {"_raw": line.decode(errors="backslashreplace"), "_error": "it is not UTF-8"}
                due.append((None, reason if b"\xff" in line else {"line": line.decode()}))
        else:
            due.append((value, None))
    data = b"first" * (not lines) + b"".join(line + end for line in lines)
    schema = pa.schema([("line", pa.int64()), (RESCUED, pa.string())])
    how: Any = {"on_bad_row": on_bad_row, "block_bytes": block, "skip_rows": skip}
    how |= {"fixed_width": (FixedColumn("line", 1, 5),), "comment": "#"} if fixed else {}
    if not lines:
        how["skip_rows"] = 1
    found, progress = read(objects, data, name, schema, **how)
    assert found == due
    assert progress.rescued == sum(r[1] is not None for r in due)
    options, kind, reader = ReadOptions(**how), FORMATS[name[2:]], objects.reader(data, name)
    steps = [
        (progress.resume_point, b)
        for progress in [ReadProgress()]
        for b in kind.read(reader, schema, options, progress)
    ]
    for i, (place, _) in enumerate(steps):
        assert place.rows == sum(b.num_rows for _, b in steps[: i + 1])
        assert list(kind.read(reader, schema, options, ReadProgress(place))) == [b for _, b in steps[i + 1 :]]


# ---- mismatches


texts = st.one_of(
    st.sampled_from(["", " 1 ", "+1", "1.0", "1e2", "-0", "007", "99999999999", "nan", "-inf", "true", "FALSE "]),
    st.sampled_from(["2024-02-30", "2024-01-01", "2024-01-01T10:00", "20240101", "12:00", "12:00:61", "YWI=", "YW I"]),
    st.from_regex(r"[-+]?[0-9]{0,12}\.?[0-9]{0,5}([eE][-+]?[0-9]{1,2})?", fullmatch=True),
    st.text(max_size=5),
)
types: Any = st.sampled_from(
    [
        *(pa.int8(), pa.int64(), pa.uint16(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.null()),
        *(pa.decimal128(6, 2), pa.decimal128(5, 5), pa.decimal128(3, -1), pa.decimal256(50, 10), pa.binary()),
        *(pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.time64("us"), pa.time32("s")),
    ]
)


@given(values=st.lists(st.one_of(st.none(), texts), max_size=20), t=types)
def test_every_value_that_does_not_fit_is_found(values: list[str | None], t: pa.DataType) -> None:
    column = pa.array(values, pa.string())
    due = []
    for i in range(len(column)):
        try:
            due.append(from_text(column.slice(i, 1), t)[0])
        except BadValueError:
            due.append(None)
    found, bad = fit_text(column, pa.field("a", t))
    assert found.type == t
    assert bad.to_pylist() == [i for i, v in enumerate(due) if v is None]
    assert found.equals(pa.array([None if v is None or not v.is_valid else v for v in due], t)) or "nan" in str(due)
