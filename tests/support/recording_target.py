"""Target that records its calls and rows in lists, for tests within one process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from singer_arrow.batch import files
from singer_arrow.load.convert import Conversion, UploadColumn
from singer_arrow.load.method import Item, LoadContext, LoadMethod
from singer_arrow.sdk.target import WarehouseTarget
from singer_arrow.settings import json_schema
from singer_arrow.storage.urls import Url
from singer_arrow.warehouse.settings import LoadSettings
from singer_arrow.warehouse.table import WarehouseTable


def column_of(name: str, source: str, arrow: pa.DataType) -> UploadColumn:
    """Return a column of the table."""
    return UploadColumn(name, source, str(arrow), arrow)


class Plain(Conversion[UploadColumn]):
    """The identity conversion."""

    __slots__ = ()

    def read_field(self, column: UploadColumn) -> pa.Field:
        return self.given.field(column.source)


@dataclass(frozen=True)
class PreparedItem:
    """A prepared item; records are read at once, because their file is temporary."""

    item: Item[Plain]
    records: list[Any] = field(default_factory=list)
    bytes: int = 1
    rejects: None = None

    @property
    def rows(self) -> int:
        """What its message counts: the files of batches are not read."""
        return self.item.rows or 0


class Recording(LoadMethod[LoadContext, PreparedItem]):
    """Records the items that it loaded."""

    prepared_class = PreparedItem

    def __init__(self, context: LoadContext, load_method: str) -> None:
        super().__init__(context)
        self.load_method = load_method
        self.loaded_items: list[PreparedItem] = []
        self.replaced = False

    def make_ready(self, item: Item[Plain]) -> PreparedItem:
        if not item.is_temporary or not item.urls:
            return PreparedItem(item)
        path = Url.parse(item.urls[0]).local_path()
        if path.suffix != files.RECORD_SPOOL_SUFFIX:
            return PreparedItem(item, [json.loads(line) for line in path.read_text().splitlines()])
        return PreparedItem(item, [row for batch in files.read_record_spool(path) for row in batch.to_pylist()])

    def stage(self, parts: Sequence[PreparedItem]) -> None:
        self.loaded_items += parts

    def replace_table(self) -> None:
        self.replaced = True


class Append(Recording):
    """The load method `append-only`."""

    keeps_ledger = True


class Merge(Recording):
    """The load method `upsert`."""

    merges = True


class Replace(Recording):
    """The load method `overwrite`; `finished` is set once the table is replaced."""

    deferred = True
    finished = False

    def finish(self) -> None:
        self.finished = True


METHODS = {"append-only": Append, "upsert": Merge, "overwrite": Replace}


class RecordingTable(WarehouseTable):
    """The table; `removed` lists the removals that were requested."""

    alone_bytes = 101
    methods: ClassVar[list[Recording]] = []
    removed: ClassVar[list[Any]] = []

    def prepare_table(self) -> Sequence[UploadColumn]:
        return [column_of(f.name.replace(" ", "_"), f.name, f.type) for f in self.given]

    def make_load_method(self, load_method: str, keys: tuple[str, ...]) -> Recording:
        context = self.load_context(LoadContext, keys)
        self.methods.append(METHODS[load_method](context, load_method))
        return self.methods[-1]

    def conversion(self, constants: Mapping[str, Any], *, keys: tuple[str, ...], place: int | None) -> Plain:
        return Plain(tuple(self.columns), self.given, constants, keys, place)  # type: ignore[arg-type]

    def remove_versions(self, version: int, *, version_column: str, deleted_column: str | None) -> int:
        self.removed.append((version, version_column, deleted_column))
        return 7


class RecordingTarget(WarehouseTarget):
    """The target."""

    name = "target-remembering"
    table_class = RecordingTable
    config_jsonschema: ClassVar[dict[str, Any]] = json_schema(LoadSettings)
