"""The example of docs/add-a-format.md fulfils the contract of `Format`, and is read by the tap once it is installed."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ltsv_format import LtsvFormat
from singer_arrow import ObjectReader, ReadOptions, Storage, Url
from singer_arrow.errors import DataError, DriftError, EmptyObjectError
from singer_arrow.formats import Format, with_archives
from singer_arrow.read_options import ReadProgress

ORDERS = """id:1\titem:café\tprice:1.50\tday:2024-05-01

id:2\titem:\tprice:2
id:3\titem:pen\tnote:late: by a day
""".encode()
EXAMPLE = Path(__file__).parents[3] / "examples/format_ltsv"
COLUMNS = ["id", "item", "price", "day", "note"]
TYPES = [pa.int64(), pa.string(), pa.float64(), pa.date32(), pa.string()]
ltsv: Format = LtsvFormat()


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path

    def reader(self, data: bytes, name: str = "orders.ltsv") -> ObjectReader:
        (self.path / name).write_bytes(data)
        return ObjectReader(Storage(), Url.parse(str(self.path / name)))

    def read(self, data: bytes, schema: pa.Schema, progress: ReadProgress | None = None, **options: object) -> pa.Table:
        batches = ltsv.read(self.reader(data), schema, ReadOptions(**options), progress)  # type: ignore[arg-type]
        return pa.Table.from_batches(batches, schema)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_types_and_rows(folder: Folder, pack: type[bytes]) -> None:
    schema = ltsv.infer(folder.reader(pack(ORDERS)), ReadOptions(), sample_bytes=1 << 20)
    assert (schema.names, schema.types) == (COLUMNS, TYPES)
    found = folder.read(pack(ORDERS), schema).to_pydict()
    assert found["item"] == ["café", "", "pen"]
    assert found["price"] == [1.5, 2.0, None]
    assert found["note"] == [None, None, "late: by a day"]


def test_columns_are_found_by_name(folder: Folder) -> None:
    schema = pa.schema([("missing", pa.int64()), ("item", pa.string())])
    assert folder.read(ORDERS, schema).to_pydict() == {"missing": [None] * 3, "item": ["café", "", "pen"]}


def test_every_run_yields_the_same_batches(folder: Folder) -> None:
    many = b"".join(b"n:%d\n" % n for n in range(1000))
    options, schema = ReadOptions(block_bytes=100), pa.schema([("n", pa.int64())])
    sizes = [[b.num_rows for b in ltsv.read(folder.reader(many), schema, options)] for _ in range(2)]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 10
    assert sum(sizes[0]) == 1000


def test_a_bad_value_is_an_error_or_a_skipped_row(folder: Folder) -> None:
    schema = pa.schema([("id", pa.int64()), ("item", pa.int64())])
    with pytest.raises(DataError, match=r"orders\.ltsv.*line 1, column 'item': 'café' is not an integer"):
        folder.read(ORDERS, schema)
    progress = ReadProgress()
    assert folder.read(ORDERS, schema, progress, on_bad_row="skip").to_pydict() == {"id": [2], "item": [None]}
    assert progress.skipped == 2


def test_a_new_column_is_drift(folder: Folder) -> None:
    schema = pa.schema(list(zip(COLUMNS[:4], TYPES[:4], strict=True)))
    with pytest.raises(DriftError) as raised:
        folder.read(ORDERS, schema, on_drift="raise", known_columns=frozenset(COLUMNS[:4]))
    assert [field.name for field in raised.value.fields] == ["note"]


def test_a_reading_resumes(folder: Folder) -> None:
    many = b"".join(b"n:%d\n" % n for n in range(1000))
    options, schema, progress = ReadOptions(block_bytes=100), pa.schema([("n", pa.int64())]), ReadProgress()
    before = next(iter(ltsv.read(folder.reader(many), schema, options, progress))).num_rows
    rest = ltsv.read(folder.reader(many), schema, options, ReadProgress(progress.resume_point))
    assert pa.Table.from_batches(rest)["n"].to_pylist() == list(range(before, 1000))


def test_bad_lines_are_errors_or_skipped(folder: Folder) -> None:
    schema = pa.schema([("id", pa.int64())])
    broken = ORDERS + b"no label\n"
    for call in (
        lambda: ltsv.infer(folder.reader(broken), ReadOptions(), sample_bytes=1 << 20),
        lambda: folder.read(broken, schema),
    ):
        with pytest.raises(DataError, match=r"orders\.ltsv.*line 5: a pair has no label"):
            call()
    assert folder.read(broken, schema, on_bad_row="skip")["id"].to_pylist() == [1, 2, 3]
    with pytest.raises(EmptyObjectError):
        folder.read(b"", schema)


def test_it_is_read_from_zip_archives(folder: Folder) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a.ltsv", ORDERS)
        file.writestr("b.ltsv", ORDERS)
    reader = folder.reader(archive.getvalue(), "orders.zip")
    batches = with_archives(ltsv).read(reader, pa.schema([("id", pa.int64())]), ReadOptions())
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [1, 2, 3, 1, 2, 3]


def _install(folder: Path) -> None:
    """Install the example into a folder, as pip does with its wheel: the module, and the metadata of pyproject.toml."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    shutil.copy(EXAMPLE / "ltsv_format.py", folder)


def _tap(folder: Path, stream: Mapping[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    config = {"streams": [{"name": "orders", "path": f"{folder}/*.ltsv*", **stream}], "metadata_columns": False}
    (folder / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "tap_s3_files", "--config", str(folder / "config.json"), *options]
    env = {**os.environ, "PYTHONPATH": str(folder / "installed")}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("stream", [{}, {"format": "ltsv"}], ids=["auto", "ltsv"])
def test_the_tap_reads_it_once_the_package_is_installed(tmp_path: Path, stream: Mapping[str, Any]) -> None:
    (tmp_path / "a.ltsv").write_bytes(ORDERS)
    (tmp_path / "b.ltsv.gz").write_bytes(gzip.compress(ORDERS))
    with zipfile.ZipFile(tmp_path / "c.ltsv.zip", "w") as file:
        file.writestr("c.ltsv", ORDERS)
    ran = _tap(tmp_path, stream)
    assert ran.returncode == 1
    expected = "must be one of 'auto', 'csv', 'jsonl'," if stream else "its name does not imply a format"
    assert expected in ran.stderr
    _install(tmp_path / "installed")
    ran = _tap(tmp_path, stream)
    assert ran.returncode == 0, ran.stderr
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    rows = [message["record"] for message in messages if message["type"] == "RECORD"]
    assert [row["id"] for row in rows] == [1, 2, 3] * 3
    assert [row["item"] for row in rows] == ["café", "", "pen"] * 3
    assert _tap(tmp_path, stream, "--plan").stdout.count("ltsv") == 1
