"""The text of an UNLOAD, and its rows as files. Pure. Page "UNLOAD" of the Redshift guide."""

import bz2
import csv
import gzip
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.statement import Unload
from local_cloud.redshift.sql.tokens import Reader, Token, significant

Row = list[str | None]
_FLAGS = {
    "header", "manifest", "escape", "addquotes", "allowoverwrite", "cleanpath", "gzip", "bzip2", "zstd", "verbose",
}  # fmt: skip
_TEXTS = {
    "iam_role", "credentials", "access_key_id", "secret_access_key", "session_token", "delimiter", "null", "region",
    "extension",
}  # fmt: skip
_NOT_HERE = {"partition", "maxfilesize", "rowgroupsize", "encrypted", "kms_key_id", "fixedwidth"}
_ENDINGS = {"gzip": ".gz", "bzip2": ".bz2", "zstd": ".zst"}
_COPY_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unload(text: str, found: list[Token]) -> Unload:
    """Parse UNLOAD ('query') TO 's3://...' and its options."""
    reader = Reader(significant(found))
    reader.expect("unload")
    query = reader.parenthesised()
    if len(query) != 1 or query[0].kind not in ("string", "dollar"):
        raise syntax_error("(")
    reader.expect("to")
    target = reader.next().value
    options = dict[str, str]()
    while not reader.is_done:
        name, value = _option(reader)
        options[name] = value
    if not target.startswith("s3://"):
        raise RedshiftError(f"UNLOAD destination is not supported. (Hint: only S3 based unload is allowed): {target}")
    if not options.keys() & {"iam_role", "credentials", "access_key_id"}:
        raise RedshiftError("UNLOAD takes one of IAM_ROLE, CREDENTIALS and ACCESS_KEY_ID", "42601")
    if options.get("format") == "parquet" and (wrong := options.keys() & {"delimiter", "header", "gzip", "addquotes"}):
        raise RedshiftError(f"{min(wrong).upper()} is not supported for UNLOAD to PARQUET", "0A000")
    return Unload(text, re.sub(r"\\(.)", r"\1", query[0].value, flags=re.DOTALL), target, options)


def _option(reader: Reader) -> tuple[str, str]:
    reader.accept("format")
    reader.accept("as")
    name = reader.next().low
    if name in ("csv", "parquet", "json"):
        return "format", name
    if name in _FLAGS:
        return name, ""
    if name == "parallel":
        return name, "off" if reader.next().low in ("off", "false") else "on"
    if name in _NOT_HERE:
        raise RedshiftError(f"the local Redshift cannot do this: UNLOAD with {name.upper()}", "0A000")
    if name not in _TEXTS:
        raise syntax_error(name)
    reader.accept("as")
    return name, reader.next().value


def rows_of(copied: bytes) -> list[Row]:
    """Return the rows of PostgreSQL's COPY in its text format."""
    return [[_value(field) for field in line.split("\t")] for line in copied.decode().split("\n")[:-1]]


def _value(field: str) -> str | None:
    if field == "\\N":
        return None
    return re.sub(r"\\(.)", lambda match: _COPY_ESCAPES.get(match[1], match[1]), field, flags=re.DOTALL)


@dataclass(frozen=True)
class ResultColumn:
    """A column of the query's result, with PostgreSQL's type and type modifier."""

    name: str
    type_id: int
    modifier: int


def files(
    command: Unload, columns: Sequence[ResultColumn], rows: Sequence[Row], slices: int
) -> list[tuple[str, bytes]]:
    """Return the objects to write, by the suffix of their URLs after the target's."""
    count = 1 if command.options.get("parallel") == "off" else max(1, min(slices, len(rows)))
    made = list[tuple[str, bytes]]()
    for number in range(count):
        share = rows[len(rows) * number // count : len(rows) * (number + 1) // count]
        name = "000" if command.options.get("parallel") == "off" else f"{number:04d}_part_00"
        made.append((name + _ending(command), _contents(command, columns, share)))
    return made


def _ending(command: Unload) -> str:
    if "extension" in command.options:
        return "." + command.options["extension"].lstrip(".")
    if command.options.get("format") == "parquet":
        return ".parquet"
    return next((ending for name, ending in _ENDINGS.items() if name in command.options), "")


def _contents(command: Unload, columns: Sequence[ResultColumn], rows: Sequence[Row]) -> bytes:
    form = command.options.get("format", "")
    if form == "parquet":
        return _parquet(columns, rows)
    if form == "json":
        return _compressed(command, _json(columns, rows))
    sink = io.StringIO()
    if "header" in command.options:
        rows = [[column.name for column in columns], *rows]
    null = command.options.get("null", "")
    if form == "csv":
        writer = csv.writer(sink, delimiter=command.options.get("delimiter", ","), lineterminator="\n")
        writer.writerows([null if value is None else value for value in row] for row in rows)
    else:
        delimiter = command.options.get("delimiter", "|")
        for row in rows:
            sink.write(delimiter.join(_field(command, value, delimiter, null) for value in row) + "\n")
    return _compressed(command, sink.getvalue().encode())


def _field(command: Unload, value: str | None, delimiter: str, null: str) -> str:
    if value is None:
        return null
    if "escape" in command.options:
        value = re.sub(rf"([\\\n\r{re.escape(delimiter)}\"'])", r"\\\1", value)
    if "addquotes" in command.options:
        doubled = value if "escape" in command.options else value.replace('"', '""')
        return f'"{doubled}"'
    return value


def _compressed(command: Unload, data: bytes) -> bytes:
    if "gzip" in command.options:
        return gzip.compress(data)
    if "bzip2" in command.options:
        return bz2.compress(data)
    if "zstd" in command.options:
        import pyarrow as pa

        return bytes(pa.compress(data, codec="zstd", asbytes=True))
    return data


def _json(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> bytes:
    def scalar(value: str | None, column: ResultColumn) -> str:
        if value is None:
            return "null"
        if column.type_id in (21, 23, 20, 700, 701, 1700, 3802):
            return value
        return {"t": "true", "f": "false"}[value] if column.type_id == 16 else json.dumps(value, ensure_ascii=False)

    lines = [
        "{" + ",".join(f"{json.dumps(c.name)}:{scalar(v, c)}" for v, c in zip(row, columns, strict=True)) + "}\n"
        for row in rows
    ]
    return "".join(lines).encode()


def _parquet(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = [_array(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays, names=[column.name for column in columns]), sink)
    return sink.getvalue()


def _array(column: ResultColumn, values: Row) -> Any:
    import pyarrow as pa

    simple = {
        16: pa.bool_(), 21: pa.int16(), 23: pa.int32(), 20: pa.int64(), 700: pa.float32(), 701: pa.float64(),
        1082: pa.date32(), 1114: pa.timestamp("us"), 1184: pa.timestamp("us", "UTC"),
    }  # fmt: skip
    if column.type_id == 16:
        return pa.array([None if value is None else value == "t" for value in values], pa.bool_())
    if column.type_id == 17:
        return pa.array([None if value is None else bytes.fromhex(value[2:]) for value in values], pa.binary())
    if column.type_id == 1700:
        modifier = column.modifier - 4 if column.modifier > 4 else (38 << 16) + 18
        return pa.array(values, pa.string()).cast(pa.decimal128(modifier >> 16, modifier & 2047))
    if column.type_id == 1184:
        return pa.array([value and value + ":00" * (value[-3] in "+-") for value in values]).cast(simple[1184])
    return pa.array(values, pa.string()).cast(simple.get(column.type_id, pa.string()))
