"""Redshift's types in DDL and casts, as PostgreSQL's. Pure. Page "Data types" of the Redshift guide."""

from dataclasses import dataclass

from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.sql.tokens import Reader

MOST_VARCHAR, MOST_CHAR, MOST_VARBYTE = 65535, 4096, 16_777_216
_SIMPLE = {
    "smallint": "smallint", "int2": "smallint", "integer": "integer", "int": "integer", "int4": "integer",
    "bigint": "bigint", "int8": "bigint", "real": "real", "float4": "real", "float8": "double precision",
    "float": "double precision", "boolean": "boolean", "bool": "boolean", "date": "date", "super": "super",
    "timetz": "timetz", "timestamptz": "timestamptz", "oid": "oid", "name": "name", "regclass": "regclass",
    "interval": "interval",
}  # fmt: skip
# In PostgreSQL 8.0 too, but not for users of Redshift.
_UNSUPPORTED = {
    "bytea", "bit", "inet", "cidr", "macaddr", "money", "point", "line", "lseg", "box", "path", "polygon", "circle",
    "geometry", "geography", "hllsketch", "serial", "bigserial", "xml",
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """A type."""

    sql: str  # PostgreSQL's name
    bytes: int | None = None  # maximum size of a value, for text and VARBYTE


def read_type(reader: Reader, *, for_column: bool) -> Type:
    """Return the type that comes next; text without a length has the default length if it is `for_column`."""
    name = reader.next().low
    if name in ("varchar", "nvarchar") or (name == "character" and reader.accept("varying")):
        return _varchar(_length(reader))
    if name == "text":
        return _varchar(None) if for_column else Type("text")
    if name in ("char", "character", "nchar", "bpchar"):
        size = _length(reader) or (256 if name == "bpchar" else 1)
        _check(size, "char", MOST_CHAR)
        return Type(f"char({size})", size)
    if name in ("varbyte", "varbinary") or (name == "binary" and reader.accept("varying")):
        size = _length(reader) or 64000
        _check(size, "varbyte", MOST_VARBYTE)
        return Type("bytea", size)
    if name in ("decimal", "numeric"):
        return _decimal(reader)
    if name in ("timestamp", "time"):
        zoned = reader.accept("with", "time", "zone")
        reader.accept("without", "time", "zone")
        return _without_array(reader, Type(name + "tz" * zoned))
    if name == "double":
        reader.expect("precision")
        return Type("double precision")
    if name in _UNSUPPORTED:
        raise RedshiftError(f'unsupported type "{name}"', "0A000")
    if name not in _SIMPLE:
        raise RedshiftError(f'type "{name}" does not exist', "42704")
    if name == "float" and reader.low() == "(":
        digits = int(reader.parenthesised()[0].text)
        return Type("real" if digits <= 24 else "double precision")
    if name == "interval":
        while reader.low() in ("year", "to", "month", "day", "hour", "minute", "second"):
            reader.next()
    return _without_array(reader, Type(_SIMPLE[name]))


def _without_array(reader: Reader, found: Type) -> Type:
    if reader.low() == "[":
        raise RedshiftError(f'unsupported type "{found.sql}[]"', "0A000")
    return found


def _length(reader: Reader) -> int | None:
    if reader.low() != "(":
        return None
    inner = reader.parenthesised()
    if len(inner) == 1 and inner[0].low == "max":
        return MOST_VARCHAR
    if len(inner) != 1 or not inner[0].text.isdigit():
        raise reader.unexpected()
    return int(inner[0].text)


def _varchar(size: int | None) -> Type:
    size = 256 if size is None else size
    _check(size, "varchar", MOST_VARCHAR)
    return Type(f"varchar({size})", size)


def _check(size: int, name: str, most: int) -> None:
    if size < 1:
        raise RedshiftError(f"length for type {name} must be at least 1", "22023")
    if size > most:
        raise RedshiftError(f"length for type {name} cannot exceed {most}", "22023")


def _decimal(reader: Reader) -> Type:
    if reader.low() != "(":
        return Type("numeric(18,0)")
    numbers = [token.text for token in reader.parenthesised() if token.text != ","]
    precision, scale = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0
    if not 1 <= precision <= 38:
        raise RedshiftError(f"NUMERIC precision {precision} must be between 1 and 38", "22023")
    if not 0 <= scale <= min(precision, 37):
        raise RedshiftError(f"NUMERIC scale {scale} must be between 0 and precision {precision}", "22023")
    return Type(f"numeric({precision},{scale})")
