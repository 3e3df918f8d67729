"""Tables of a lake in a bucket of the local S3, written by the libraries of Delta Lake and Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.catalog import load_catalog
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

    def compact(self) -> None:
        self.table.optimize.compact()

    def vacuum(self) -> None:
        """Remove all files that the newest version does not have."""
        self.table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def stream_of(table: Any, **more: Any) -> dict[str, Any]:
    """Return the stream of a table."""
    kind = "delta" if isinstance(table, DeltaBucket) else "iceberg"
    return {"name": "rows", "path": table.url, "format": kind, **more}


def forget(s3: Any, bucket: str, keys: list[str]) -> None:
    """Remove objects."""
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})


class IcebergBucket:
    """A table of Apache Iceberg in a bucket, whose catalog is on disk, and what its writers do to it."""

    def __init__(self, cloud: Cloud, bucket: str, folder: Path) -> None:
        self.bucket, self.url = bucket, f"s3://{bucket}/lake/shop/orders"
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"s3://{bucket}/lake",
            "s3.endpoint": cloud.s3_url,
            "s3.region": "us-east-1",
            "s3.access-key-id": cloud.env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": cloud.env["AWS_SECRET_ACCESS_KEY"],
        }
        self._catalog = load_catalog("test", **self.settings)
        self._catalog.create_namespace_if_not_exists("shop")

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
        rows = pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"name {n}" for n in ids])})
        if self._catalog.table_exists("shop.orders"):
            self.table.append(rows)
        else:
            self.create(rows)


class Lake(Source):
    """Runs the tap on one table."""

    def sync(
        self, table: DeltaBucket | IcebergBucket, state: Any = None, *, batches: bool = True, **stream: Any
    ) -> Ran:
        config = {"streams": [stream_of(table, **stream)], "metadata_columns": False}
        if batches:
            config["batch_config"] = self.batches()
        return self.tap("tap-s3-files", config=config, **({"state": state_of(state)} if state else {}))

    def ids(self, ran: Ran) -> list[int]:
        return sorted(row["id"] for row in self.rows(ran.check()))

    def refused(self, ran: Ran, text: str) -> None:
        """Check that a run has sent nothing and ended with one line."""
        assert ran.code == 1
        assert ran.of_type("BATCH", "RECORD") == []
        assert text in ran.stderr.splitlines()[-1], ran.stderr
        assert "Traceback" not in ran.stderr
