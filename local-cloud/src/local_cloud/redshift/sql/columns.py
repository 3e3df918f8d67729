"""A column in CREATE TABLE or ALTER TABLE ... ADD COLUMN. Pure."""

import hashlib
from dataclasses import dataclass

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.expressions import rewritten
from local_cloud.redshift.sql.tokens import Reader, Token, spelled
from local_cloud.redshift.sql.types import Type, read_type

# PostgreSQL refuses most of them itself, but allows columns named oid today.
_SYSTEM = ("oid", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
_ENCODINGS = {
    "auto", "raw", "az64", "bytedict", "delta", "delta32k", "lzo", "mostly8", "mostly16", "mostly32", "runlength",
    "text255", "text32k", "zstd",
}  # fmt: skip
_ATTRIBUTES = {
    "default", "identity", "generated", "encode", "distkey", "sortkey", "not", "null", "collate", "unique", "primary",
    "references", "check", "constraint",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column's definition."""

    name: str  # in PostgreSQL's SQL
    sql: str  # its definition in PostgreSQL's SQL, with the limit of its bytes
    encoding: str = ""
    is_distkey: bool = False
    is_sortkey: bool = False
    is_identity: bool = False
    is_not_null: bool = False
    has_default: bool = False


def limit(column: str, size: int) -> str:
    """Return the constraint, named by the size, of a column's bytes: PostgreSQL's lengths count characters."""
    digest = hashlib.sha256(column.encode()).hexdigest()[:12]
    return f'CONSTRAINT "bytes_{size}_{digest}" CHECK (octet_length({column}) <= {size})'


def limited(column: str, kind: Type) -> str:
    """Return a column's name and type, with the limit of its bytes."""
    return f"{column} {kind.sql}" + (f" {limit(column, kind.bytes)}" if kind.bytes else "")


def read_column(found: list[Token]) -> Column:
    """Return a column's definition."""
    reader = Reader(found)
    token = reader.next()
    if token.kind not in ("word", "name"):
        raise syntax_error(token.text)
    if token.value.lower() in _SYSTEM:
        raise RedshiftError(f'column name "{token.value}" conflicts with a system column name', "42701")
    name = token.text
    parts, about = [limited(name, read_type(reader, for_column=True))], dict[str, bool]()
    encoding = ""
    while not reader.is_done:
        if reader.accept("encode"):
            encoding = reader.next().low
            if encoding not in _ENCODINGS:
                raise RedshiftError(f'encoding type "{encoding}" does not exist', "42704")
        elif reader.low() in ("identity", "generated"):
            parts.append(_identity(reader))
            about["is_identity"] = True
        elif reader.accept("default"):
            parts.append(f"DEFAULT {_default(reader)}")
            about["has_default"] = True
        elif reader.accept("not", "null"):
            parts.append("NOT NULL")
            about["is_not_null"] = True
        elif reader.accept("primary", "key"):
            parts.append("NOT NULL")  # the only constraint here that Redshift enforces
        elif reader.accept("references"):
            reader.name()
            if reader.low() == "(":
                reader.parenthesised()
        elif reader.accept("collate"):
            reader.next()
        elif reader.low() in ("distkey", "sortkey"):
            about[f"is_{reader.next().low}"] = True
        elif reader.accept("null") or reader.accept("unique"):
            pass
        else:
            raise reader.unexpected()
    return Column(name, " ".join(parts), encoding, **about)


def _identity(reader: Reader) -> str:
    by_default = reader.accept("generated", "by", "default", "as")
    reader.expect("identity")
    numbers = spelled(reader.parenthesised()).split(" , ")
    if len(numbers) != 2:
        raise syntax_error(")")
    seed, step = (number.replace(" ", "") for number in numbers)
    always = "BY DEFAULT" if by_default else "ALWAYS"
    lowest = " MINVALUE -9223372036854775808" if step.startswith("-") or seed.startswith("-") or seed == "0" else ""
    return f"GENERATED {always} AS IDENTITY (START WITH {seed} INCREMENT BY {step}{lowest})"


def _default(reader: Reader) -> str:
    """Return an expression, up to the next attribute outside of parentheses."""
    parts = list[Token]()
    while not reader.is_done and (not parts or reader.low() not in _ATTRIBUTES):
        if reader.low() == "(":
            parts += [Token("operator", "("), *reader.parenthesised(), Token("operator", ")")]
        else:
            parts.append(reader.next())
    spaced = [token for part in parts for token in (part, Token("space", " "))]
    return rewritten(spaced)
