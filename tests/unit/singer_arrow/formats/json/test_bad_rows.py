"""Bad JSON rows compared with a row-by-row model, and readings resumed at any place."""

from __future__ import annotations

import gzip
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from json_parsers import json_parser  # noqa: F401 - used by each test of the module

from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats import FORMATS, json_lines
from singer_arrow.read_options import MAX_LOGGED, RESCUED, ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading import chunks as text_module
from singer_arrow.schema.arrow_schema import json_field

JSONL = FORMATS["jsonl"]
COLUMNS = pa.schema([
    ("a", pa.int64()), ("d", pa.date32()), ("t", pa.string()), json_field("j"), ("s", pa.struct([("x", pa.int64())])),
    ("l", pa.list_(pa.struct([("x", pa.float64())]))),
])  # fmt: skip
WITH_RESCUED = COLUMNS.append(pa.field(RESCUED, pa.string()))
KNOWN = frozenset([*COLUMNS.names, "left out"])


@dataclass(frozen=True)
class Line:
    """A line, and its expected result."""

    text: bytes
    row: dict[str, Any] | None = None  # None: it is no record
    mismatches: dict[str, Any] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)
    loose: dict[str, str] = field(
        default_factory=dict
    )  # the text of mismatches that are accepted as text with `loose_text`

    def as_text(self) -> Line:
        """Return the line as read with other kinds accepted as text."""
        mismatches = {name: value for name, value in self.mismatches.items() if name not in self.loose}
        return Line(self.text, None if self.row is None else {**self.row, **self.loose}, mismatches, self.unknown)


BAD = "bad"
CELLS: dict[str, list[tuple[str, Any, Any]]] = {  # JSON, value or BAD, new members
    "a": [("1", 1, None), ("2.0", 2, None), ("null", None, None), ('"x"', BAD, None), ("1.5", BAD, None),
          ("123456789012345678901", BAD, None), ('{"k": [1]}', BAD, None)],
    "d": [('"2024-02-29"', date(2024, 2, 29), None), ('"2024-02-30"', BAD, None), ("true", BAD, None)],
    "t": [('"é\\n"', "é\n", None), ('""', "", None), ("5", BAD, None), ('{"k":  [1.50]}', BAD, None)],
    "j": [('{"k":  1.10}', '{"k":  1.10}', None), ('"t"', '"t"', None)],
    "s": [('{"x":1}', {"x": 1}, None),
          ('{"x":1,"new":2}', {"x": 1}, {"new": 2}), ('{"x":1,"new":null}', {"x": 1}, None),
          ('{"x":"q"}', BAD, None), ('{"x":"q","new":1}', BAD, {"new": 1}), ("[]", BAD, None)],
    "l": [('[{"x":1.5},null]', [{"x": 1.5}, None], None), ("[]", [], None),
          ('[{"x":1},{"y":{"z":[]}}]', [{"x": 1.0}, {"x": None}], [None, {"y": {"z": []}}]),
          ('[{"x":"q"}]', BAD, None)],
    "left out": [("1", None, None), ('[{"new":1}]', None, None)],
    "new": [("1", None, 1), ("null", None, None), ('{"k":[1.5]}', None, {"k": [1.5]})],
    "newer\\u00e9": [('"é"', None, "é")],
}  # fmt: skip
CLEAN = Line(b'{"a":7,"d":"2024-01-01","t":"x","j":[],"s":{"x":3},"l":[{"x":2.5}]}', {
    "a": 7, "d": date(2024, 1, 1), "t": "x", "j": "[]", "s": {"x": 3}, "l": [{"x": 2.5}],
})  # fmt: skip
NO_RECORDS = [
    b"{", b"null", b"5", b'{"a":1}{"a":2}', b'{"a":1,"a":2}', b'{"t":"\xff"}', b'{"new":"\xff"}', b'{"a":NaN}',
    b'{"new":1', b"]",
]  # fmt: skip


@st.composite
def records(draw: Any) -> Line:
    names = draw(st.lists(st.sampled_from(list(CELLS)), unique=True, max_size=5))
    parts, row, mismatches, unknown, loose = [], dict.fromkeys(COLUMNS.names), {}, {}, {}
    for name in names:
        text, value, new = draw(st.sampled_from(CELLS[name]))
        parts.append(f'"{name}": {text}')
        key = name.encode().decode("unicode-escape")
        if value is BAD:
            mismatches[key] = json.loads(text)
            loose |= {key: text} if key == "t" else {}
        elif key in row:
            row[key] = value
        if new is not None and key not in mismatches:
            unknown[key] = new
    return Line(("{" + ", ".join(parts) + "}").encode(), row, mismatches, unknown, loose)


lines = st.lists(
    st.just(CLEAN) | st.just(CLEAN) | records() | st.sampled_from(NO_RECORDS).map(Line), min_size=1, max_size=14
)


def _text(found: list[Line], end: bytes, blank: bytes) -> bytes:
    return b"".join(line.text + end + blank for line in found)


def _model(found: list[Line], options: ReadOptions) -> tuple[list[dict[str, Any]], int, int, int | None]:
    """Return the rows, the counts skipped and rescued, and the first line that ends the reading."""
    rows, skipped, rescued = [], 0, 0
    for number, line in enumerate(found):
        kept: dict[str, Any] = {}
        action = "keep"
        if line.row is None:
            action = options.on_bad_row
            kept = {"_raw": line.text.decode(errors="replace")}
        else:
            if line.mismatches:
                action = "rescue" if options.on_drift == "rescue" else options.on_bad_row
            if options.on_drift == "rescue":
                kept |= line.unknown
            kept |= line.mismatches
        if action == "fail":
            return rows, skipped, rescued, number
        if action == "skip":
            skipped += 1
            continue
        row = dict(line.row or dict.fromkeys(COLUMNS.names))
        if options.rescues:
            row[RESCUED] = kept or None
            rescued += bool(kept)
        rows.append(row)
    return rows, skipped, rescued, None


def _plain(batches: list[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        batch.validate(full=True)
        for row in batch.to_pylist():
            if row.get(RESCUED) is not None:
                row[RESCUED] = json.loads(row[RESCUED])
                assert bool(row[RESCUED].pop("_error", None)) == ("_raw" in row[RESCUED])
            yield row


def _read(
    reader: Any, schema: pa.Schema, options: ReadOptions, progress: ReadProgress
) -> tuple[list[Any], DataError | None]:
    """Return the batches with the places after them, and the error that ended the reading."""
    found = []
    try:
        for batch in JSONL.read(reader, schema, options, progress):
            assert batch.schema.equals(schema, check_metadata=True)
            assert batch.num_rows
            found.append((batch, progress.resume_point))
    except DataError as error:
        return found, error
    return found, None


@given(
    found=lines,
    bad=st.sampled_from(["fail", "skip", "rescue"]),
    drift=st.sampled_from(["ignore", "rescue"]),
    known=st.sampled_from([None, KNOWN]),
    block=st.sampled_from([1, 120, 400, 4 << 20]),
    often=st.sampled_from([0, 1, 64]),
    end=st.sampled_from([b"\n", b"\r\n", b"\n \t\n"]),
    packed=st.booleans(),
    loose=st.booleans(),
)
def test_rows_are_skipped_and_rescued_as_by_the_model(
    objects: Any,
    found: list[Line],
    bad: str,
    drift: str,
    known: Any,
    block: int,
    often: int,
    end: bytes,
    packed: bool,
    loose: bool,
) -> None:
    options = ReadOptions(on_bad_row=bad, on_drift=drift, known_columns=known, block_bytes=block, loose_text=loose)
    lines = [line.as_text() for line in found] if loose else found
    lines = [Line(line.text, line.row, line.mismatches) for line in lines] if known is None else lines
    rows, skipped, rescued, failed = _model(lines, options)
    schema = WITH_RESCUED if options.rescues else COLUMNS
    text = b"\n" + b"".join(line.text + end for line in found)  # a document that begins with [ is a list
    data = gzip.compress(text) if packed else text
    progress = ReadProgress()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "OFTEN", often)
        batches, error = _read(objects.reader(data, "a.jsonl"), schema, options, progress)
    got = list(_plain([batch for batch, _ in batches]))
    if failed is None:
        assert error is None
        assert got == rows
        assert (progress.skipped, progress.rescued) == (skipped, rescued)
    else:
        assert error is not None
        assert not isinstance(error, DriftError)
        assert error.line == 2 + failed * end.count(b"\n")
        assert got == rows[: len(got)]


def _as_list(found: list[Line]) -> bytes:
    return b"[" + b",\n".join(line.text for line in found) + b"]"


@given(
    found=lines,
    bad=st.sampled_from(["fail", "skip", "rescue"]),
    drift=st.sampled_from(["ignore", "raise", "rescue"]),
    block=st.sampled_from([1, 120, 400]),
    form=st.sampled_from(["lines", "list", "packed", "packed list", "mark", "wide"]),
    last=st.booleans(),
)
def test_a_reading_begins_at_any_place_of_another_one(
    objects: Any, found: list[Line], bad: str, drift: str, block: int, form: str, last: bool
) -> None:
    options = ReadOptions(on_bad_row=bad, on_drift=drift, known_columns=KNOWN, block_bytes=block)
    schema = WITH_RESCUED if options.rescues else COLUMNS
    if "list" in form:
        text = _as_list([line for line in found if _is_json(line.text)])
    else:
        text = (b" " if found[0].text[:1] == b"[" else b"") + b"\n".join([line.text for line in found] + [b""] * last)
    match form:
        case "packed" | "packed list":
            data = gzip.compress(text)
        case "mark":
            data = b"\xef\xbb\xbf" + text
        case "wide":
            data = text.decode(errors="replace").encode("utf-16")
        case _:
            data = text
    progress = ReadProgress()
    batches, error = _read(objects.reader(data, "a.jsonl"), schema, options, progress)
    for i, (_, place) in enumerate(batches):
        assert place is not None
        assert place.rows == sum(batch.num_rows for batch, _ in batches[: i + 1])
        resumed = ReadProgress(place)
        again, problem = _read(objects.reader(data, "a.jsonl"), schema, options, resumed)
        assert again == batches[i + 1 :]
        assert (str(problem), type(problem)) == (str(error), type(error))
        assert resumed.resume_point == progress.resume_point


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return b"NaN" not in text


def test_bytes_before_a_resume_point_are_not_fetched(objects: Any) -> None:
    text = b"".join(b'{"a":%d,"t":"%b"}\n' % (n, b"x" * 1000) for n in range(12_000))
    for mark in (b"", b"\xef\xbb\xbf"):
        reader = objects.reader(mark + text, "a.jsonl", listed=True)
        whole, _ = _read(reader, COLUMNS, ReadOptions(), ReadProgress())
        _, place = whole[-2]
        assert place is not None
        reader = objects.reader(mark + text, "a.jsonl", listed=True)
        rest, _ = _read(reader, COLUMNS, ReadOptions(), ReadProgress(place))
        assert rest == whole[-1:]
        assert all(end <= 1 << 20 or start >= place.at - 1 for start, end, _ in objects.storage.asked)
        assert sum(end - start for start, end, _ in objects.storage.asked) < len(text) - place.at + (1 << 20)


def test_a_reading_of_a_list_can_begin_at_a_resume_point(objects: Any) -> None:
    data = b'\n[ {"a":1},\n{"a":2}\n , {"a":3}, {"a":"x"} ]'
    options = ReadOptions(block_bytes=1)
    batches, error = _read(objects.reader(data, "a.jsonl"), COLUMNS, options, ReadProgress())
    assert [place for _, place in batches] == [ResumePoint(1, 10, 1), ResumePoint(2, 19, 2), ResumePoint(3, 30, 3)]
    assert error is not None
    assert error.line == 4


def test_only_the_first_bad_rows_are_logged(objects: Any, caplog: pytest.LogCaptureFixture) -> None:
    data = b'{"a":1}\n' * 500 + b'{"a":"x"}\n' * 300 + b"{\n" * 10
    progress = ReadProgress()
    with caplog.at_level(logging.WARNING):
        batches, _ = _read(objects.reader(data, "a.jsonl"), COLUMNS, ReadOptions(on_bad_row="skip"), progress)
    assert (sum(b.num_rows for b, _ in batches), progress.skipped) == (500, 310)
    assert len(caplog.messages) == MAX_LOGGED
    assert "line 501, column 'a': expected an integer, found text 'x'" in caplog.messages[0]
    assert "counted only" in caplog.messages[-1]


def test_a_line_that_is_too_long_is_a_bad_row(objects: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "MAX_RECORD_BYTES", 1 << 20)
    long = b'{"t":"' + b"x" * ((1 << 20) + 5000) + b'"}'
    for data in (
        b'{"a":1}\n' + long + b'\n{"a":2}\n{"a":3}\n',
        b'{"a":1}\n' + long + b"\n" + long + b'\n{"a":2}\n{"a":3}',
        b'{"a":1}\n{"a":2}\n{"a":3}\n' + long,
    ):
        for bad in ("skip", "rescue"):
            options = ReadOptions(on_bad_row=bad, block_bytes=8)
            schema = WITH_RESCUED if options.rescues else COLUMNS
            progress = ReadProgress()
            batches, error = _read(objects.reader(data, "a.jsonl"), schema, options, progress)
            assert error is None
            rows = [row for batch, _ in batches for row in batch.to_pylist()]
            assert [row["a"] for row in rows if row["a"]] == [1, 2, 3]
            assert progress.skipped + progress.rescued == data.count(long)
            for row in rows:
                if row.get(RESCUED):
                    kept = json.loads(row[RESCUED])
                    assert kept["_raw"] == long[: 1 << 20].decode()
                    assert "longer than 1 MiB" in kept["_error"]
            for i, (_, place) in enumerate(batches):
                assert (
                    _read(objects.reader(data, "a.jsonl"), schema, options, ReadProgress(place))[0] == batches[i + 1 :]
                )
        with pytest.raises(DataError, match="longer than 1 MiB; is each record on a line of its own"):
            objects.read(data, "a.jsonl", COLUMNS, block_bytes=8)


def test_types_are_inferred_from_the_good_rows_where_bad_ones_are_left_out(objects: Any) -> None:
    data = b'{"a":1}\n{"a":\n{"a":2.5}\n'
    assert objects.infer(data, "a.jsonl", on_bad_row="skip").types == [pa.float64()]
    with pytest.raises(DataError, match="line 2"):
        objects.infer(data, "a.jsonl")
