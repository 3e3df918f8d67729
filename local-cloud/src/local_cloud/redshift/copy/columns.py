"""The columns of the destination table, and Arrow values that their readers share. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift.errors import UNDEFINED_COLUMN, RedshiftError

TEXT = ("varchar", "char")
STRING = pa.large_string()
YEAR_1 = {"date": -719162, "timestamp": -62135596800000000}
"""Days and microseconds from 1970 to the year 1."""
INTEGERS = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}

_SPELLED = {
    "int2": "smallint",
    "int4": "integer",
    "int": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "decimal": "numeric",
    "bool": "boolean",
    "character": "char",
    "bpchar": "char",
    "character varying": "varchar",
    "text": "varchar",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "time without time zone": "time",
    "time with time zone": "timetz",
    "binary varying": "varbyte",
    "varbinary": "varbyte",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, with Redshift's names."""

    name: str
    # smallint, integer, bigint, real, double precision, numeric, boolean, char, varchar, date, timestamp, timestamptz,
    # time, timetz, super or varbyte; other spellings (int4, bpchar) are replaced by these
    type: str
    length: int | None = None  # of char, varchar and varbyte, in bytes
    precision: int | None = None  # of numeric, in digits
    scale: int | None = None
    nullable: bool = True
    identity: bool = False  # whether the table itself fills it

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", _SPELLED.get(self.type.lower(), self.type.lower()))

    @property
    def size(self) -> str:
        """Return the value of col_length in stl_load_errors."""
        if self.type == "numeric":
            return f"{self.precision or 18}, {self.scale or 0}"
        return str(self.length) if self.length else "0"


def chosen(columns: Sequence[Column], names: Sequence[str] | None, *, explicit_ids: bool, table: str) -> list[Column]:
    """Return the columns that a file fills, in the file's order."""
    if names is None:
        return [column for column in columns if explicit_ids or not column.identity]
    known = {column.name: column for column in columns}
    found: list[Column] = []
    for name in names:
        if name not in known:
            raise RedshiftError(f'column "{name}" of relation "{table}" does not exist', UNDEFINED_COLUMN)
        if known[name] in found:
            raise RedshiftError(f'column "{name}" specified more than once', "42701")
        if known[name].identity and not explicit_ids:
            raise RedshiftError(f'cannot set an identity column to a value: "{name}" (use EXPLICIT_IDS)', "0A000")
        found.append(known[name])
    return found


def scalar(text: str) -> pa.Scalar:
    """Return a text as a value of `STRING`."""
    return pa.scalar(text, STRING)


def any_of(mask: pa.Array) -> bool:
    """Return whether a value is true."""
    return bool(pc.any(mask).as_py())
