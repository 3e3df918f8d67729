"""A group: items that are loaded together, and their files in copy batches."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from singer_arrow.load.dead_letters import BatchRejects
from singer_arrow.storage.urls import Url
from target_redshift.ledger import MARK
from target_redshift.load.copy_batch import CopyBatch, StagingTables
from target_redshift.load.s3_staging import CopyFile, S3StagingFolder
from target_redshift.load.upload_formats import UploadEncoding
from target_redshift.load.uploads import Layout, PreparedItem
from target_redshift.tables.staging_columns import file_schema, upload_columns
from target_redshift.tables.types import Column


@dataclass(slots=True, eq=False)
class Group:
    """Items that have rows and are loaded together, also if none of these is loaded.

    `mark` is a unique id of this group, for the ledger; `tables` are the staging tables, as long as their session
    lasts; `may_be_committed`: the answer to a COMMIT was lost.
    """

    parts: list[PreparedItem]
    copy_batches: list[CopyBatch] = field(default_factory=list)
    mark: str = field(default_factory=lambda: f"{MARK}{uuid.uuid4().hex}")
    tables: StagingTables | None = None
    may_be_committed: bool = False

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(p.rows for p in self.parts)

    @property
    def rejected(self) -> list[BatchRejects]:
        """The rejected rows of the group."""
        return [BatchRejects(p.item.batch_id, p.rejects.rows) for p in self.parts if p.rejects]


def copy_batches(
    parts: Sequence[PreparedItem],
    staging_folder: S3StagingFolder,
    columns: Sequence[Column],
    upload_format: str,
    *,
    ordered: bool,
) -> Iterator[CopyBatch]:
    """Put the rows of a group's parts, one at least, where COPY finds them, and write the manifests.

    `columns` are the table's, which rows are uploaded for; `ordered` rows have the column of their order in the stream.
    """
    names = (parts[0].item.stream, parts[0].item.batch_id or "records")
    by_layout: dict[Layout, tuple[Layout, list[CopyFile]]] = {}
    for part in parts:
        for layout, file in part.files:
            by_layout.setdefault(layout.key, (layout, []))[1].append(file)
    for layout, files in by_layout.values():
        yield CopyBatch(layout, tuple(files), staging_folder.put_manifest(files, *names), is_staged_here=False)
    spools = [part.spool for part in parts if part.spool and part.rows]
    if not spools:
        return
    if any(part.has_long_json for part in parts):
        upload_format = "jsonl"  # COPY parses its objects itself, and takes some megabytes of them
    encoding = UploadEncoding(upload_format, file_schema(columns, upload_format, ordered=ordered))
    layout = Layout(
        upload_format,
        tuple(upload_columns(columns, upload_format, ordered=ordered)),
        None if upload_format == "parquet" else "gzip",
    )
    uploaded = staging_folder.upload(spools, encoding, *names)
    try:
        manifest = staging_folder.put_manifest(uploaded, *names)
    except BaseException:
        staging_folder.remove([Url.parse(file.url) for file in uploaded])
        raise
    yield CopyBatch(layout, uploaded, manifest, is_staged_here=True)


def ours(copy_batches: Sequence[CopyBatch]) -> list[Url]:
    """Return what was staged for COPY: manifests, and files that are not the tap's."""
    files = [
        Url.parse(file.url) for copy_batch in copy_batches if copy_batch.is_staged_here for file in copy_batch.files
    ]
    return [*files, *(copy_batch.manifest for copy_batch in copy_batches)]
