"""Concatenate Parquet files by copying row groups."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa

from singer_arrow.reading.parallel import drain

# Thrift's compact protocol for the footers of Parquet files: structures as dicts by field number. Pure.
#
# Reading and writing a structure preserves it, including unknown fields.

I16, I64 = 4, 6
_TRUE, _FALSE, _BYTE, _I32, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 5, 7, 8, 9, 10, 12
_NUMBERS = (I16, _I32, I64)
_LONG_LIST = 15


class Field(NamedTuple):
    """A value and its type: an int, bool, bytes (also for doubles), or (type, items) for a list.

    A structure is a `Struct`, or its encoded bytes.
    """

    type: int
    value: Any

    def holding(self, value: Any) -> Field:
        """Return the field with another value of the same type."""
        return Field(self.type, value)


Struct = dict[int, Field]


def read_struct(data: bytes) -> Struct | None:
    """Return the structure at the start of the bytes; None if it is invalid or repeats a field."""
    try:
        return _Reader(data).struct()
    except (IndexError, KeyError, RecursionError):
        return None


def write_struct(struct: Struct) -> bytes:
    """Return the encoded structure."""
    out = bytearray()
    _write(out, _STRUCT, struct)
    return bytes(out)


class _Reader:
    """Reads values from the start of the bytes; integers of one byte, the most frequent ones, without a call."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self) -> Struct:
        data, fields, number = self._data, Struct(), 0
        while head := data[self._at]:
            self._at += 1
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._signed()
            if number in fields:
                raise KeyError(number)
            if kind in _NUMBERS and (byte := data[self._at]) < 0x80:
                self._at += 1
                fields[number] = Field(kind, byte >> 1 ^ -(byte & 1))
            else:
                fields[number] = Field(kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind))
        self._at += 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind == _STRUCT:
            return self.struct()
        if kind in _NUMBERS:
            return self._signed()
        if kind in (_LIST, _SET):
            head = self._byte()
            size = head >> 4 if head >> 4 < _LONG_LIST else self._unsigned()
            of = head & 0x0F
            return of, [self._value(of) for _ in range(size)]
        if kind in (_TRUE, _FALSE, _BYTE):  # booleans in lists take a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise KeyError(kind)

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, size: int) -> bytes:
        self._at += size
        if self._at > len(self._data):
            raise IndexError(self._at)
        return self._data[self._at - size : self._at]

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 0x80:
            found |= (byte & 0x7F) << shift
            shift += 7
        return found | byte << shift

    def _signed(self) -> int:
        found = self._unsigned()
        return found >> 1 ^ -(found & 1)


def _write(out: bytearray, kind: int, value: Any) -> None:
    if kind in _NUMBERS:
        _write_unsigned(out, value << 1 ^ value >> 63)
    elif kind == _BINARY:
        _write_unsigned(out, len(value))
        out += value
    elif kind == _STRUCT and isinstance(value, bytes):
        out += value
    elif kind == _STRUCT:
        before = 0
        for number, field in sorted(value.items()):
            of = (_TRUE if field.value else _FALSE) if field.type in (_TRUE, _FALSE) else field.type
            step = number - before
            if 0 < step < 16:
                out.append(step << 4 | of)
            else:
                out.append(of)
                _write_unsigned(out, number << 1 ^ number >> 63)
            if of not in (_TRUE, _FALSE):
                _write(out, of, field.value)
            before = number
        out.append(0)
    elif kind in (_LIST, _SET):
        of, items = value
        out.append(min(len(items), _LONG_LIST) << 4 | of)
        if len(items) >= _LONG_LIST:
            _write_unsigned(out, len(items))
        for item in items:
            _write(out, of, item)
    elif kind == _DOUBLE:
        out += value
    else:
        out.append(value)


def _write_unsigned(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# Concatenation of Parquet files of one schema by copying their row groups without decoding.
#
# Only the footer is rewritten, in Thrift's compact protocol, with the new offsets of column chunks and without page
# indexes, which contain offsets themselves. See parquet.thrift of Apache Parquet for the field numbers.

_MAGIC = b"PAR1"
_TAIL = 8  # bytes of footer size and magic
_SCHEMA, _ROWS, _GROUPS, _CREATED_BY, _ORDERS, _ENCRYPTION = 2, 3, 4, 6, 7, 8
_GROUP_COLUMNS, _GROUP_OFFSET, _GROUP_ORDINAL = 1, 5, 7
_MOST_GROUPS = 1 << 15  # ordinals have 16 bits
_CHUNK_FILE, _CHUNK_OFFSET, _CHUNK_META, _CHUNK_INDEXES = 1, 2, 3, (4, 5, 6, 7)
_META_BYTES, _META_PAGES, _META_BLOOM = 7, (9, 10, 11), 14
_COPIED = 1 << 18  # bytes at once, which the cache of a core holds


@dataclass(frozen=True, slots=True)
class _File:
    """Footer of a file, and the position at which its row groups end."""

    footer: Struct
    end: int


def join(paths: Sequence[Path], target: Path, *, chunk_bytes: int) -> int | None:
    """Write the row groups of several files to one file, and return the number of rows.

    None if the files differ, or if the mean size of their column chunks is below `chunk_bytes`, because many small ones
    are slow to read: then nothing is written.
    """
    try:
        footers = [_metadata(path) for path in paths]
    except (pa.ArrowException, OSError):  # a file is damaged
        return None
    chunks = sum(footer.num_row_groups * footer.num_columns for footer in footers)
    if not paths or sum(path.stat().st_size for path in paths) < chunk_bytes * chunks:
        return None
    joined = _Joined()
    for path in paths:
        with path.open("rb") as source:
            if not joined.add(_opened(source)):
                return None
    with target.open("wb") as out:
        out.write(_MAGIC)
        for path, end in zip(paths, joined.ends, strict=True):
            with path.open("rb") as source:
                _copy(source, end, out)
        out.write(joined.footer())
    return joined.rows


def join_encoded(files: Iterable[IO[bytes]], target: Path) -> int:
    """Write the row groups of open files to one file, in order, each when it arrives; return the number of rows.

    The files, at least one, are of one schema and one writer, and are closed. Raises ValueError if they differ, or are
    too many.
    """
    files, joined = iter(files), _Joined()
    held = list(islice(files, 2))
    with target.open("wb") as out:
        if len(held) == 1:
            with held.pop() as file:
                file.seek(0)
                shutil.copyfileobj(file, out, _COPIED)
                return int(_metadata(file).num_rows)
        out.write(_MAGIC)
        for each in chain(drain(held), files):
            with each:
                if not joined.add(_opened(each)):
                    raise ValueError(f"{target}: its row groups cannot be joined")
                _copy(each, joined.ends[-1], out)
        out.write(joined.footer())
    return joined.rows


class _Joined:
    """The footer of a file with the row groups of several others.

    `ends` are the positions at which the row groups of each file end; they begin after the magic.
    """

    def __init__(self) -> None:
        self.rows, self.ends = 0, list[int]()
        self._first, self._groups = Struct(), list[bytes]()

    def add(self, file: _File | None) -> bool:
        """Add the row groups of a file; return False if it cannot be joined to those before."""
        if file is None:
            return False
        self._first = self._first or file.footer
        # The name of the writer determines how statistics are read.
        if any(self._first.get(n) != file.footer.get(n) for n in (_SCHEMA, _CREATED_BY, _ORDERS)):
            return False
        for group in _shifted(file.footer, sum(self.ends) - len(_MAGIC) * len(self.ends)):
            if _GROUP_ORDINAL in group and group[_GROUP_ORDINAL].type == I16:
                group[_GROUP_ORDINAL] = group[_GROUP_ORDINAL].holding(len(self._groups))
            self._groups.append(write_struct(group))  # far smaller than the structure
        self.rows += file.footer[_ROWS].value
        self.ends.append(file.end)
        return len(self._groups) <= _MOST_GROUPS

    def footer(self) -> bytes:
        """Return the end of the file: the footer, its size and the magic."""
        of, _ = self._first[_GROUPS].value
        changed = {
            _ROWS: self._first[_ROWS].holding(self.rows),
            _GROUPS: self._first[_GROUPS].holding((of, self._groups)),
        }
        footer = write_struct(self._first | changed)
        return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _metadata(source: Path | IO[bytes]) -> Any:
    import pyarrow.parquet as pq  # imported late: targets start without it

    return pq.read_metadata(source)


def _opened(source: IO[bytes]) -> _File | None:
    """Return a file with its footer; None if it cannot be joined."""
    size = source.seek(0, os.SEEK_END)
    if size < len(_MAGIC) + _TAIL:
        return None
    source.seek(size - _TAIL)
    tail = source.read(_TAIL)
    length = int.from_bytes(tail[:4], "little")
    end = size - _TAIL - length
    if tail[4:] != _MAGIC or end < len(_MAGIC):
        return None
    source.seek(end)
    footer = read_struct(source.read(length))
    if footer is None or not {_SCHEMA, _ROWS, _GROUPS} <= footer.keys() or _ENCRYPTION in footer:
        return None
    chunks = (chunk for group in _items(footer, _GROUPS) for chunk in _items(group, _GROUP_COLUMNS))
    if not all(_is_within(chunk, end) for chunk in chunks):
        return None
    return _File(footer, end)


def _is_within(chunk: Struct, end: int) -> bool:
    """Return whether the pages of a column chunk are in the file itself, before its footer."""
    if _CHUNK_FILE in chunk or _CHUNK_META not in chunk:
        return False
    meta = chunk[_CHUNK_META].value
    begin = min(offset for n in _META_PAGES if (offset := _offset(meta, n)))
    is_within = len(_MAGIC) <= begin and begin + max(0, _offset(meta, _META_BYTES)) <= end
    return is_within and 0 <= _offset(meta, _META_BLOOM) < end


def _offset(struct: Struct, number: int) -> int:
    """Return an offset or size; 0 if it is missing."""
    return int(struct[number].value) if number in struct and struct[number].type == I64 else 0


def _items(struct: Struct, number: int) -> list[Any]:
    return list(struct[number].value[1]) if number in struct else []


def _copy(source: IO[bytes], end: int, out: IO[bytes]) -> None:
    """Copy the bytes between magic and footer."""
    source.seek(len(_MAGIC))
    for start in range(len(_MAGIC), end, _COPIED):
        size = min(_COPIED, end - start)
        data = source.read(size)
        if len(data) < size:
            raise OSError("a file became shorter while it was read")
        out.write(data)


def _shifted(footer: Struct, shift: int) -> Iterator[Struct]:
    """Yield the row groups with offsets increased by `shift` bytes."""
    for group in _items(footer, _GROUPS):
        of, chunks = group[_GROUP_COLUMNS].value
        moved = list[Struct]()
        for chunk in chunks:
            meta = chunk[_CHUNK_META].holding(_moved(chunk[_CHUNK_META].value, (*_META_PAGES, _META_BLOOM), shift))
            kept = {number: field for number, field in chunk.items() if number not in _CHUNK_INDEXES}
            moved.append(_moved(kept, (_CHUNK_OFFSET,), shift) | {_CHUNK_META: meta})
        yield _moved(group, (_GROUP_OFFSET,), shift) | {_GROUP_COLUMNS: group[_GROUP_COLUMNS].holding((of, moved))}


def _moved(struct: Struct, fields: Sequence[int], shift: int) -> Struct:
    """Return a structure with the offsets in `fields` increased by `shift`; 0 means none."""
    moved: dict[int, Field] = {n: struct[n].holding(offset + shift) for n in fields if (offset := _offset(struct, n))}
    return struct | moved
