"""target-redshift and batch files or records with invalid values: an exact load, or a one-line error.

A valid batch comes before each bad one; afterwards its rows are loaded once, and none of the bad batch.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from program_errors import check_contains, error_of
from singer_lines import COLUMNS, Batches, Message, lines, record, rows, schema, state
from warehouses import Warehouse

from local_cloud.programs import Programs
from singer_arrow.errors import SingerArrowError, with_code

pytestmark = pytest.mark.parametrize("warehouse", ["redshift"], indirect=True)
PLACES = pytest.mark.parametrize("place", ["disk", "s3"])


class Files:
    """Writes BATCH messages of files with any content."""

    def __init__(self, folder: Path, s3: Any, bucket: str) -> None:
        self._folder, self._s3, self._bucket, self._count = folder, s3, bucket, 0

    def _message(self, path: Path, place: str, file_format: str, count: int) -> Message:
        url = path.as_uri()
        if place == "s3":
            self._s3.upload_file(str(path), self._bucket, f"b/{path.name}")
            url = f"s3://{self._bucket}/b/{path.name}"
        ours = {"batch_id": f"{self._bucket}-{path.name}", "row_count": count, "byte_count": path.stat().st_size}
        encoding = {"format": file_format} | ({"compression": "gzip"} if file_format == "jsonl" else {})
        return {"type": "BATCH", "stream": "rows", "encoding": encoding, "manifest": [url], **ours}

    def parquet(self, table: pa.Table, place: str = "s3") -> Message:
        """Return the BATCH message of a Parquet file."""
        self._count += 1
        path = self._folder / f"bad-{self._count}.parquet"
        pq.write_table(table, path)
        return self._message(path, place, "parquet", len(table))

    def jsonl(self, content: list[dict[str, Any] | bytes], place: str = "s3") -> Message:
        """Return the BATCH message of a gzip file of JSON Lines; a line may be given as text."""
        self._count += 1
        path = self._folder / f"bad-{self._count}.jsonl.gz"
        texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in content]
        path.write_bytes(gzip.compress(b"".join(text + b"\n" for text in texts)))
        return self._message(path, place, "jsonl", len(content))


@pytest.fixture
def files(tmp_path: Path, s3: Any, bucket: str) -> Files:
    return Files(tmp_path, s3, bucket)


@pytest.fixture
def refused(
    warehouse: Warehouse, batch: Batches, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[..., str]:
    """Loads a valid batch, then it and a bad one, and returns the error line."""
    count = iter(range(1000))

    def line(*bad: Message, columns: pa.Schema = COLUMNS, **settings: Any) -> str:
        good = [schema(columns=columns), batch(rows(0, 2), columns=columns, batch_id=f"good-{next(count)}"), state(1)]
        warehouse.load(good)
        before = warehouse.table()
        capsys.readouterr()
        with pytest.raises(SingerArrowError) as caught:
            warehouse.load([*good, *bad, state(2)], **settings)
        assert {"n": 2} not in [json.loads(text) for text in capsys.readouterr().out.splitlines()]
        assert warehouse.table() == before
        assert "\n" not in str(caught.value)
        assert warehouse.config["password"] not in f"{caught.value} {caplog.text}"
        return with_code(str(caught.value), caught.value.code)

    return line


def url_of(message: Message) -> str:
    return str(message["manifest"][0])


# Columns of a file that differ from the SCHEMA


@PLACES
def test_files_whose_columns_differ_are_loaded_by_name(place: str, files: Files, warehouse: Warehouse) -> None:
    content = rows(0, 8)
    other_order = pa.table({"name": [r["name"] for r in content[:2]], "id": [0, 1]})
    missing = pa.table({"id": [2, 3]})
    extra = pa.table({"extra": ["x", "y"], "id": [4, 5], "name": ["name 4", "name 5"], "more": [1, 2]})
    messages = [files.parquet(table, place) for table in (other_order, missing, extra)]
    wide = [{"name": "name 6", "extra": 1, "id": 6}, {"id": 7, "name": "name 7"}]
    messages.append(files.jsonl(wide, place))
    warehouse.load([schema(), *messages, state(1)])
    assert warehouse.table() == [r | {"name": None} if r["id"] in (2, 3) else r for r in content]


@PLACES
def test_a_file_with_another_type_that_fits(place: str, files: Files, warehouse: Warehouse) -> None:
    small = pa.table({"id": pa.array([0, 1], pa.int32()), "name": ["name 0", "name 1"]})
    unsigned = pa.table({"id": pa.array([2, 3], pa.uint32()), "name": ["name 2", "name 3"]})
    dictionary = pa.table({"id": [4, 5], "name": pa.array(["name 4", "name 5"]).dictionary_encode()})
    warehouse.load([schema(), *(files.parquet(t, place) for t in (small, unsigned, dictionary)), state(1)])
    assert warehouse.table() == rows(0, 6)


@PLACES
def test_a_file_with_another_type(place: str, files: Files, refused: Callable[..., str]) -> None:
    for table, words in [
        (pa.table({"id": ["7", "x"], "name": ["a", "b"]}), ["column 'id'", "'x'"]),
        (pa.table({"id": pa.array([2**64 - 1], pa.uint64()), "name": ["a"]}), ["column 'id'", "18446744073709551615"]),
        (pa.table({"id": [1.5], "name": ["a"]}), ["column 'id'", "1.5"]),
    ]:
        message = files.parquet(table, place)
        line = refused(message)
        assert line.startswith(url_of(message))
        check_contains(line, *words)


@PLACES
def test_a_file_that_is_none(place: str, files: Files, refused: Callable[..., str], s3: Any, bucket: str) -> None:
    message = files.jsonl([b"PAR1 but no Parquet"], place) | {"encoding": {"format": "parquet"}}
    line = refused(message)
    assert line.startswith(url_of(message))
    assert "Parquet" in line or "footer" in line


@PLACES
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([{"id": 5, "name": "fine"}, {"id": None, "name": "no key"}], ["row 2", "column 'id'", "null"]),
        ([{"id": 5, "name": "fine"}, {"name": "no key"}], ["row 2", "column 'id'", "null or missing"]),
        ([{"number": 5, "text": "another shape"}], ["none of the properties of its SCHEMA", "'number'"]),
    ],
)
def test_json_lines_without_what_the_schema_requires(
    place: str, content: list[dict[str, Any] | bytes], words: list[str], files: Files, refused: Callable[..., str]
) -> None:
    message, required = files.jsonl(content, place), schema()
    required["schema"] = required["schema"] | {"required": ["id"]}
    check_contains(refused(required, message), url_of(message), *words)


@PLACES
def test_json_lines_of_another_shape(place: str, files: Files, refused: Callable[..., str]) -> None:
    message = files.jsonl([{"number": 5}, {"number": 6}], place)
    check_contains(refused(message), url_of(message), "none of the properties of its SCHEMA")


# Text


def binary_text(values: list[bytes]) -> pa.Array:
    """Return a text column with invalid UTF-8, which pyarrow does not check."""
    return pa.array(values, pa.binary()).view(pa.string())


@PLACES
def test_parquet_text_that_is_no_utf8(place: str, files: Files, refused: Callable[..., str]) -> None:
    table = pa.table({"id": [5, 6, 7], "name": binary_text([b"fine", b"fine", b"bad \xff\xfe text"])})
    message = files.parquet(table, place)
    check_contains(refused(message), url_of(message), "'name'", "row 3", "UTF-8")


@PLACES
def test_json_lines_that_are_no_text(place: str, files: Files, refused: Callable[..., str]) -> None:
    message = files.jsonl([{"id": 5, "name": "fine"}, b'{"id": 7, "name": "bad \xff\xfe"}'], place)
    check_contains(refused(message), url_of(message), "line 2", "ff", "UTF")


NUL = [{"id": 5, "name": "fine"}, {"id": 6, "name": "nul \0 inside\0"}]


def nul_in(kind: str, files: Files) -> list[Message]:
    file_format, _, place = kind.partition("-")
    if file_format == "record":
        return [record(**r) for r in NUL]
    return [
        files.jsonl(list(NUL), place) if file_format == "jsonl" else files.parquet(pa.Table.from_pylist(NUL), place)
    ]


@pytest.mark.parametrize("method", ["append-only", "upsert"])
@pytest.mark.parametrize("kind", ["parquet-s3", "parquet-disk", "jsonl-s3", "jsonl-disk", "record"])
def test_text_with_nul(
    kind: str,
    method: str,
    files: Files,
    refused: Callable[..., str],
    warehouse: Warehouse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = nul_in(kind, files)
    line = refused(*bad, nul_text="fail", load_method=method)
    check_contains(line, "'name'", "NUL", "nul_text", *([] if kind == "record" else [url_of(bad[0]), "2", "[nul]"]))
    assert "such characters are" not in caplog.text
    target = warehouse.load([schema(), *bad, schema("other"), state(3)], load_method=method)
    warnings = [r.getMessage() for r in caplog.records if "such characters are" in r.getMessage()]
    assert len(warnings) == 1
    check_contains(
        warnings[0],
        "2, column 'name' holds a NUL character",
        "replaced by \u2400, set nul_text to choose otherwise",
    )
    assert target.run.tallies.of("rows").counts()["nul_characters"] == 2
    removed = [m | {"batch_id": "again"} if m["type"] == "BATCH" else m for m in bad]
    warehouse.load([schema(), *removed, state(4)], load_method=method, nul_text="remove")
    texts = ["nul \u2400 inside\u2400", "nul  inside"][method == "upsert" :]
    assert [r["name"] for r in warehouse.table(order="id, name DESC") if r["id"] == 6] == texts


@pytest.mark.parametrize("kind", ["parquet-s3", "jsonl-s3", "jsonl-disk", "record"])
def test_nul_in_nested_values(kind: str, files: Files, warehouse: Warehouse) -> None:
    columns = pa.schema([("id", pa.int64()), ("l", pa.list_(pa.string()))])
    content = [{"id": 1, "l": ["a\0b", "\\u0000", None]}, {"id": 2, "l": None}]
    file_format, _, place = kind.partition("-")
    if file_format == "record":
        messages = [record(**r) for r in content]
    elif file_format == "jsonl":
        messages = [files.jsonl(list(content), place)]
    else:
        messages = [files.parquet(pa.Table.from_pylist(content, columns), place)]
    warehouse.load([schema(columns=columns), *messages, state(1)])
    assert warehouse.table() == [{"id": 1, "l": ["a\u2400b", "\\u0000", None]}, {"id": 2, "l": None}]


def test_input_that_is_no_text(run: Programs, warehouse: Warehouse) -> None:
    bad = b'{"type": "RECORD", "stream": "rows", "record": {"id": 7, "name": "\xff"}}\n'
    ran = run("target-redshift", stdin=lines([schema()]).encode() + bad, config=["ENV", {}])
    assert "Line 2 of the input, a RECORD of stream 'rows': invalid UTF-8" in error_of(ran)


LONG = "é" * 32_768  # 65,536 bytes in 32,768 characters


def long_text(kind: str, text: str, files: Files) -> Message:
    if kind == "record":
        return record(id=7, name=text)
    file_format, _, place = kind.partition("-")
    content: list[Any] = [{"id": 5, "name": "fine"}, {"id": 7, "name": text}]
    if file_format == "jsonl":
        return files.jsonl(content, place)
    return files.parquet(pa.Table.from_pylist(content, COLUMNS), place)


KINDS = ["parquet-s3", "parquet-disk", "jsonl-s3", "jsonl-disk", "record"]


@pytest.mark.parametrize("kind", KINDS)
def test_text_that_is_too_long_for_redshift(kind: str, files: Files, refused: Callable[..., str]) -> None:
    message = long_text(kind, LONG, files)
    line = refused(message)
    check_contains(line, "'name'", "65,536 bytes", "65,535")
    if kind != "record":
        check_contains(line, url_of(message))
        assert "row 2" in line or "line 2" in line


@pytest.mark.parametrize(
    ("kind", "load_format"),
    [
        *(("parquet-s3", "auto"), ("parquet-disk", "parquet"), ("jsonl-s3", "auto"), ("jsonl-disk", "jsonl")),
        *(("record", "csv"), ("jsonl-s3", "csv"), ("jsonl-disk", "parquet"), ("record", "jsonl")),
    ],
)
def test_text_that_just_fits(kind: str, load_format: str, files: Files, warehouse: Warehouse, batch: Batches) -> None:
    text = LONG[:-1] + "x"
    assert len(text.encode()) == 65_535
    warehouse.load([schema(), batch(rows(0, 1), batch_id="a")])
    assert warehouse.columns("rows")["name"] == "varchar(256)"
    warehouse.load([schema(), long_text(kind, text, files), state(1)], load_format=load_format)
    assert warehouse.columns("rows")["name"] == "varchar(65535)"
    assert [r["name"] for r in warehouse.table() if r["id"] == 7] == [text]


@pytest.mark.parametrize("kind", ["parquet-s3", "record"])
def test_text_longer_than_varchar_max(kind: str, files: Files, refused: Callable[..., str]) -> None:
    line = refused(long_text(kind, "x" * 2000, files), varchar_max=1000)
    check_contains(line, "'name'", "2,000 bytes", "varchar_max")


# Numbers


MONEY = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(6, 2))])


def test_numbers_that_do_not_fit(files: Files, refused: Callable[..., str]) -> None:
    for kind, bad in [
        ("jsonl", files.jsonl([{"id": 1, "price": 1}, {"id": 2, "price": 12345.25}])),
        ("jsonl", files.jsonl([{"id": 1, "price": 1}, {"id": 2, "price": 1.125}], "disk")),
        (
            "parquet",
            files.parquet(pa.table({"id": [1], "price": pa.array([Decimal("12345.25")], pa.decimal128(9, 2))})),
        ),
        ("record", record(id=1, price=12345.25)),
    ]:
        line = refused(bad, columns=MONEY)
        assert "'price'" in line
        assert "12345.25" in line or "1.125" in line
        if kind != "record":
            assert line.startswith(url_of(bad))


@PLACES
def test_an_integer_that_does_not_fit(place: str, files: Files, refused: Callable[..., str]) -> None:
    message = files.jsonl([{"id": 1}, {"id": 2**63}], place)
    line = refused(message)
    check_contains(line, url_of(message), "'id'", "line 2", str(2**63))
    line = refused(record(id=2**63))
    check_contains(line, "'id'", str(2**63))
