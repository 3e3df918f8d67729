"""The execution of a COPY: files in, payload out, and the results."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from local_cloud.redshift.copy import parquet, sources
from local_cloud.redshift.copy.columns import Column, chosen
from local_cloud.redshift.copy.command import CopyCommand
from local_cloud.redshift.copy.json import objects as json
from local_cloud.redshift.copy.sources import File, Objects
from local_cloud.redshift.copy.text import delimited as text
from local_cloud.redshift.copy.text.pieces import Load, Piece
from local_cloud.redshift.errors import LoadErrorRow, RedshiftError, load_failed

DEFAULT_SLICES = 2

READERS: Mapping[str, Callable[[Load, File], Iterator[Piece]]] = {
    "parquet": parquet.pieces,
    "json": json.pieces,
    "csv": text.pieces,
    "delimited": text.pieces,
}


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A loaded file: a row of stl_load_commits and of stl_file_scan."""

    url: str
    bytes: int
    rows: int
    slice: int


@dataclass(slots=True)
class CopyPlan:
    """A COPY whose files have been found, and what was read so far."""

    names: tuple[str, ...]  # the columns that the payload fills, in order
    # The payload for PostgreSQL's `COPY table (names) FROM STDIN` in its text format. Raises RedshiftError if the load
    # fails; the caller then rolls back.
    chunks: Iterator[bytes]
    rows: int = 0
    errors: list[LoadErrorRow] = field(default_factory=list)  # the wrong records
    files: list[CopiedFile] = field(default_factory=list)  # the files that are read to their end


def run(
    command: CopyCommand,
    columns: Sequence[Column],  # all of the table, in their order
    *,
    slices: int = DEFAULT_SLICES,
    objects: Objects | None = None,  # by default the S3 of `environ` with the statement's credentials
    environ: Mapping[str, str] = os.environ,  # AWS_ENDPOINT_URL, AWS_REGION and the cluster's own keys
) -> CopyPlan:
    """Find and check the files of a COPY, and prepare to read them."""
    target = chosen(columns, command.columns, explicit_ids=command.has("explicit_ids"), table=command.table)
    if not target:
        raise RedshiftError(f"Cannot COPY into {command.table}: no column to load into", "0A000")
    reach = objects or sources.S3Objects(command.credentials, command.region, environ)
    files = sources.find(command, reach)
    plan = CopyPlan(tuple(column.name for column in target), iter(()))
    load = Load(command, tuple(target), reach, lambda row: _note(plan, command, row))
    plan.chunks = _ahead(_chunks(plan, load, files, slices))
    return plan


def _ahead(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the chunks, and prepare the next one while PostgreSQL receives one."""
    with ThreadPoolExecutor(1) as maker:
        coming = maker.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = maker.submit(next, chunks, None)
            yield chunk


def _note(plan: CopyPlan, command: CopyCommand, row: LoadErrorRow) -> None:
    plan.errors.append(row)
    if len(plan.errors) >= command.max_errors:
        raise load_failed(command.table)


def _chunks(plan: CopyPlan, load: Load, files: Sequence[File], count: int) -> Iterator[bytes]:
    read = READERS[load.command.format]
    for index, file in enumerate(files):
        rows = 0
        for piece in read(load, file):
            if load.command.has("noload"):
                continue
            rows += piece.rows
            plan.rows += piece.rows
            yield piece.payload
        plan.files.append(CopiedFile(file.url, file.size, rows, index % max(1, count)))
