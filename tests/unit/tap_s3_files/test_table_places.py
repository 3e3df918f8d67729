"""Addresses in the logs of tables: only those in the table's folder, or below allowed_roots, are followed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog

from singer_arrow.errors import ConfigError, DataError
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.lake.delta import DeltaTable
from tap_s3_files.lake.iceberg import IcebergTable
from tap_s3_files.lake.table import LakeTable, TablePlaces, TableSettings
from tap_s3_files.settings import Settings

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def _files(table: LakeTable) -> list[Url]:
    return [file.info.url for file in table.files(None, table.version, ())]


def _settings(*roots: Path) -> TableSettings:
    return TableSettings(allowed_roots=tuple(Url.parse(str(root)) for root in roots))


def _cloned(folder: Path, address: str, *, later: bool = False) -> Path:
    """Return a table of Delta Lake whose log names a file by another address, as a shallow clone does."""
    table = folder / "clone"
    deltalake.write_deltalake(str(table), ROWS)
    if later:
        deltalake.write_deltalake(str(table), ROWS, mode="append")
    log = max((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = address
    log.write_text("\n".join(map(json.dumps, actions)))
    return table


@pytest.mark.parametrize("later", [False, True])
def test_files_of_a_shallow_clone_need_an_allowed_root(tmp_path: Path, *, later: bool) -> None:
    other = tmp_path / "other/1.parquet"
    other.parent.mkdir()
    pq.write_table(ROWS, other)
    url = Url.parse(str(_cloned(tmp_path, f"file://{other}", later=later)))

    def files(settings: TableSettings) -> list[Url]:
        table = DeltaTable(Storage(), url, settings)
        since = replace(table.version, number=0, snapshot=None) if later else None
        return [file.info.url for file in table.files(since, table.version, ())]

    with pytest.raises(
        DataError, match=f"If its files may be there, set the stream's allowed_roots, with '{other.parent.as_uri()}'"
    ):
        files(TableSettings())
    assert files(_settings(other.parent)) == [Url.parse(str(other))]


def _with_vector(folder: Path, vector: dict[str, Any], *, checkpoint: bool = False) -> DeltaTable:
    table = folder / "table"
    deltalake.write_deltalake(str(table), ROWS)
    (log,) = (table / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    for action in actions:
        if "add" in action:
            action["add"]["deletionVector"] = {"offset": 1, "sizeInBytes": 40, "cardinality": 1, **vector}
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    log.write_text("\n".join(map(json.dumps, actions)))
    if checkpoint:
        deltalake.DeltaTable(str(table)).create_checkpoint()
        log.unlink()
    return DeltaTable(Storage(), Url.parse(str(table)), TableSettings())


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("address", ["file:///etc/hostname", "s3://other/vector.bin"])
def test_a_deletion_vector_elsewhere_is_not_read(tmp_path: Path, address: str, *, checkpoint: bool) -> None:
    table = _with_vector(tmp_path, {"storageType": "p", "pathOrInlineDv": address}, checkpoint=checkpoint)
    with pytest.raises(DataError, match=f"its log names {address!r}, which is not in the folder of the table"):
        _files(table)


def test_a_log_at_which_the_library_panics_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _with_vector(tmp_path, {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0})
    with pytest.raises(DataError, match=r"the deletion vector of .* is damaged \(it ends too early\)"):
        _files(table)
    monkeypatch.setattr("tap_s3_files.lake.delta.highest_group", lambda _: -1)  # the library is asked nevertheless
    with pytest.raises(DataError, match="its log makes the library fail"):
        _files(table)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/secret.parquet",
        "http://127.0.0.1/secret.parquet",
        "hdfs://host/secret.parquet",
        "../other/secret.parquet",
        "..%2Fother%2Fsecret.parquet",
        "/etc/secret.parquet",
    ],
)
def test_other_addresses_of_a_delta_log_are_refused(tmp_path: Path, address: str) -> None:
    table = DeltaTable(Storage(), Url.parse(str(_cloned(tmp_path, address))), _settings(tmp_path / "more"))
    with pytest.raises(
        DataError, match=r"its log names '.*', which is not in the folder of the table .* allowed_roots"
    ):
        _files(table)


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    table = _cloned(tmp_path, "link/1.parquet")
    (table / "link").symlink_to(tmp_path / "other")
    with pytest.raises(DataError, match="which is not in the folder of the table"):
        _files(DeltaTable(Storage(), Url.parse(str(table)), TableSettings()))


def _iceberg(folder: Path, **properties: str) -> Any:
    catalog = load_catalog("t", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    return catalog.create_table("db.t", schema=ROWS.schema, location=f"file://{folder}/t", properties=properties)


def test_files_that_were_added_to_iceberg_need_an_allowed_root(tmp_path: Path) -> None:
    other = tmp_path / "other/1.parquet"
    other.parent.mkdir()
    pq.write_table(ROWS, other)
    _iceberg(tmp_path).add_files([other.as_uri()])
    url = Url.parse(str(tmp_path / "t"))
    with pytest.raises(DataError, match=f"set the stream's allowed_roots, with '{other.parent.as_uri()}' in it"):
        _files(IcebergTable(Storage(), url, TableSettings()))
    assert _files(IcebergTable(Storage(), url, _settings(other.parent))) == [Url.parse(str(other))]


def test_a_data_path_of_iceberg_needs_an_allowed_root(tmp_path: Path) -> None:
    _iceberg(tmp_path, **{"write.data.path": f"file://{tmp_path}/elsewhere"}).append(ROWS)
    url = Url.parse(str(tmp_path / "t"))
    with pytest.raises(DataError, match=f"set the stream's allowed_roots, with 'file://{tmp_path}/elsewhere' in it"):
        _files(IcebergTable(Storage(), url, TableSettings()))
    assert len(_files(IcebergTable(Storage(), url, _settings(tmp_path / "elsewhere")))) == 1


def test_a_current_snapshot_that_is_missing_is_an_error(tmp_path: Path) -> None:
    _iceberg(tmp_path).append(ROWS)
    place = max((tmp_path / "t/metadata").glob("*.metadata.json"), key=lambda p: p.name)
    about = json.loads(place.read_text())
    place.write_text(json.dumps({**about, "snapshots": []}))
    with pytest.raises(DataError, match="its metadata has no snapshot .*, which it names as the current one"):
        IcebergTable(Storage(), Url.parse(str(tmp_path / "t")), TableSettings())


@pytest.mark.parametrize("metadata", ["", "file"])
def test_a_manifest_elsewhere_is_not_opened(tmp_path: Path, metadata: str) -> None:
    """Whatever its scheme: the library would start a program for `hdfs`."""
    table = _iceberg(tmp_path)
    table.append(ROWS)
    place = Path(table.metadata_location.removeprefix("file://"))
    place = max(place.parent.glob("*.metadata.json"), key=lambda p: p.name)
    about = json.loads(place.read_text())
    about["snapshots"][-1]["manifest-list"] = "hdfs://127.0.0.1:9/list.avro"
    place.write_text(json.dumps(about))
    url = Url.parse(str(place if metadata else tmp_path / "t"))
    with pytest.raises(DataError, match="its log names 'hdfs://127.0.0.1:9/list.avro'.*nor on its storage"):
        _files(IcebergTable(Storage(), url, TableSettings()))


@pytest.mark.parametrize(
    ("address", "followed"),
    [
        ("s3://b/t/data/1.parquet", True),
        ("s3a://b/t/1.parquet", True),
        ("s3://other/lake/1.parquet", True),
        ("s3://b/table/1.parquet", False),
        ("s3://b/t/../secret/1.parquet", False),
        ("s3://b/t/%2e%2e/secret/1.parquet", False),
        ("s3://other/lakes/1.parquet", False),
        ("gs://b/t/1.parquet", False),
        ("/t/1.parquet", False),
        ("", False),
    ],
)
def test_addresses_are_compared_by_folders(address: str, *, followed: bool) -> None:
    places = TablePlaces(Url("s3", "b", "t"), Url("s3", "b", "t"), (Url("s3", "other", "lake"),))
    if followed:
        assert places.check(address) == Url.parse(address)
    else:
        with pytest.raises(DataError, match="its log names"):
            places.check(address)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"format": "csv"}, "allowed_roots' is for tables"),
        ({"format": "delta", "allowed_roots": ["gs://b/x"]}, "can only be on its storage"),
        ({"format": "delta", "allowed_roots": ["http://b/x"]}, "a root reads s3://bucket/folder or /folder"),
        ({"format": "delta", "allowed_roots": ["s3://b/../x"]}, "a root reads s3://bucket/folder or /folder"),
    ],
)
def test_roots_that_cannot_be_are_refused(more: dict[str, Any], words: str) -> None:
    stream = {"name": "x", "path": "s3://b/t", "allowed_roots": ["s3://b/x"], **more}
    with pytest.raises(ConfigError, match=words):
        Settings.from_config({"streams": [stream]})
