"""Files whose columns or rows do not match the schema: effects of on_drift and on_bad_row."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError, DriftError
from singer_arrow.storage.urls import Url
from tap_s3_files.tap import TapS3Files

ROWS = [{"id": 1, "n": 10}, {"id": 2, "n": 20}]
OTHER = [{"id": 3, "n": "x", "more": 1.5}, {"id": 4, "n": "y", "more": None}]
"""Rows of a file that is read first but not sampled: another type in one column, and one column more."""


class Ran:
    """The output of a run of the tap."""

    def __init__(self, messages: list[dict[str, Any]], counts: dict[str, int]) -> None:
        self.messages, self.counts = messages, counts

    @property
    def schemas(self) -> list[dict[str, str]]:
        """The columns of each SCHEMA, with their first type."""
        found = (m["schema"]["properties"] for m in self.messages if m["type"] == "SCHEMA")
        return [{n: p["type"][0] for n, p in columns.items()} for columns in found]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows that were sent, by RECORD or BATCH, without nulls."""
        rows = [m["record"] for m in self.messages if m["type"] == "RECORD"]
        for url in (u for m in self.messages if m["type"] == "BATCH" for u in m["manifest"]):
            rows += pq.read_table(Url.parse(url).local_path()).to_pylist()
        for row in rows:
            if isinstance(row.get("_sdc_rescued"), str):
                row["_sdc_rescued"] = json.loads(row["_sdc_rescued"])
        return [{k: v for k, v in r.items() if v is not None} for r in rows]


class Source:
    def __init__(self, folder: Path, kind: str, batches: bool) -> None:
        self.folder, self.kind, self.batches = folder, kind, batches
        (folder / "in").mkdir()
        self.count = self.runs = 0

    def add(self, rows: list[dict[str, Any]], text: str = "") -> None:
        """Write a file; later ones are read later."""
        self.count += 1
        path = self.folder / "in" / f"{self.count}.{self.kind}"
        columns = list(rows[0])
        if self.kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif self.kind == "jsonl":
            path.write_text("".join(json.dumps(r) + "\n" for r in rows) + text)
        else:
            cells = [",".join("" if r[c] is None else str(r[c]) for c in columns) + "\n" for r in rows]
            path.write_text(",".join(columns) + "\n" + "".join(cells) + text)
        os.utime(path, (1_700_000_000 + self.count,) * 2)

    def tap(self, *, metadata: bool = False, catalog: dict[str, Any] | None = None, **stream: Any) -> TapS3Files:
        self.runs += 1  # each with batch files and plans of its own
        root = f"file://{self.folder}/out-{self.runs}"
        out = {"encoding": {"format": "parquet"}, "storage": {"root": root}}
        config = {
            "streams": [{"name": "rows", "path": str(self.folder / "in" / "*"), **stream}],
            "metadata_columns": metadata,
            "schema_sample_files": 1,
            **({"batch_config": out} if self.batches else {}),
        }
        return TapS3Files(config=config, catalog=catalog)

    def run(self, **given: Any) -> Ran:
        """Run the tap; the options are those of `tap`."""
        text = io.StringIO()
        with redirect_stdout(text):
            tap = self.tap(**given)
            tap.sync_all()
        counts = tap.streams["rows"].totals()  # type: ignore[attr-defined]
        return Ran([json.loads(line) for line in text.getvalue().splitlines()], counts)


@pytest.fixture(params=["csv", "jsonl", "parquet"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source(tmp_path: Path, kind: str) -> Source:
    made = Source(tmp_path, kind, batches=True)
    made.add(OTHER)
    made.add(ROWS)
    return made


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: r["id"])


@pytest.mark.parametrize("batches", [True, False])
def test_evolve_sends_a_wider_schema_before_the_rows_that_need_it(source: Source, batches: bool) -> None:
    source.batches = batches
    ran = source.run()
    assert ran.schemas[0] == {"id": "integer", "n": "integer"}
    assert ran.schemas[-1] == {"id": "integer", "n": "string", "more": "number"}
    sent = [m["type"] for m in ran.messages]
    assert "SCHEMA" not in sent[min(i for i, kind in enumerate(sent) if kind in ("RECORD", "BATCH")) :]
    assert by_id(ran.rows) == [
        {"id": 1, "n": "10"},
        {"id": 2, "n": "20"},
        {"id": 3, "n": "x", "more": 1.5},
        {"id": 4, "n": "y"},
    ]
    assert (ran.counts["rows_read"], ran.counts["rows_written"]) == (4, 4)


def test_fail_names_file_column_and_types(source: Source, kind: str) -> None:
    with pytest.raises(DriftError) as raised:
        source.run(on_drift="fail")
    text = str(raised.value)
    assert f"in/1.{kind}" in text
    assert "column 'more': the file has a new column: 'more' (double)" in text
    with pytest.raises(DriftError) as raised:
        source.run(on_drift="fail", columns=["id", "n"])
    assert "as string, the schema as int64" in str(raised.value)


def test_rescue_keeps_what_does_not_fit(source: Source) -> None:
    ran = source.run(on_drift="rescue")
    assert ran.schemas == [{"id": "integer", "n": "integer", "_sdc_rescued": "string"}]
    found = by_id(ran.rows)
    assert found[:2] == ROWS
    assert [r["id"] for r in found[2:]] == [3, 4]
    assert [r["_sdc_rescued"]["n"] for r in found[2:]] == ["x", "y"]
    assert float(found[2]["_sdc_rescued"]["more"]) == 1.5
    assert "more" not in found[3]["_sdc_rescued"]
    assert (ran.counts["rows_written"], ran.counts["rows_rescued"]) == (4, 2)


def test_a_type_of_the_settings_does_not_change(source: Source) -> None:
    given: dict[str, Any] = {"schema": {"n": "integer"}, "columns": ["id", "n"]}
    where = {"csv": "line 2", "jsonl": "line 1", "parquet": "row group 0, row 1"}[source.kind]
    for drift in ("evolve", "fail"):
        with pytest.raises(DataError, match=rf"in/1\.{source.kind}, {where}, column 'n': .*'x'.*") as raised:
            source.run(**given, on_drift=drift)
        assert not isinstance(raised.value, DriftError)
    skipped = source.run(**given, on_bad_row="skip")
    assert by_id(skipped.rows) == ROWS
    assert (skipped.counts["rows_written"], skipped.counts["rows_skipped"]) == (2, 2)
    rescued = by_id(source.run(**given, on_bad_row="rescue").rows)
    assert rescued[2:] == [{"id": 3, "_sdc_rescued": {"n": "x"}}, {"id": 4, "_sdc_rescued": {"n": "y"}}]
    assert by_id(source.run(**given, on_drift="rescue").rows) == rescued


def test_types_of_the_settings_stay_beside_others_that_change(source: Source) -> None:
    ran = source.run(schema={"n": "integer"}, on_bad_row="rescue")
    assert ran.schemas[-1] == {"id": "integer", "n": "integer", "more": "number", "_sdc_rescued": "string"}
    assert by_id(ran.rows) == [
        *ROWS,
        {"id": 3, "more": 1.5, "_sdc_rescued": {"n": "x"}},
        {"id": 4, "_sdc_rescued": {"n": "y"}},
    ]


def test_columns_that_are_not_selected_are_no_drift(source: Source) -> None:
    assert [set(s) for s in source.run(columns=["id"]).schemas] == [{"id"}]


BAD = {
    "csv": ("5,6,7\n8,9\n", "5,6,7", "row has 3 fields, header has 2"),
    "jsonl": ('{"id": 5\n{"id":8,"n":9}\n', '{"id": 5', "not JSON"),
}


@pytest.fixture(params=BAD)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Source, str, str]:
    """Write a file with an unreadable row; return the row, and the reason."""
    text, raw, reason = BAD[request.param]
    made = Source(tmp_path, request.param, batches=True)
    made.add(ROWS, text)
    return made, raw, reason


def test_a_bad_row_ends_the_run(broken: tuple[Source, str, str]) -> None:
    source, _, reason = broken
    line = 4 if source.kind == "csv" else 3
    with pytest.raises(DataError, match=rf"in/1\.{source.kind}, line {line}.*{reason}"):
        source.run()


def test_a_bad_row_is_skipped_and_counted(broken: tuple[Source, str, str], caplog: pytest.LogCaptureFixture) -> None:
    source, _, reason = broken
    with caplog.at_level("INFO"):
        ran = source.run(on_bad_row="skip")
    assert by_id(ran.rows) == [*ROWS, {"id": 8, "n": 9}]
    assert {n: ran.counts[n] for n in ("rows_read", "rows_written", "rows_skipped", "rows_rescued")} == {
        "rows_read": 4,
        "rows_written": 3,
        "rows_skipped": 1,
        "rows_rescued": 0,
    }
    (message,) = [r.message for r in caplog.records if "A row was skipped" in r.message]
    assert reason in message
    assert any(re.search("Read .*: 3 rows .* in 1 batch file, .*; 1 row skipped", r.message) for r in caplog.records)


def test_a_bad_row_is_rescued(broken: tuple[Source, str, str]) -> None:
    source, raw, reason = broken
    ran = source.run(on_bad_row="rescue")
    (rescued,) = [r for r in ran.rows if "_sdc_rescued" in r]
    assert list(rescued) == ["_sdc_rescued"]
    assert rescued["_sdc_rescued"]["_raw"].strip() == raw
    assert reason in rescued["_sdc_rescued"]["_error"]
    assert (ran.counts["rows_written"], ran.counts["rows_rescued"]) == (4, 1)


def test_rescued_values_come_as_they_are_in_records(tmp_path: Path) -> None:
    source = Source(tmp_path, "jsonl", batches=False)
    source.add(OTHER)
    source.add(ROWS)
    rows = by_id(source.run(on_drift="rescue").rows)
    assert [r.get("_sdc_rescued") for r in rows] == [None, None, {"n": "x", "more": 1.5}, {"n": "y"}]


def test_columns_that_the_tap_makes_are_not_taken_from_files(tmp_path: Path) -> None:
    """For a file that is not sampled."""
    folder = tmp_path / "year=2024"
    folder.mkdir()
    source = Source(folder, "csv", batches=True)
    source.add([{"id": 1, "year": "x", "_sdc_source_lineno": "y"}])
    source.add([{"id": 2}])
    with pytest.raises(DriftError, match="new columns: 'year' .string., '_sdc_source_lineno'"):
        source.run(metadata=True)
    rows = source.run(partition_columns=True).rows
    assert by_id(rows) == [{"id": 1, "year": 2024, "_sdc_source_lineno": "y"}, {"id": 2, "year": 2024}]


SECRET = "not to be sent"


def _object(number: int, value: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "o": {"a": value, "secret": SECRET, "p": {"b": 1, "secret": SECRET, **more}, **more}}


def _catalog_without(source: Source, name: str, **stream: Any) -> dict[str, Any]:
    """Return a discovered catalog in which members of this name are deselected."""
    catalog = source.tap(**stream).catalog_dict
    for entry in catalog["streams"][0]["metadata"]:
        entry["metadata"]["selected"] = tuple(entry["breadcrumb"])[-1:] != (name,)
    return catalog


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("drift", ["evolve", "rescue"])
def test_members_that_are_not_selected_are_not_sent(tmp_path: Path, kind: str, batches: bool, drift: str) -> None:
    """For any other changes in the objects that contain them."""
    source = Source(tmp_path, kind, batches)
    source.add([_object(1, 1)])
    catalog = _catalog_without(source, "secret", on_drift=drift)
    source.add([_object(2, 2, e=True)])
    source.add([_object(3, "x")])
    source.add([{"id": 4, "o": "none"}, *([{"id": 5, "o": _object(5, 5)["o"]}] if kind == "jsonl" else [])])
    source.add([_object(6, 6)])
    ran = source.run(catalog=catalog, on_drift=drift)
    assert {row["id"] for row in ran.rows} == {1, 2, 3, 4, 6, *([5] if kind == "jsonl" else [])}
    first = next(row["o"] for row in ran.rows if row["id"] == 1)
    if drift == "rescue":
        assert first == {"a": 1, "p": {"b": 1}}
        rescued = [row["_sdc_rescued"]["o"] for row in by_id(ran.rows) if "_sdc_rescued" in row]
        assert [t.get("e") if isinstance(t, dict) else t for t in rescued] == [True, None, "none"]
    else:
        assert len(ran.schemas) > 1
    for sent in (ran, source.run(catalog=catalog, on_drift=drift, columns=["id", "o"])):
        assert len(sent.rows) == len(ran.rows)
        assert SECRET not in f"{sent.messages} {sent.rows}"
        assert "secret" not in str([m for m in sent.messages if m["type"] == "SCHEMA"])
