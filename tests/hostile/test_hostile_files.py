"""Small files that claim much: they end with one line, in seconds, and within the limit of memory.

Each is of a few bytes, compressed or by what it says of itself: elements of XML within each other, names without end,
rows and items of Avro that take no byte, deleted rows that no file has, values that no calendar has.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked_tap import LONGEST_S, Ended, ForkedTap, forked_tap
from lake_tables import IcebergBucket
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import FileFormat
from pyroaring import BitMap

from singer_arrow.errors import DataError
from singer_arrow.formats.avro_container import write_block, write_header
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.lake.deletion_vector import highest_group
from tap_s3_files.lake.iceberg import IcebergTable
from tap_s3_files.lake.table import TableSettings, TableVersion

MEMORY_MB, MORE_MB = 100, 250
Damage = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedTap]:
    with forked_tap(tmp_path_factory.mktemp("runs")) as running:
        yield running


def run(tap: ForkedTap, path: Path, **stream: Any) -> Ended:
    """Run the tap over a file or a table, and check what every run keeps."""
    streams = [{"name": "rows", "path": str(path), **stream}]
    ended = tap.run({"streams": streams, "metadata_columns": False, "memory_limit_mb": MEMORY_MB})
    assert ended.seconds < LONGEST_S
    assert ended.megabytes < MEMORY_MB + MORE_MB
    assert "Traceback" not in ended.log, ended.log
    assert ended.code in (0, 1), ended.log
    return ended


def refused(ended: Ended, text: str) -> None:
    lines = [line for line in ended.log.splitlines() if "| ERROR" in line]
    assert ended.code == 1
    assert len(lines) == 1
    assert text in lines[0]


def avro(kind: Any, *blocks: tuple[int, bytes]) -> bytes:
    """Return a file of one column, and of blocks of a number of rows and their bytes."""
    schema = {"type": "record", "name": "row", "fields": [{"name": "a", "type": kind}]}
    return write_header(schema, "null") + b"".join(write_block(*block, "null") for block in blocks)


def varint(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


NULLS: dict[str, Any] = {"type": "record", "name": "empty", "fields": [{"name": "x", "type": "null"}]}
LISTS: dict[str, Any] = {"type": "array", "items": "null"}
FILES: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "nested.xml.gz": (gzip.compress(b"<a>" * 5_000_000), {}, "more than 200 within each other"),
    "outside.xml.gz": (
        gzip.compress(b"<a>" * 5_000_000),
        {"xml": {"record_path": "a/b/c"}},
        "it has more than 200 elements within each other",
    ),
    "names.xml.gz": (
        gzip.compress(b"<r>" + b"".join(b"<o><%b%d/></o>" % (b"x" * 100_000, n) for n in range(200)) + b"</r>"),
        {},
        "have names of more than 1 MiB in total",
    ),
    "attributes.xml.gz": (
        gzip.compress(b"<r>" + b"".join(b'<o %b%d="1"/>' % (b"x" * 100_000, n) for n in range(200)) + b"</r>"),
        {},
        "have names of more than 1 MiB in total",
    ),
    "elements.xml.gz": (
        gzip.compress(b"<r><o>" + b"<a><b/></a>" * 300_000),
        {},
        "a row has more than 209,715 elements",
    ),
    "text.xml.gz": (gzip.compress(b"<r><o><a>" + b"x" * 30_000_000), {}, "a row is longer than 10 MiB"),
    "nulls.avro": (avro("null", (10**9, b"")), {}, "rows or more that take no byte"),
    "many.avro": (avro("null", *[(10**6, b"")] * 9), {}, "rows or more that take no byte"),
    "records.avro": (avro(NULLS, (10**9, b"")), {}, "rows or more that take no byte"),
    "items.avro": (avro(LISTS, (1, varint(10**9) + b"\0")), {}, "column 'a': its items take no byte"),
    "within.avro": (
        avro({"type": "map", "values": ["null", LISTS]}, (1, b"\2\2k\2" + varint(10**9) + b"\0\0")),
        {},
        "its items take no byte",
    ),
    "longs.avro": (avro("long", (10**9, b"\2")), {}, "a block of the Avro file is damaged"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_few_bytes_takes_little_memory(tap: ForkedTap, tmp_path: Path, name: str) -> None:
    data, stream, text = FILES[name]
    (tmp_path / name).write_bytes(data)
    ended = run(tap, tmp_path / name, **stream)
    refused(ended, text)
    assert name in ended.log


def test_columns_without_bytes_are_read(tap: ForkedTap, tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(avro("null", (1000, b"")))
    ended = run(tap, tmp_path / "a.avro")
    assert sum(m["type"] == "RECORD" for m in ended.messages) == 1000


# Tables of Delta Lake.

COLUMNS = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("v", "string"))]


def parquet(rows: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(rows, out)
    return out.getvalue()


ROWS = parquet(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}))


def log(*damages: Damage, columns: Any = None) -> list[dict[str, Any]]:
    """Return the actions of a table with three rows, each changed by the damages."""
    schema = {"type": "struct", "fields": COLUMNS if columns is None else columns}
    features, who = ["deletionVectors", "variantType"], ("reader", "writer")
    add = {"path": "a.parquet", "partitionValues": {}, "size": len(ROWS), "modificationTime": 17 * 10**11}
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | {f"{w}Features": features for w in who}},
        {
            "metaData": {
                **{"id": "11111111-1111-1111-1111-111111111111", "format": {"provider": "parquet", "options": {}}},
                **{"schemaString": json.dumps(schema), "partitionColumns": [], "configuration": {}},
                "createdTime": 17 * 10**11,
            }
        },
        {"add": add | {"dataChange": True, "stats": '{"numRecords": 3}'}},
        {"commitInfo": {"timestamp": 17 * 10**11, "operation": "WRITE"}},
    ]
    whole = {name: value for action in actions for name, value in action.items()}
    for damage in damages:
        damage(whole)
    return [{name: value} for name, value in whole.items()]


def table(folder: Path, *commits: str | list[dict[str, Any]], data: bytes = ROWS) -> Path:
    (folder / "_delta_log").mkdir(parents=True)
    (folder / "a.parquet").write_bytes(data)
    for number, commit in enumerate(commits):
        text = commit if isinstance(commit, str) else "\n".join(map(json.dumps, commit))
        (folder / "_delta_log" / f"{number:020d}.json").write_text(text)
    return folder


def put(*path: str, value: Any) -> Damage:
    """Return the damage that sets a member of an action."""

    def damage(actions: dict[str, Any]) -> None:
        place: Any = actions
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value

    return damage


def vector(*rows: int) -> dict[str, Any]:
    """Return the description of a deletion vector that is in the log."""
    upper: dict[int, list[int]] = {}
    for row in rows:
        upper.setdefault(row >> 32, []).append(row & 0xFFFFFFFF)
    bitmaps = b"".join(struct.pack("<I", n) + BitMap(low).serialize() for n, low in sorted(upper.items()))
    data = struct.pack("<IQ", 1681511377, len(upper)) + bitmaps
    data += b"\0" * (-len(data) % 4)
    z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    b85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    text = base64.b85encode(data).translate(bytes.maketrans(b85, z85)).decode()
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


DEEP = "[" * 200_000 + "]" * 200_000
MAPPED = {"delta.columnMapping.mode": "zzz"}
LOGS: dict[str, tuple[list[Any], str]] = {
    "size": ([log(put("add", "size", value=-1))], "has -1 bytes"),
    "size of text": ([log(put("add", "size", value="x"))], "it is no commit of Delta Lake (Expected `int`, got `str`"),
    "size of 70 bits": ([log(put("add", "size", value=2**70))], "its log cannot be read"),
    "time of a file": ([log(put("add", "modificationTime", value=2**62))], "which no calendar has"),
    "time of a commit": ([log(put("commitInfo", "timestamp", value=2**62))], "it is no commit of Delta Lake"),
    "time of text": ([log(put("commitInfo", "timestamp", value="x"))], "it is no commit of Delta Lake"),
    "list": ([log(), '{"add": [1]}'], "it is no commit of Delta Lake (Expected `object | null`, got `array`"),
    "no action": ([log(), "[1, 2]"], "it is no commit of Delta Lake"),
    "deep list": ([log(), f'{{"add": {DEEP}}}'], "it has values within more than 100 others"),
    "deep unknown": ([log(), f'{{"zzz": {DEEP}}}'], "it has values within more than 100 others"),
    "deep by text": ([log(), '{"a": "]]]", "zzz": ' + '{"a": "}}", "b": ' * 10_000], "values within more than 100"),
    "mapping": ([log(put("metaData", "configuration", value=MAPPED))], "columnMapping.mode is 'zzz'"),
    "row of a vector": ([log(put("add", "deletionVector", value=vector(2**33)))], "has row 8,589,934,592 or later"),
    "rows of a file": (
        [log(put("add", "deletionVector", value=vector(1)), put("add", "stats", value='{"numRecords": 17179869184}'))],
        "files with deletion vectors have 17,179,869,184 rows",
    ),
    "vector": (
        [log(put("add", "deletionVector", value=vector(1) | {"pathOrInlineDv": "xxxxx"}))],
        "the deletion vector of a.parquet is damaged",
    ),
    "rows in the log": (
        [log(put("add", "deletionVector", value=vector(1)), put("add", "stats", value='{"numRecords": 2}'))],
        "it has more rows than the 2 that the log of its table gives it",
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_delta_ends_with_one_line(tap: ForkedTap, tmp_path: Path, name: str) -> None:
    commits, text = LOGS[name]
    ended = run(tap, table(tmp_path / "lake", *commits), format="delta")
    refused(ended, text)
    assert str(tmp_path / "lake") in ended.log


def test_what_is_not_known_in_a_log_is_passed_over(tap: ForkedTap, tmp_path: Path) -> None:
    unknown = '{"commitInfo": {"timestamp": 1700000000000, "x": [1]}, "x_new": ["a", "1"]}'
    nothing = '{"add": null}\n{"x_new": [1]}\n'
    path = table(tmp_path / "lake", log(put("add", "deletionVector", value=vector(1))), nothing, unknown)
    ended = run(tap, path, format="delta")
    assert [m["record"]["id"] for m in ended.messages if m["type"] == "RECORD"] == [1, 3]


@pytest.mark.parametrize("order", [("metadata", "value"), ("value", "metadata")])
def test_variant_is_json_whatever_the_file_says(tap: ForkedTap, tmp_path: Path, order: tuple[str, ...]) -> None:
    """Writers store it as a struct of its parts, with or without a mark of Parquet."""
    parts = {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x07"}  # {"a": 7}
    column = pa.array([parts, None], pa.struct([(name, pa.binary()) for name in order]))
    data = parquet(pa.table({"id": [1, 2], "v": column}))
    columns = [COLUMNS[0], COLUMNS[1] | {"type": "variant"}]
    commit = log(put("add", "size", value=len(data)), columns=columns)
    ended = run(tap, table(tmp_path / "lake", commit, data=data), format="delta")
    assert [m["record"]["v"] for m in ended.messages if m["type"] == "RECORD"] == [{"a": 7}, None]


@pytest.mark.parametrize("rows", [[0], [65_535], [65_536, 3], [2**32 + 5], [*range(10_000)], [*range(0, 99_999, 3)]])
def test_the_last_rows_of_vectors_are_known(rows: list[int]) -> None:
    for optimize in (False, True):
        upper: dict[int, BitMap] = {}
        for row in rows:
            upper.setdefault(row >> 32, BitMap()).add(row & 0xFFFFFFFF)
        for bitmap in upper.values():
            if optimize:
                bitmap.run_optimize()
        data = b"".join(struct.pack("<I", n) + bitmap.serialize() for n, bitmap in sorted(upper.items()))
        whole = struct.pack("<IQ", 1681511377, len(upper)) + data
        assert highest_group(whole) == max(rows) >> 16
        for cut in range(0, len(whole), 7):
            with pytest.raises(ValueError, match="ends too early|begins with"):
                highest_group(whole[:cut])


# Tables of Iceberg.


class IcebergFolder(IcebergBucket):
    """A table on local disk."""

    def __init__(self, folder: Path) -> None:
        self.url = f"file://{folder}/shop/orders"
        self._catalog = load_catalog(
            "test", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}"
        )
        self._catalog.create_namespace_if_not_exists("shop")

    @property
    def path(self) -> Path:
        return Path(self.url.removeprefix("file://"))

    def change(self, damage: Damage) -> None:
        """Change the newest metadata."""
        file = Path(self.table.metadata_location.removeprefix("file://"))
        metadata = json.loads(file.read_text())
        damage(metadata)
        file.write_text(json.dumps(metadata))


@pytest.fixture
def lake(tmp_path: Path) -> IcebergFolder:
    made = IcebergFolder(tmp_path)
    made.add([1, 2, 3])
    return made


@pytest.mark.parametrize("kind", [FileFormat.PARQUET, FileFormat.PUFFIN])
@pytest.mark.parametrize("row", [3, 2**33])
def test_deletes_of_rows_that_no_file_has_end_the_run(
    tap: ForkedTap, lake: IcebergFolder, monkeypatch: pytest.MonkeyPatch, kind: FileFormat, row: int
) -> None:
    if kind == FileFormat.PUFFIN:
        monkeypatch.setattr("lake_tables._puffin", lambda path, _: puffin(path, row))
    else:
        monkeypatch.setattr("lake_tables._position_deletes", lambda path, _: position_deletes(path, row))
    lake.mark_deleted({2}, kind)
    refused(run(tap, lake.path, format="iceberg"), f"it deletes row {row:,} of {lake.url}/data/")


def position_deletes(path: str, row: int) -> bytes:
    return parquet(pa.table({"file_path": [path], "pos": [row]}))


def puffin(path: str, row: int) -> bytes:
    vector = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, row >> 32) + BitMap([row & 0xFFFFFFFF]).serialize()
    blob = struct.pack(">I", len(vector)) + vector + bytes(4)
    about = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4}
    about |= {"length": len(blob), "properties": {"referenced-data-file": path, "cardinality": "1"}}
    footer = json.dumps({"blobs": [about]}).encode()
    return b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"


@pytest.mark.parametrize("time", [2**62, -(2**62)])
def test_a_time_that_no_calendar_has_ends_the_run(tap: ForkedTap, lake: IcebergFolder, time: int) -> None:
    def damage(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["timestamp-ms"] = time

    lake.change(damage)
    refused(run(tap, lake.path, format="iceberg"), f"its log has the time {time} (milliseconds since 1970)")


def test_a_snapshot_that_is_its_own_parent_ends_the_run(lake: IcebergFolder) -> None:
    def damage(metadata: dict[str, Any]) -> None:
        metadata["snapshots"][-1]["parent-snapshot-id"] = metadata["current-snapshot-id"]

    lake.change(damage)
    table = IcebergTable(Storage(), Url.parse(str(lake.path)), TableSettings())
    since = TableVersion("iceberg", table.version.table, 1, table.version.at, 4711)
    with pytest.raises(DataError, match="is an ancestor of itself"):
        table.files(since, table.version, ())
