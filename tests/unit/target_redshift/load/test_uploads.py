"""Files that COPY reads in place, and conversion of the others; S3 is a store in memory."""

from __future__ import annotations

import gzip
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore, ObjectStore

from singer_arrow.errors import DataError, NotFoundError
from singer_arrow.formats import WRITABLE, WriteOptions
from singer_arrow.load import convert as spool
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from target_redshift.columns import StagingColumn, columns_of
from target_redshift.conversion import Conversion
from target_redshift.uploads import Files, Item, Layout, PreparedItem

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class InMemory(Storage):
    """A storage with S3 in memory that records its requests."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = MemoryStore()
        self.asked: list[dict[str, Any]] = []

    def _store(self, url: Url, **options: bool) -> ObjectStore:
        return self.memory if url.scheme == "s3" else super()._store(url, **options)

    def get(self, url: Url, **options: Any) -> Any:
        self.asked.append(options)
        return super().get(url, **options)


@pytest.fixture
def storage() -> InMemory:
    return InMemory()


@pytest.fixture
def files(storage: InMemory, temporary: Path) -> Files:
    return made(storage, temporary)


def made(storage: InMemory, temporary: Path, upload_format: str = "parquet", varchar_max: int = 65535) -> Files:
    numbers = itertools.count()
    return Files(
        storage,
        lambda suffix: temporary / f"{next(numbers)}{suffix}",
        upload_format=upload_format,
        varchar_max=varchar_max,
    )


def put(
    storage: Storage, name: str, rows: list[dict[str, Any]], schema: pa.Schema, tmp_path: Path, **options: Any
) -> str:
    """Write a batch file to S3; return its URL."""
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    else:
        batches = pa.Table.from_pylist(rows, schema).to_batches()
        WRITABLE["jsonl"].write(batches, schema, path, WriteOptions("gzip" if name.endswith(".gz") else "none"))
    url = f"s3://b/{name}"
    storage.put(Url.parse(url), path.read_bytes())
    return url


def item(*urls: str, schema: pa.Schema = SCHEMA, rows: int | None = None, **options: Any) -> Item:
    conversion = Conversion(columns_of(schema), schema, **options)
    file_format = "parquet" if urls[0].endswith(".parquet") else "jsonl"
    return Item(urls, file_format, conversion, "a" if rows is not None else None, rows)


def content(part: PreparedItem) -> list[dict[str, Any]]:
    """Return the converted rows of a part."""
    assert part.spool
    rows = spool.read_spools([part.spool], 0, part.rows)
    return list(pa.Table.from_batches(rows, part.spool.schema).to_pylist())


ROWS = [{"id": n, "name": f"n{n}"} for n in range(10_000)]


def test_of_parquet_on_s3_only_the_footer_is_read(files: Files, storage: InMemory, tmp_path: Path) -> None:
    urls = [put(storage, f"{n}.parquet", ROWS, SCHEMA, tmp_path) for n in range(2)]
    part = files.prepare(item(*urls))
    assert storage.asked == [{"suffix": 131072}] * 2
    assert part.spool is None
    assert (part.rows, part.bytes) == (20_000, sum((tmp_path / f"{n}.parquet").stat().st_size for n in range(2)))
    assert [(f.url, f.rows) for _, f in part.files] == [(url, 10_000) for url in urls]
    assert {layout for layout, _ in part.files} == {part.files[0][0]}
    assert [(c.name, c.type) for c in part.files[0][0].columns] == [("id", "BIGINT"), ("name", "VARCHAR(65535)")]


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl"])
def test_of_json_lines_of_our_own_only_the_first_bytes_are_read(
    name: str, files: Files, storage: InMemory, tmp_path: Path
) -> None:
    part = files.prepare(item(put(storage, name, ROWS, SCHEMA, tmp_path), rows=10_000))
    assert storage.asked == [{"start": 0, "end": 4}]
    ((layout, file),) = part.files
    assert (layout.file_format, layout.compression) == ("jsonl", "gzip" if name.endswith("gz") else None)
    assert (file.rows, file.bytes) == (10_000, (tmp_path / name).stat().st_size)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (pa.schema([("id", pa.int64()), ("x", pa.uint16())]), 5),
        (pa.schema([("id", pa.int64()), ("x", pa.timestamp("ns", "UTC"))]), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.schema([("id", pa.int64()), ("x", pa.map_(pa.string(), pa.int64()))]), [("a", 1)]),
    ],
    ids=["unsigned", "nanoseconds", "map"],
)
def test_types_that_copy_does_not_take_are_converted(
    schema: pa.Schema, value: Any, files: Files, storage: InMemory, tmp_path: Path, temporary: Path
) -> None:
    url = put(storage, "a.parquet", [{"id": 1, "x": value}], schema, tmp_path)
    part = files.prepare(item(url, schema=schema))
    assert part.files == ()
    assert part.rows == 1
    assert content(part)[0]["id"] == 1
    files.discard(part)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("codec", ["brotli", "lz4"])
def test_codecs_that_copy_does_not_read_are_converted(
    codec: str, files: Files, storage: InMemory, tmp_path: Path
) -> None:
    part = files.prepare(item(put(storage, "a.parquet", ROWS[:3], SCHEMA, tmp_path, compression=codec)))
    assert content(part) == ROWS[:3]


@pytest.mark.parametrize("encoding", ["DELTA_BINARY_PACKED", "PLAIN"])
def test_encodings_that_redshift_does_not_document_are_converted(
    encoding: str, files: Files, storage: InMemory, tmp_path: Path
) -> None:
    options = {"use_dictionary": False, "column_encoding": {"id": encoding, "name": "PLAIN"}}
    part = files.prepare(item(put(storage, "a.parquet", ROWS[:3], SCHEMA, tmp_path, **options)))
    assert (part.spool is None) == (encoding == "PLAIN")
    assert part.rows == 3


def test_json_lines_of_others_are_converted(files: Files, storage: InMemory, tmp_path: Path) -> None:
    part = files.prepare(item(put(storage, "a.jsonl.gz", ROWS[:3], SCHEMA, tmp_path)))
    assert content(part) == ROWS[:3]


@pytest.mark.parametrize("upload_format", ["jsonl", "csv"])
def test_other_upload_formats_convert_everything(
    upload_format: str, storage: InMemory, tmp_path: Path, temporary: Path
) -> None:
    files = made(storage, temporary, upload_format)
    assert content(files.prepare(item(put(storage, "a.parquet", ROWS[:3], SCHEMA, tmp_path)))) == ROWS[:3]


def test_constants_are_added_without_reading_the_file(files: Files, storage: InMemory, tmp_path: Path) -> None:
    schema = pa.schema([*SCHEMA, ("v", pa.int64()), ("_sdc_received_at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    url = put(storage, "a.parquet", ROWS[:3], SCHEMA, tmp_path)
    layouts: list[Layout] = []
    for version, day in ((7, 1), (7, 2), (8, 1)):
        constants = {"v": version, "_sdc_received_at": datetime(2026, 1, day, tzinfo=UTC), "n": None}
        part = files.prepare(item(url, schema=schema, constants=constants))
        layouts.append(part.files[0][0])
    added = [(c.name, c.constant) for c in layouts[0].columns[2:]]
    assert added == [("v", "7"), ("_sdc_received_at", "2026-01-01 00:00:00+00:00")]
    assert layouts[0].key == layouts[1].key != layouts[2].key


def test_a_key_that_a_file_lacks_is_an_error_of_the_conversion(files: Files, storage: InMemory, tmp_path: Path) -> None:
    narrow = pa.schema([("name", pa.string())])
    url = put(storage, "a.parquet", [{"name": "x"}], narrow, tmp_path)
    with pytest.raises(DataError, match=r"s3://b/a.parquet, row \d, column 'id': a key property is null"):
        files.prepare(item(url, keys=("id",)), ("id",))


def test_long_text_of_converted_files_is_named(storage: InMemory, tmp_path: Path, temporary: Path) -> None:
    files = made(storage, temporary, "csv", varchar_max=3)
    url = put(storage, "a.parquet", [{"id": 1, "name": "abc"}, {"id": 2, "name": "abcd"}], SCHEMA, tmp_path)
    with pytest.raises(DataError, match=r"s3://b/a.parquet, row 2, column 'name': the text has 4 bytes"):
        files.prepare(Item((url,), "parquet", Conversion(columns_of(SCHEMA, varchar_max=3), SCHEMA)))


def test_files_without_rows_bring_nothing(files: Files, storage: InMemory, tmp_path: Path) -> None:
    part = files.prepare(item(put(storage, "a.parquet", [], SCHEMA, tmp_path)))
    assert (part.rows, part.files) == (0, ())


def test_records_are_removed_once_they_are_converted(files: Files, tmp_path: Path, temporary: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(b'{"id": 1, "name": "x"}\n')
    conversion = Conversion(columns_of(SCHEMA), SCHEMA)
    part = files.prepare(Item((path.as_uri(),), "jsonl", conversion, rows=1, is_temporary=True))
    assert content(part) == [{"id": 1, "name": "x"}]
    assert not path.exists()


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz"])
def test_the_error_of_a_missing_file_has_a_hint(name: str, files: Files) -> None:
    with pytest.raises(NotFoundError, match=rf"s3://b/{name} does not exist: a batch file of the manifest is missing"):
        files.prepare(item(f"s3://b/{name}", rows=1))


@pytest.mark.parametrize(("name", "data"), [("a.parquet", b""), ("a.parquet", b"no"), ("a.jsonl.gz", b"x")])
def test_broken_files(name: str, data: bytes, files: Files, storage: InMemory) -> None:
    storage.put(Url.parse(f"s3://b/{name}"), data)
    with pytest.raises(DataError, match="s3://b/a"):
        files.prepare(item(f"s3://b/{name}", rows=1))


def test_what_is_no_json_is_left_to_the_conversion(files: Files, storage: InMemory) -> None:
    storage.put(Url.parse("s3://b/a.jsonl.gz"), gzip.compress(b"no json\n"))
    assert files.prepare(item("s3://b/a.jsonl.gz", rows=1)).files  # the error of COPY
    storage.put(Url.parse("s3://b/a.jsonl.gz"), b"no json\n")
    with pytest.raises(DataError, match=r"s3://b/a.jsonl.gz, line 1"):
        files.prepare(item("s3://b/a.jsonl.gz", rows=1))


def test_a_layout_is_ordered_if_it_has_places() -> None:
    assert Layout("parquet", (StagingColumn("_sdc_order", "BIGINT"),)).is_ordered
    assert not Layout("parquet", (StagingColumn("id", "BIGINT"),)).is_ordered
