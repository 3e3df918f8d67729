"""Batch files become the one file of a load job, and no temporary file is left behind."""

from __future__ import annotations

import gzip
import json
import multiprocessing
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.batch.files import read_file
from singer_arrow.errors import DataError, LoadError, NotFoundError
from singer_arrow.storage.store import Storage
from target_bigquery import uploads as load_files
from target_bigquery.columns import columns_of
from target_bigquery.conversion import Conversion
from target_bigquery.uploads import Files, Item, PreparedItem, Processes, upload_format

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
NESTED = pa.schema([pa.field("id", pa.int64()), pa.field("l", pa.list_(pa.int64()))])


@pytest.fixture
def files(temporary: Path) -> Iterator[Files]:
    numbers = iter(range(1000))
    processes = Processes(1)
    yield Files(Storage(), lambda suffix: temporary / f"{next(numbers)}{suffix}", processes)
    processes.close()


def item(*paths: Path, schema: pa.Schema = SCHEMA, **options: Any) -> Item:
    conversion = Conversion(columns_of(schema), schema, **options)
    file_format = "parquet" if paths[0].suffix == ".parquet" else "jsonl"
    return Item(tuple(p.as_uri() for p in paths), file_format, conversion)


def parquet(path: Path, first: int, rows: int, **more: Any) -> Path:
    numbers = list(range(first, first + rows))
    pq.write_table(pa.table({"id": numbers, "name": [f"n{n}" for n in numbers], **more}), path)
    return path


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    return path


def records(path: Path, schema: pa.Schema = SCHEMA) -> list[Any]:
    return pa.Table.from_batches(read_file(Storage(), path.as_uri(), format="avro", schema=schema), schema).to_pylist()


def expected(rows: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in range(rows)]


def test_one_parquet_file_goes_up_as_it_is(files: Files, tmp_path: Path, temporary: Path) -> None:
    path = parquet(tmp_path / "a.parquet", 0, 5)
    part = files.prepare(item(path), "parquet")
    assert (part.rows, part.bytes, part.as_it_is) == (5, path.stat().st_size, True)
    upload = files.join([part], "parquet")
    assert (upload.path, upload.rows, upload.is_temporary) == (path, 5, False)
    files.discard(upload, part)
    assert path.exists()
    assert list(temporary.iterdir()) == []


def test_several_parquet_files_become_one(files: Files, tmp_path: Path, temporary: Path) -> None:
    paths = [parquet(tmp_path / f"{n}.parquet", n * 4, 4) for n in range(3)]
    parts = [files.prepare(item(*paths[:2]), "parquet"), files.prepare(item(paths[2]), "parquet")]
    upload = files.join(parts, "parquet")
    assert pq.read_table(upload.path).to_pylist() == expected(12)
    assert upload.rows == 12
    files.discard(upload, *parts)
    assert list(temporary.iterdir()) == []
    assert all(p.exists() for p in paths)


def test_a_parquet_file_that_does_not_fit_is_rewritten(files: Files, tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", 0, 3, more=[1, 2, 3])
    part = files.prepare(item(path), "parquet")
    assert not part.as_it_is
    assert pq.read_table(files.join([part], "parquet").path).to_pylist() == expected(3)


def test_parquet_that_bigquery_may_refuse_is_rewritten(files: Files, tmp_path: Path) -> None:
    given = pa.table({"id": [0, 1], "name": ["n0", "n1"]})
    required = pa.schema([f.with_nullable(False) for f in SCHEMA])
    pq.write_table(given, tmp_path / "codec.parquet", compression="brotli")
    pq.write_table(given.cast(required), tmp_path / "required.parquet")
    for path in (tmp_path / "codec.parquet", tmp_path / "required.parquet"):
        part = files.prepare(item(path), "parquet")
        assert not part.as_it_is
        with pq.ParquetFile(files.join([part], "parquet").path) as written:
            assert written.metadata.row_group(0).column(0).compression == "ZSTD"
            assert written.schema_arrow == SCHEMA
            assert written.read().to_pylist() == expected(2)


def test_a_percent_sign_in_a_path_is_one(files: Files, tmp_path: Path) -> None:
    """If decoded again, a file other than the checked one would be read."""
    for folder in ("a%20b", "a b", "%2e%2e", "in"):
        (tmp_path / folder).mkdir()
    nested = tmp_path / "in" / "%2e%2e"
    nested.mkdir()
    for rows, folder in ((1, "a b"), (2, "a%20b"), (3, "%2e%2e"), (4, "in/%2e%2e"), (5, ".")):
        parquet(tmp_path / folder / "x.parquet", 0, rows, more=[0] * rows)
    conversion = Conversion(columns_of(SCHEMA), SCHEMA)
    for rows, url in (
        (2, f"{tmp_path}/a%20b/x.parquet"),
        (1, f"file://{tmp_path}/a%20b/x.parquet"),
        (2, f"file://{tmp_path}/a%2520b/x.parquet"),
        (4, f"{nested}/x.parquet"),
    ):
        part = files.prepare(Item((url,), "parquet", conversion), "parquet")
        assert not part.as_it_is
        assert pq.read_table(files.join([part], "parquet").path).to_pylist() == expected(rows)


def test_files_that_were_replaced_are_not_joined(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_files, "CHUNK_BYTES", 0)
    paths = [parquet(tmp_path / f"{n}.parquet", n * 4, 4) for n in range(2)]
    parts = [files.prepare(item(path), "parquet") for path in paths]
    parquet(paths[1], 4, 5)
    with pytest.raises(DataError, match=r"0\.parquet: .* was replaced while it was read"):
        files.join(parts, "parquet")


def test_constants_are_written_into_parquet(files: Files, tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_sdc_sequence", pa.int64()))
    parts = [
        files.prepare(
            item(parquet(tmp_path / f"{n}.parquet", n, 1), schema=schema, constants={"_sdc_sequence": n}), "parquet"
        )
        for n in range(2)
    ]
    got = pq.read_table(files.join(parts, "parquet").path).to_pylist()
    assert got == [{"id": n, "name": f"n{n}", "_sdc_sequence": n} for n in range(2)]


def test_json_lines_become_avro_at_once_and_are_joined_without_decoding(files: Files, tmp_path: Path) -> None:
    parts = [
        files.prepare(item(jsonl(tmp_path / f"{n}.jsonl.gz", expected(8)[n * 4 : n * 4 + 4])), "avro") for n in range(2)
    ]
    assert [p.rows for p in parts] == [4, 4]
    upload = files.join(parts, "avro")
    assert records(upload.path) == expected(8)
    assert files.join(parts[:1], "avro").path == parts[0].files[0].path


def test_row_groups_of_large_files_are_joined_without_decoding(files: Files, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.decimal128(38, 9))])
    step = 30_000
    rows = [{"id": n, "name": hex(n * 7919), "amount": f"{n}.000000001"} for n in range(2 * step)]
    paths = [jsonl(tmp_path / f"{n}.jsonl.gz", rows[n * step : n * step + step]) for n in range(2)]
    parts = [files.prepare(item(path, schema=schema), "parquet") for path in paths]
    upload = files.join(parts, "parquet")
    assert upload.rows == len(rows)
    with pq.ParquetFile(upload.path) as file:
        assert file.metadata.num_row_groups == 2
        assert file.read().to_pylist() == [r | {"amount": Decimal(r["amount"])} for r in rows]


def test_json_lines_joined_are_one_gzip_member(files: Files, tmp_path: Path) -> None:
    parts = [files.prepare(item(jsonl(tmp_path / f"{n}.jsonl.gz", [{"id": n}])), "jsonl") for n in range(2)]
    data = files.join(parts, "jsonl").path.read_bytes()
    assert data.count(b"\x1f\x8b\x08") == 1
    assert [json.loads(line)["id"] for line in gzip.decompress(data).splitlines()] == ["0", "1"]  # exact for any reader


def test_records_become_what_is_asked_for_and_are_removed(files: Files, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "r.jsonl", expected(3))
    conversion = Conversion(columns_of(SCHEMA), SCHEMA)
    part = files.prepare(Item((path.as_uri(),), "jsonl", conversion, is_temporary=True), "parquet")
    assert not path.exists()
    assert pq.read_table(part.files[0].path).to_pylist() == expected(3)


def test_converted_parquet_is_joined_under_the_names_of_its_columns(files: Files, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("a-b", pa.string())])
    rows = [{"id": n, "a-b": f"n{n}"} for n in range(2)]
    parts = [
        files.prepare(item(jsonl(tmp_path / f"{n}.jsonl.gz", [row]), schema=schema, place=n), "parquet")
        for n, row in enumerate(rows)
    ]
    got = pq.read_table(files.join(parts, "parquet").path).to_pylist()
    assert got == [{"id": n, "a_b": f"n{n}", "_sdc_order": n << 36} for n in range(2)]


@pytest.mark.parametrize("inline", [1 << 20, 0])
def test_nested_rows_are_written_here_or_in_a_process(
    inline: int, files: Files, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_files, "INLINE_BYTES", inline)
    rows = [{"id": n, "l": [n, n + 1]} for n in range(5)]
    part = files.prepare(item(jsonl(tmp_path / "a.jsonl.gz", rows), schema=NESTED), "avro")
    assert records(part.files[0].path, NESTED) == rows
    assert [p.suffix for p in temporary.iterdir()] == [".avro"]


@pytest.mark.full
def test_a_null_in_a_list_of_a_file_that_fits_is_found(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2], "l": [[1], [2, None]]}), path)
    assert not files.prepare(item(path, schema=NESTED), "parquet").as_it_is  # its conversion names the row
    pq.write_table(pa.table({"id": [1, 2], "l": [[1], None]}), path)
    assert files.prepare(item(path, schema=NESTED), "parquet").as_it_is


@pytest.mark.parametrize("name", ["gone.parquet", "gone.jsonl.gz"])
@pytest.mark.full("gone.jsonl.gz")
def test_a_missing_file_is_one_line(name: str, files: Files, tmp_path: Path) -> None:
    uploaded = "parquet" if name.endswith("parquet") else "avro"
    with pytest.raises(NotFoundError, match=rf"{name}.*a batch file of the manifest is missing") as caught:
        files.prepare(item(tmp_path / name), uploaded)
    assert "\n" not in str(caught.value)


def test_a_broken_parquet_file_is_one_line(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(DataError, match=r"a\.parquet: not a Parquet file, or its footer is broken") as caught:
        files.prepare(item(path), "parquet")
    assert "\n" not in str(caught.value)


def test_a_value_that_does_not_fit_names_file_line_and_column(files: Files, tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl.gz", [{"id": 1}, {"id": "x"}])
    with pytest.raises(DataError, match=r"a\.jsonl\.gz, line 2, column 'id'"):
        files.prepare(item(path), "avro")


@pytest.mark.full
def test_a_killed_process_is_one_line(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_files, "INLINE_BYTES", 0)
    others = set(multiprocessing.active_children())
    assert files.prepare(item(jsonl(tmp_path / "good.jsonl.gz", [{"id": 1, "l": [1]}]), schema=NESTED), "avro")
    started = set(multiprocessing.active_children()) - others
    assert started
    for process in started:
        process.kill()
    with pytest.raises(LoadError, match="was killed"):
        files.prepare(item(jsonl(tmp_path / "a.jsonl.gz", [{"id": 1, "l": []}]), schema=NESTED), "avro")


def test_empty_items() -> None:
    assert PreparedItem(item(Path("/a.parquet"))).rows == 0


@pytest.mark.parametrize(
    ("load_format", "schema", "expected"),
    [
        ("auto", SCHEMA, "parquet"),
        ("auto", NESTED, "parquet"),
        ("parquet", SCHEMA, "parquet"),
        ("avro", SCHEMA, "avro"),
        ("jsonl", SCHEMA, "jsonl"),
        ("auto", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), "avro"),
        ("parquet", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), "avro"),
        ("jsonl", pa.schema([("m", pa.map_(pa.string(), pa.string()))]), "jsonl"),
    ],
)
def test_upload_format(load_format: str, schema: pa.Schema, expected: str) -> None:
    assert upload_format(load_format, columns_of(schema)) == expected
