"""Write docs/types.md: which types the tap takes, what messages hold of them, and which columns warehouses get.

`python docs/type_tables.py` writes; with `--check` it fails if the page is not as it would be written. The cells about
files are results of the code: values are written to files, read by the tap's formats, and written into batch files and
records.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from singer_sdk.singerlib.json import serialize_json
from type_kinds import Kind, kinds, type_name
from type_schemas import WORDS, schemas
from type_texts import Written, deduced_from_csv, deduced_from_json, set_for_csv, set_for_json
from written_files import write_or_check

from singer_arrow.errors import SchemaError
from singer_arrow.formats import FORMATS, WRITABLE
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.records.schema import in_newest_draft
from singer_arrow.records.validation import to_records
from singer_arrow.schema.arrow_schema import is_json, parse_type
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url
from tap_s3_files.discover import source_schema
from tap_s3_files.settings import StreamSettings
from target_bigquery import columns as bigquery
from target_redshift import columns as redshift

PAGE = Path(__file__).parent / "types.md"
INTRODUCTION = """# Types

Which columns the types of files become, written by `docs/type_tables.py`, which makes each cell by running the code.
`tap-s3-files PATH --preview` shows those of your files, `schema` sets them ([how](reading-files.md#types)):

```yaml
streams:
  - name: orders
    path: s3://shop/orders/**/*.csv
    schema: {price: "decimal(12,2)", zip: string}
```

![The way of a value: in the file, as Arrow type, as JSON Schema, as column](pictures/types.svg)

Types of Arrow have Arrow's names: `halffloat`, `float` and `double` are floats of 16, 32 and 64 bits. "JSON text" is a
column that may hold any JSON value. An object whose JSON Schema allows members beyond its `properties` is `JSON` in a
new column of BigQuery, otherwise a `RECORD`; members that the SCHEMA does not declare are left out, with a warning.
"""
ORC = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "decimal(38,9)": pa.decimal128(38, 9),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with local time zone": pa.timestamp("us", "UTC"),
    "array<bigint>": pa.list_(pa.int64()),
    "struct<a:bigint>": pa.struct([("a", pa.int64())]),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
}
"""ORC's types, and those that Arrow writes as them."""
AVRO: tuple[Any, ...] = (
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    *({"type": "int", "logicalType": name} for name in ("date", "time-millis")),
    *(
        {"type": "long", "logicalType": name}
        for name in ("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos")
    ),
    *({"type": "long", "logicalType": f"local-timestamp-{unit}"} for unit in ("millis", "micros")),
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 9},
    {"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 38},
    {"type": "string", "logicalType": "uuid"},
    {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
    {"type": "enum", "name": "e", "symbols": ["a", "b"]},
    {"type": "fixed", "name": "f", "size": 3},
    {"type": "array", "items": "long"},
    {"type": "map", "values": "long"},
    {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]},
    ["null", "long"],
    ["long", "string"],
)

_OF_DECIMALS = """\
A decimal of p digits, s of them after the point, becomes the first of these columns that holds all of its digits, as in
the table, which has the bounds of each. Text has every digit. A column that exists is
[widened, or gets a second one beside it](evolution.md).

- BigQuery: `NUMERIC`, up to 29 digits before the point (p - s) and 9 after it; `BIGNUMERIC`, up to 38 and 38; `STRING`.
- Redshift: `DECIMAL(p, s)`, up to 38 digits, 37 of them after the point; `VARCHAR`."""
_DECIMALS = (
    (12, 2),
    (29, 0),
    (30, 0),
    (38, 9),
    (38, 10),
    (38, 0),
    (39, 0),
    (38, 37),
    (38, 38),
    (39, 1),
    (76, 38),
    (76, 39),
)
"""Precision and scale at which the kind of the column changes."""

Row = tuple[str, ...]
_STORAGE = Storage()
_STREAM = StreamSettings("s", ())
_IN_WAREHOUSES = ("BigQuery", "Redshift")


class Workshop:
    """Writes files and reads them as the tap does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def schema(self, name: str, write: Callable[[str], object]) -> pa.Schema:
        """SCHEMA of the column `c` of a file, in Arrow's types."""
        path = self.folder / name
        write(str(path))
        reader = ObjectReader(_STORAGE, Url.parse(str(path)))
        found = FORMATS[path.suffix[1:]].infer(reader, ReadOptions(), sample_bytes=1 << 20)
        return source_schema([pa.schema([found.field("c")])], _STREAM)

    def rows(self, name: str, data: bytes, field: pa.Field) -> pa.Table:
        """The rows of a file."""
        path = self.folder / name
        path.write_bytes(data)
        reader, schema = ObjectReader(_STORAGE, Url.parse(str(path))), pa.schema([field])
        read = FORMATS[path.suffix[1:]].read(reader, schema, ReadOptions(loose_text=True))
        return pa.Table.from_batches(list(read), schema)

    def parquet(self) -> Iterator[Row]:
        """Parquet's types, as programs without Arrow write them."""
        for kind in kinds():
            table = kind.table().slice(0, 1)
            try:
                schema = self.schema("a.parquet", lambda path, t=table: pq.write_table(t, path, store_schema=False))
            except (pa.ArrowException, OSError):
                continue  # Parquet has no such type
            yield (_parquet_types(self.folder / "a.parquet"), *_columns(schema))
        moment = pa.table({"c": pa.array([0], pa.timestamp("us"))})
        schema = self.schema(
            "a.parquet", lambda path: pq.write_table(moment, path, use_deprecated_int96_timestamps=True)
        )
        yield (_parquet_types(self.folder / "a.parquet"), *_columns(schema))

    def arrow(self) -> Iterator[Row]:
        """Arrow's types."""
        for kind in kinds():
            yield (
                _code(kind.name),
                *_columns(self.schema("a.arrow", lambda path, k=kind: _write_arrow(k.table(), path))),
            )
        intervals = pa.table({"c": pa.nulls(1, pa.month_day_nano_interval())})
        try:
            self.schema("a.arrow", lambda path: _write_arrow(intervals, path))
        except SchemaError as error:
            yield (
                _code(type_name(intervals.schema.field("c").type)),
                f"refused: {str(error).partition('a.arrow: ')[2]}",
                "",
                "",
            )

    def orc(self) -> Iterator[Row]:
        """ORC's types."""
        for name, t in ORC.items():
            table = pa.table({"c": pa.nulls(1, t)})
            yield (_code(name), *_columns(self.schema("a.orc", lambda path, t=table: orc.write_table(t, path))))

    def avro(self) -> Iterator[Row]:
        """Avro's types."""
        for t in AVRO:
            record = {"type": "record", "name": "row", "fields": [{"name": "c", "type": t}]}
            yield (_code(_json(t)), *_columns(self.schema("a.avro", lambda path, r=record: _write_avro(r, path))))

    def deduced(self, suffix: str, texts: Iterable[Written]) -> Iterator[Row]:
        """What types columns of text have if no setting gives them."""
        for text in texts:
            data: bytes = getattr(text, suffix)
            schema = self.schema(f"a.{suffix}", lambda path, d=data: Path(path).write_bytes(d))
            yield (text.label, ", ".join(_code(_shortened(cell)) for cell in text.cells if cell), *_columns(schema))
        nothing = {"csv": "c,n\n,1\n", "jsonl": '{"c": null}\n'}[suffix]
        schema = self.schema(f"a.{suffix}", lambda path: Path(path).write_text(nothing))
        yield ("no value at all", "", *_columns(schema))

    def set(self, suffix: str, texts: Iterable[Written]) -> Iterator[Row]:
        """What types that are set make of texts."""
        for text in texts:
            assert text.setting
            field = parse_type("c", text.setting)
            rows = self.rows(f"a.{suffix}", getattr(text, suffix), field)
            become = [_record_cell(rows.slice(i, 1)) for i in range(len(text.cells))]
            pairs = (f"{_code(c or '(empty)')}: {_code(b)}" for c, b in zip(text.cells, become, strict=True))
            yield (_code(text.setting), _code(_type(field)), "; ".join(pairs))

    def messages(self) -> Iterator[Row]:
        """What messages hold of each type of SCHEMA, and the columns that it becomes."""
        for kind in _distinct(kinds()):
            row = pa.table([kind.expected.slice(0, 1)], schema=pa.schema([kind.field]))
            property_ = to_json_schema(row.schema)["properties"]["c"]
            path = self.folder / "batch.parquet"
            WRITABLE["parquet"].write(row.to_batches(), row.schema, path)
            cells = (_json(property_), _shortened(self._jsonl_cell(row)), _shortened(_record_cell(row)))
            yield (
                *(_code(_type(kind.field)), _code(cells[0]), _parquet_types(path)),
                *(_code(cells[1]), _code(cells[2]), *_columns(row.schema)[1:]),
            )

    def schemas(self) -> Iterator[Row]:
        """What properties of other taps' SCHEMAs mean."""
        for given in schemas():
            schema = from_json_schema(in_newest_draft({"properties": {"c": given}})[0])
            yield (_code(_json(given)), *_columns(schema))

    def _jsonl_cell(self, row: pa.Table) -> str:
        path = self.folder / "batch.jsonl.gz"
        WRITABLE["jsonl"].write(row.to_batches(), row.schema, path)
        line = gzip.decompress(path.read_bytes()).decode().strip()
        return line.removeprefix('{"c":').removesuffix("}")


def _distinct(all_kinds: Iterable[Kind]) -> Iterable[Kind]:
    """The first kind of each type of SCHEMA."""
    found: dict[str, Kind] = {}
    for kind in all_kinds:
        found.setdefault(_type(kind.field), kind)
    return found.values()


def _write_arrow(table: pa.Table, path: str) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _write_avro(schema: dict[str, Any], path: str) -> None:
    with Path(path).open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), [])


def _columns(schema: pa.Schema) -> Row:
    """The type of `c` in SCHEMA, and its columns in the warehouses."""
    (in_bigquery,) = bigquery.columns_of(schema)
    (in_redshift,) = redshift.columns_of(schema)
    return _code(_type(schema.field("c"))), _code(_bigquery(in_bigquery)), _code(str(in_redshift))


def _bigquery(column: bigquery.Column) -> str:
    kind = column.kind
    if column.fields:
        kind = f"{kind}<{', '.join(f'{f.name} {_bigquery(f)}' for f in column.fields)}>"
    return f"ARRAY<{kind}>" if column.repeated else kind


def _type(field: pa.Field) -> str:
    return "JSON text" if is_json(field) else str(field.type)


def _parquet_types(path: Path) -> str:
    """Physical and logical types of the column `c`, or of all that it consists of."""
    schema = pq.ParquetFile(path).schema
    leaves = [schema.column(i) for i in range(len(schema.names))]
    parts = [(leaf.path.partition(".")[2], _parquet_type(leaf)) for leaf in leaves]
    return _code(", ".join(f"{path}: {t}" if path else t for path, t in parts))


def _parquet_type(leaf: Any) -> str:
    logical = str(leaf.logical_type)
    physical = leaf.physical_type
    if physical == "FIXED_LEN_BYTE_ARRAY":
        physical = f"{physical}({leaf.length})"
    for noise in (", is_from_converted_type=false", ", force_set_converted_type=false"):
        logical = logical.replace(noise, "")
    return physical if logical == "None" else f"{physical} {logical}"


def _record_cell(row: pa.Table) -> str:
    (record,) = to_records(row.combine_chunks().to_batches()[0])
    text: str = serialize_json(record["c"], ensure_ascii=False)
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shortened(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:80]}..."


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _table(heads: Row, rows: Iterable[Row]) -> str:
    lines = [heads, tuple("---" for _ in heads), *dict.fromkeys(rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def decimals() -> Iterator[Row]:
    """The columns of decimals at the bounds of each kind."""
    for precision, scale in _DECIMALS:
        _, *columns = _columns(pa.schema([parse_type("c", f"decimal({precision},{scale})")]))
        yield (_code(f"decimal({precision}, {scale})"), *columns)


def page() -> str:
    """The page's text."""
    with tempfile.TemporaryDirectory(prefix="type-tables-") as folder:
        return "\n".join(_parts(Workshop(Path(folder))))


_OF_PARQUET = """\
Files without a schema of Arrow; where a file has one, its types count. VARIANT is JSON text. GEOMETRY and GEOGRAPHY,
and columns that a GeoParquet file lists with the encoding WKB, are well-known text (`POINT (1 2)`), without their
coordinate system: `GEOGRAPHY` could not hold planar edges, nor rings of any orientation. A query decides that:
`ST_GEOGFROMTEXT(shape, planar => TRUE, make_valid => TRUE)`."""


def _parts(shop: Workshop) -> Iterator[str]:
    in_schema = ("in SCHEMA", *_IN_WAREHOUSES)
    deduced = ("all values are", "examples", *in_schema)
    messages = ("in SCHEMA", "JSON Schema", "Parquet batch file", "JSONL batch file", "RECORD", *_IN_WAREHOUSES)
    yield INTRODUCTION
    yield _section("## Decimals", _OF_DECIMALS)
    yield _table(("decimal(p, s)", *_IN_WAREHOUSES), decimals())
    yield "## What files of columns hold\n"
    yield _section("### Parquet", _OF_PARQUET)
    yield _table(("Parquet", *in_schema), shop.parquet())
    yield "### Arrow IPC, Feather, and Parquet that Arrow wrote\n"
    yield _table(("Arrow", *in_schema), shop.arrow())
    yield "### Avro\n"
    yield _table(("Avro", *in_schema), shop.avro())
    yield _section("### ORC", "Timestamps from 1677 to 2262; others are refused.")
    yield _table(("ORC", *in_schema), shop.orc())
    yield "## What text holds\n"
    yield _section(
        "### CSV: types that are deduced", "Empty values are null. Columns of fixed width are like those of CSV."
    )
    yield _table(deduced, shop.deduced("csv", deduced_from_csv()))
    yield _section(
        "### CSV: types that are set", "What the setting `schema` makes of texts, as RECORD messages show it."
    )
    yield _table(("type", "in SCHEMA", "texts and values"), shop.set("csv", set_for_csv()))
    yield _section("### JSON Lines: types that are deduced", "Lists of objects too. `null` is null.")
    yield _table(deduced, shop.deduced("jsonl", deduced_from_json()))
    yield "### JSON Lines: types that are set\n"
    yield _table(("type", "in SCHEMA", "JSON and values"), shop.set("jsonl", set_for_json()))
    yield _section("## What messages hold", "Of each type that the tap sends: its JSON Schema, examples, its columns.")
    yield _table(messages, shop.messages())
    yield _section("## What SCHEMAs of other taps mean", WORDS.rstrip())
    yield _table(("JSON Schema", *in_schema), shop.schemas())


def _section(title: str, words: str) -> str:
    return f"{title}\n\n{words}\n"


def main() -> int:
    """Write, or check."""
    return write_or_check({PAGE: page()})


if __name__ == "__main__":
    sys.exit(main())
