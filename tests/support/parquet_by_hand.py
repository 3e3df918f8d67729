"""Write Parquet files of any type byte by byte, including types that no installed writer supports.

See parquet.thrift of the Apache Parquet format; structures use Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Kind(IntEnum):
    """Physical types."""

    GROUP = -1
    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED = 7


class Old(IntEnum):
    """Converted types, the predecessors of logical types."""

    UTF8 = 0
    MAP = 1
    MAP_KEY_VALUE = 2
    LIST = 3
    ENUM = 4
    DECIMAL = 5
    DATE = 6
    TIME_MILLIS = 7
    TIME_MICROS = 8
    TIMESTAMP_MILLIS = 9
    TIMESTAMP_MICROS = 10
    UINT_8 = 11
    UINT_16 = 12
    UINT_32 = 13
    UINT_64 = 14
    INT_8 = 15
    INT_16 = 16
    INT_32 = 17
    INT_64 = 18
    JSON = 19
    BSON = 20
    INTERVAL = 21


REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


@dataclass(frozen=True)
class Struct:
    """A Thrift structure: values by field number. Integers are i32, except `Long` and `Byte`."""

    fields: dict[int, Any] = field(default_factory=dict)


class Long(int):
    """An i64."""


class Byte(int):
    """An i8."""


@dataclass(frozen=True)
class Node:
    """A column, or a group of columns.

    Attributes:
        name: Its name.
        kind: Physical type.
        repetition: REQUIRED, OPTIONAL or REPEATED.
        old: Converted type.
        logical: The field of the union LogicalType that is set, and its structure.
        size: Bytes of a value of fixed length.
        scale: Scale of a decimal.
        precision: Precision of a decimal.
        children: Members of a group.
        data: Values of a leaf, PLAIN encoded.
        count: Number of values and levels.
        levels: Repetition and definition levels, if any: each a list of levels and their bit width.
    """

    name: str
    kind: Kind
    repetition: int = REQUIRED
    old: Old | None = None
    logical: tuple[int, Struct] | None = None
    size: int | None = None
    scale: int | None = None
    precision: int | None = None
    children: tuple[Node, ...] = ()
    data: bytes = b""
    count: int = 0
    levels: tuple[tuple[Sequence[int], int], ...] = ()


@dataclass(frozen=True)
class Lie:
    """False statements to write into the footer.

    Attributes:
        rows: Number of rows of the row group.
        chunk: Fields of the ColumnMetaData of all columns.
        times: How often each column occurs in the row group.
    """

    rows: int | None = None
    chunk: dict[int, Any] = field(default_factory=dict)
    times: int = 1


def parquet(rows: int, *columns: Node, lie: Lie = Lie()) -> bytes:
    """Return a file with one row group, each column one page."""
    out, chunks = bytearray(b"PAR1"), []
    for path, leaf in [found for column in columns for found in _leaves(column, ())]:
        body = b"".join(_runs(levels) for levels, _ in leaf.levels) + leaf.data
        page = Struct({1: 0, 2: len(body), 3: len(body), 5: Struct({1: leaf.count, 2: 0, 3: 3, 4: 3})})
        start, written = len(out), thrift(page) + body
        out += written
        about = {1: int(leaf.kind), 2: [0, 3], 3: list(path), 4: 0, 5: Long(leaf.count)}
        about |= {6: Long(len(written)), 7: Long(len(written)), 9: Long(start)}
        chunks += [Struct({2: Long(start), 3: Struct(about | lie.chunk)})] * lie.times
    root = Node("schema", Kind.GROUP, children=columns)
    group = Struct({1: chunks, 2: Long(len(out)), 3: Long(rows if lie.rows is None else lie.rows)})
    footer = thrift(Struct({1: 2, 2: list(_elements(root, root=True)), 3: Long(rows), 4: [group], 6: "by hand"}))
    return bytes(out) + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def _leaves(node: Node, above: tuple[str, ...]) -> list[tuple[tuple[str, ...], Node]]:
    path = (*above, node.name)
    return [found for c in node.children for found in _leaves(c, path)] if node.children else [(path, node)]


def _elements(node: Node, *, root: bool = False) -> list[Struct]:
    about: dict[int, Any] = {} if node.kind == Kind.GROUP else {1: int(node.kind)}
    about |= {2: node.size, 3: None if root else node.repetition, 4: node.name, 5: len(node.children) or None}
    about |= {6: None if node.old is None else int(node.old), 7: node.scale, 8: node.precision}
    about |= {10: None if node.logical is None else Struct({node.logical[0]: node.logical[1]})}
    return [Struct(about), *(e for child in node.children for e in _elements(child))]


def _runs(levels: Sequence[int]) -> bytes:
    """Encode levels below 256, each as a run of one."""
    runs = b"".join(bytes([1 << 1, level]) for level in levels)
    return len(runs).to_bytes(4, "little") + runs


def thrift(value: Any) -> bytes:
    """Encode a value in the compact protocol."""
    match value:
        case Struct():
            out, last = b"", 0
            for number, part in sorted(value.fields.items()):
                if part is not None:
                    step = number - last
                    out += bytes([step << 4 | _code(part)]) if step < 16 else bytes([_code(part)]) + varint(number << 1)
                    out += b"" if isinstance(part, bool) else thrift(part)
                    last = number
            return out + b"\0"
        case Byte():
            return bytes([value & 0xFF])
        case int():
            return varint((value << 1) ^ (value >> 63))
        case str():
            return varint(len(value.encode())) + value.encode()
        case _:
            assert len(value) < 15
            return bytes([len(value) << 4 | _code(value[0])]) + b"".join(thrift(v) for v in value)


def _code(value: Any) -> int:
    if isinstance(value, bool):
        return 1 if value else 2
    codes = {Byte: 3, int: 5, Long: 6, str: 8, list: 9, Struct: 12}
    return codes[type(value)]


def varint(n: int) -> bytes:
    """Encode an integer with seven bits a byte, lowest first."""
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])
