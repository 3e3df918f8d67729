"""Tables of a lake in a bucket of the local S3, written by the libraries of Delta Lake and Iceberg."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import Record
from pyroaring import BitMap
from tap_source import Source, state_of

from local_cloud import Cloud
from local_cloud.programs import Ran


class DeltaBucket:
    """A table of Delta Lake in a bucket, and what its writers do to it."""

    def __init__(self, cloud: Cloud, bucket: str, folder: str = "lake/orders") -> None:
        self.bucket, self.url = bucket, f"s3://{bucket}/{folder}"
        self.options = {
            "aws_endpoint_url": cloud.s3_url,
            "aws_allow_http": "true",
            "aws_region": "us-east-1",
            "aws_access_key_id": cloud.env["AWS_ACCESS_KEY_ID"],
            "aws_secret_access_key": cloud.env["AWS_SECRET_ACCESS_KEY"],
            "aws_conditional_put": "etag",
        }

    def add(self, ids: range | list[int], mode: str = "append", **more: Any) -> None:
        """Commit rows with these ids."""
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"name {n}" for n in ids])})
        self.write(rows, mode, **more)

    def write(self, rows: pa.Table, mode: str = "append", **more: Any) -> None:
        deltalake.write_deltalake(self.url, rows, mode=mode, storage_options=self.options, **more)  # type: ignore[call-overload]

    @property
    def table(self) -> deltalake.DeltaTable:
        return deltalake.DeltaTable(self.url, storage_options=self.options)

    def delete(self, rows: str) -> None:
        self.table.delete(rows)

    def compact(self) -> None:
        self.table.optimize.compact()

    def vacuum(self) -> None:
        """Remove all files that the newest version does not have."""
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def stream_of(table: Any, **more: Any) -> dict[str, Any]:
    """Return the stream of a table."""
    if isinstance(table, DeltaBucket):
        return {"name": "rows", "path": table.url, "format": "delta", **more}
    return {"name": "rows", "format": "iceberg", **table.place, **more}


def forget(s3: Any, bucket: str, keys: list[str]) -> None:
    """Remove objects."""
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})


class IcebergBucket:
    """A table of Apache Iceberg in a bucket, whose catalog is on disk, and what its writers do to it."""

    def __init__(self, cloud: Cloud, bucket: str, folder: Path, place: str = "lake/shop/orders") -> None:
        self.bucket, self.url = bucket, f"s3://{bucket}/{place}"
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"s3://{bucket}/lake",
            "s3.endpoint": cloud.s3_url,
            "s3.region": "us-east-1",
            "s3.access-key-id": cloud.env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": cloud.env["AWS_SECRET_ACCESS_KEY"],
        }
        self.place = {"path": self.url}  # of its stream
        self._catalog = load_catalog("test", **self.settings)
        self._catalog.create_namespace_if_not_exists("shop")

    def by_catalog(self) -> dict[str, str]:
        """Have streams name the catalog, and return its configuration as environment variables."""
        self.place = {"path": "shop.orders", "catalog": "test"}
        return {f"PYICEBERG_CATALOG__TEST__{n.upper().replace('.', '__')}": v for n, v in self.settings.items()}

    def create(self, rows: pa.Table, *partitions: str) -> None:
        table = self._catalog.create_table("shop.orders", schema=rows.schema, location=self.url)
        if partitions:
            with table.update_spec() as update:
                for name in partitions:
                    update.add_identity(name)
        table.append(rows)

    def drop(self) -> None:
        self._catalog.drop_table("shop.orders")

    @property
    def table(self) -> Any:
        return self._catalog.load_table("shop.orders")

    def add(self, ids: range | list[int]) -> None:
        """Commit rows with these ids."""
        self.append(pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"name {n}" for n in ids])}))

    def append(self, rows: pa.Table) -> None:
        """Commit rows."""
        if self._catalog.table_exists("shop.orders"):
            self.table.append(rows)
        else:
            self.create(rows)

    def delete(self, rows: str) -> None:
        self.table.delete(rows)

    def compact(self) -> None:
        """Write the rows of all files into one, as `rewrite_data_files` does."""
        rows, files = self.table.scan().to_arrow(), [task.file for task in self.table.scan().plan_files()]
        self._commit(Operation.REPLACE, rows, files)

    def replace_files(self, rows: pa.Table) -> None:
        """Replace all data files, and leave delete files as they are."""
        manifests = [m for m in self.table.current_snapshot().manifests(self.table.io) if int(m.content) == 0]
        files = [entry.data_file for m in manifests for entry in m.fetch_manifest_entry(self.table.io)]
        self._commit(Operation.OVERWRITE, rows, files)

    def mark_deleted(self, ids: set[int], file_format: FileFormat = FileFormat.PARQUET) -> None:
        """Delete rows by files that have their numbers, as other writers do: position deletes or deletion vectors."""
        store, found, made = self.table.io, dict[str, list[int]](), list[DataFile]()
        for task in self.table.scan().plan_files():
            with store.new_input(task.file.file_path).open() as file:
                known = pq.read_table(file, columns=["id"])["id"].to_pylist()
            found[task.file.file_path] = [number for number, value in enumerate(known) if value in ids]
        for path, rows in ((p, r) for p, r in found.items() if r):
            data = _puffin(path, rows) if file_format == FileFormat.PUFFIN else _position_deletes(path, rows)
            made.append(self._delete_file(data, len(rows), file_format))
        self._commit(Operation.DELETE, None, deletes=made)

    def replace_keys(self, rows: pa.Table, keys: list[int]) -> None:
        """Delete the rows of keys by a file of equality deletes, and add others, as Flink does."""
        out = io.BytesIO()
        field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(pa.table([keys], pa.schema([field])), out)
        made = self._delete_file(out.getvalue(), len(keys), content=2, equality_ids=[1])
        self._commit(Operation.OVERWRITE, rows, deletes=[made])

    def _delete_file(
        self, data: bytes, rows: int, file_format: FileFormat = FileFormat.PARQUET, content: int = 1, **more: Any
    ) -> DataFile:
        url = f"{self.url}/data/deletes-{uuid4()}.{file_format.value}"
        with self.table.io.new_output(url).create() as out:
            out.write(data)
        file = DataFile.from_args(
            content=DataFileContent(content),
            file_path=url,
            file_format=file_format,
            partition=Record(),
            record_count=rows,
            file_size_in_bytes=len(data),
            **more,
        )
        file.spec_id = self.table.spec().spec_id
        return file

    def _commit(
        self,
        operation: Operation,
        rows: pa.Table | None,
        removed: Iterable[DataFile] = (),
        deletes: Sequence[DataFile] = (),
    ) -> None:
        table = self.table
        with table.transaction() as transaction, _Commit(operation, transaction, table.io) as snapshot:
            snapshot.deletes = deletes
            for file in removed:
                snapshot.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, rows, table.io) if rows is not None else ():
                snapshot.append_data_file(file)


class _Commit(_OverwriteFiles):
    """A snapshot that the library does not commit: of another operation, or with files that delete rows."""

    deletes: Sequence[DataFile] = ()

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        if not self.deletes:
            return manifests
        parts = self.spec(0), self.schema(), self.new_manifest_output(), self.snapshot_id, self._compression
        with _DeleteManifest(*parts) as writer:
            for file in self.deletes:
                writer.add(ManifestEntry.from_args(sequence_number=None, data_file=file))
        return [*manifests, writer.to_manifest_file()]

    def _summary(self, *args: Any) -> Summary:
        operation, self._operation = self._operation, Operation.OVERWRITE
        return super()._summary(*args).model_copy(update={"operation": operation})


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _position_deletes(path: str, rows: list[int]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"file_path": [path] * len(rows), "pos": rows}), out)
    return out.getvalue()


def _puffin(path: str, rows: list[int]) -> bytes:
    """Return a file with a deletion vector: https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type."""
    vector = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, 0) + BitMap(rows).serialize()
    blob = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    about = {"type": "deletion-vector-v1", "fields": [], "snapshot-id": -1, "sequence-number": -1, "offset": 4}
    about |= {"length": len(blob), "properties": {"referenced-data-file": path, "cardinality": str(len(rows))}}
    footer = json.dumps({"blobs": [about]}).encode()
    return b"PFA1" + blob + b"PFA1" + footer + struct.pack("<II", len(footer), 0) + b"PFA1"


class Lake(Source):
    """Runs the tap on one table."""

    def sync(
        self, table: DeltaBucket | IcebergBucket, state: Any = None, *, batches: bool = True, **stream: Any
    ) -> Ran:
        config = {"streams": [stream_of(table, **stream)], "metadata_columns": False}
        if batches:
            config["batch_config"] = self.batches()
        return self.tap("tap-s3-files", config=config, **({"state": state_of(state)} if state else {}))

    def ids(self, ran: Ran, stream: str = "rows") -> list[int]:
        return sorted(row["id"] for row in self.rows(ran.check(), stream))

    def refused(self, ran: Ran, text: str) -> None:
        """Check that a run has sent nothing and ended with one line."""
        assert ran.code == 1
        assert ran.of_type("BATCH", "RECORD") == []
        assert text in ran.stderr.splitlines()[-1], ran.stderr
        assert "Traceback" not in ran.stderr
