"""The setting `columns` as a mapping: columns that are renamed, left out, cast, hashed, masked or constant."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.errors import ConfigError
from singer_arrow.read_options import RESCUED
from singer_arrow.schema.arrow_schema import is_json, parse_type
from singer_arrow.schema.json_schema import from_json_schema, to_json_schema
from singer_arrow.settings import read_settings, setting

# The settings of one column.

MASK = "***"


@dataclass(frozen=True, slots=True)
class Hash:
    """The setting `hash` of a column."""

    salt: str = setting("Environment variable that holds the salt.", default="HASH_SALT")


@dataclass(frozen=True, slots=True)
class Mask:
    """The setting `mask` of a column: how many characters of a text stay; of a text without others, none stays."""

    keep_first: int = setting("How many characters stay at the beginning.", default=0, minimum=0)
    keep_last: int = setting("How many characters stay at the end.", default=0, minimum=0)


@dataclass(frozen=True, slots=True)
class ColumnSettings:
    """One entry of the mapping; `source` is the column that it is made of, None: the one of its own name."""

    source: str | None = setting(
        "The column that it is made of: of the files, a folder or a group in `path`, or `_sdc_source_file` and the "
        "other metadata columns. Under its own name that one arrives only if the mapping names it too.",
        name="from",
    )
    type: str | None = setting("Its type, in the words of `schema`.")
    null_if: tuple[Any, ...] = setting(
        "Values that become null, in its type.", default=(), kind=tuple[str | float | bool, ...]
    )
    hash: Hash | None = setting(
        "`true`: replace its text by the SHA-256 of the salt in the environment variable `HASH_SALT` and the text, in "
        "hexadecimal digits; `{salt: NAME}`: with the salt in another variable. Null stays null.",
        kind=bool | Hash,
        parse=lambda given: _of_flag(Hash, given),
    )
    mask: Mask | None = setting(
        "`true`: replace its text by `***`; `{keep_last: 4}`, `{keep_first: 2}` or both: but for these characters. "
        "Null stays null.",
        kind=bool | Mask,
        parse=lambda given: _of_flag(Mask, given),
    )
    value: str | float | bool | None = setting(
        "The same value in each row, instead of a column of the files; also with `type`."
    )

    @property
    def read_as(self) -> str | None:
        """The type as which its column of the files is read; a hash is that of a text, whatever the files have."""
        return "string" if self.hash else self.type

    @property
    def is_constant(self) -> bool:
        """Whether it is made of no column of the files."""
        return self.value is not None


def _of_flag(cls: type, given: Any) -> Any:
    return read_settings(cls, given if isinstance(given, dict) else {}) if given is not False else None


# The mapping. Names of files are those of columns before it, names alone are those after it.


@dataclass(frozen=True, slots=True)
class Columns:
    """The entries by name, None for columns that are left out; columns without an entry stay as they are."""

    entries: Mapping[str, ColumnSettings | None] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: list[str] | Mapping[str, Any]) -> tuple[str, ...] | Columns:
        """Read the setting: a list of columns, or a mapping."""
        return tuple(given) if isinstance(given, list) else cls.of(given)

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str = "columns") -> Columns:
        """Read a mapping, the setting `where`; ConfigError if an entry contradicts itself or another one."""
        made = {
            name: None if value is False else read_settings(ColumnSettings, {} if value is True else value)
            for name, value in given.items()
        }
        types = dict[str, tuple[str, str]]()
        for name, entry in ((name, entry) for name, entry in made.items() if entry is not None):
            if entry.is_constant and entry != ColumnSettings(value=entry.value, type=entry.type):
                raise ConfigError(f"Setting '{where}.{name}' has a value, and so only a type beside it; leave one out")
            if entry.hash and (entry.mask or entry.type):
                other = "mask" if entry.mask else "type"
                raise ConfigError(
                    f"Setting '{where}.{name}' has a hash, which is text, and so no {other!r}; leave one out"
                )
            if text := entry.read_as:
                parse_type(name, text)
            if text and not entry.is_constant:
                source = entry.source or name
                first, other = types.setdefault(source, (name, text))
                if other != text:
                    msg = f"Setting '{where}' reads {source!r} as {other} for {first!r} and as {text} for {name!r}"
                    raise ConfigError(f"{msg}; one column of a file is read as one type")
            if isinstance(entry.value, int) and not -(1 << 63) <= entry.value < 1 << 63:
                raise ConfigError(f"Setting '{where}.{name}': its value has more than 64 bits; make it text, in quotes")
        if RESCUED in {*made, *(e.source for e in made.values() if e)}:
            raise ConfigError(f"Setting '{where}' has {RESCUED!r}, a name of the tap's own; leave it out")
        return cls(made)

    def check_stream(self, name: str, stream: Mapping[str, Any]) -> None:
        """Refuse what would merge keys, show what is hidden, or read a column as two types."""
        for column, entry in ((column, entry) for column, entry in self.entries.items() if entry):
            if column in (stream.get("key_properties") or ()) and (entry.mask or entry.null_if):
                what = "mask" if entry.mask else "null_if"
                msg = f"Stream {name!r}: column {column!r} is a key property, and its {what} would merge rows"
                raise ConfigError(f"{msg}; leave it out, or use hash")
            hides = entry.hash or entry.mask
            if hides and (setting := next((s for s in ("on_bad_row", "on_drift") if stream.get(s) == "rescue"), "")):
                msg = f"Stream {name!r}: column {column!r} is hidden by setting 'columns', and {setting}: rescue"
                raise ConfigError(f"{msg} would keep values of rows as they are; set {setting} to another value")
            given = (stream.get("schema") or {}).get(entry.source or column)
            if (text := entry.read_as) and not entry.is_constant and given not in (None, text):
                msg = f"Stream {name!r}: settings 'schema' and 'columns' read {entry.source or column!r} as {given}"
                raise ConfigError(f"{msg} and as {text}; one column of a file is read as one type")

    @property
    def has_hash(self) -> bool:
        """Whether a column is hashed."""
        return any(entry and entry.hash for entry in self.entries.values())

    @property
    def types(self) -> dict[str, str]:
        """The types as which columns of files are read."""
        made = ((e.source or n, e.read_as) for n, e in self.entries.items() if e and not e.is_constant)
        return {source: text for source, text in made if text}

    @property
    def sources(self) -> frozenset[str]:
        """The columns of files that entries name, which are known whether or not they arrive."""
        return frozenset([*self.entries, *(e.source for e in self.entries.values() if e and e.source)])

    def made_of(self, source: pa.Field) -> list[pa.Field]:
        """Return the columns that are made of one of the files."""
        made = [n for n, e in self.entries.items() if e and not e.is_constant and (e.source or n) == source.name]
        unnamed = not made and source.name not in self.entries
        return [source.with_name(name) for name in ([source.name] if unnamed else made)]

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Return the columns that are made of those of the files."""
        constants = ((n, e) for n, e in self.entries.items() if e and e.is_constant)
        own = [parse_type(n, e.type) if e.type else pa.field(n, pa.scalar(e.value).type) for n, e in constants]
        return pa.schema([*(made for found in source for made in self.made_of(found)), *own])

    def source(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of files of which those of a schema are made."""
        found = dict[str, pa.Field]()
        for own in schema:
            entry = self.entries.get(own.name)
            if entry is None or not entry.is_constant:
                read = own.with_name((entry and entry.source) or own.name)
                if not found.setdefault(read.name, read).equals(read, check_metadata=True):
                    msg = f"Setting 'columns' makes {own.name!r} and another column of {read.name!r}, in other types"
                    raise ConfigError(f"{msg}; one column of a file is read as one type")
        return pa.schema([*found.values()])

    def sources_of(self, paths: Iterable[str], names: Iterable[str], read: Iterable[str]) -> Iterator[str]:
        """Yield the paths in files of columns, or members of them, that a catalog does not select.

        `names` are all columns of the catalog; what another column is made of is still `read`.
        """
        known, kept = set(names), set(read)
        for path in paths:
            ends = [end for end, c in enumerate(path) if c == "."]
            end = next((end for end in (len(path), *ends) if path[:end] in known), len(path))
            entry = self.entries.get(path[:end])
            if entry is None or not entry.is_constant:
                source = ((entry and entry.source) or path[:end]) + path[end:]
                if source not in kept:
                    yield source

    def check(self, schema: pa.Schema, stream: str) -> None:
        """Refuse entries that do not fit the types of their columns, which are those of JSON Schema."""
        from singer_arrow.casting.from_text import BadValueError

        for own in schema:
            entry, shown = self.entries.get(own.name), "json" if is_json(own) else own.type
            what = f"Stream {stream!r}: column {own.name!r} in setting 'columns'"
            if entry is None:
                continue
            if entry.read_as:
                declared = from_json_schema(to_json_schema(pa.schema([parse_type(own.name, entry.read_as)]))).field(0)
                if not declared.equals(own, check_metadata=True):
                    msg = f"{what} is read as {entry.read_as}, it is {shown}"
                    raise ConfigError(f"{msg}; leave that out, or write the catalog anew with --discover")
            if entry.mask and (is_json(own) or not pt.is_string(own.type)):
                raise ConfigError(f"{what}: mask is for text, it is {shown}; add 'type: string' to mask its text")
            if entry.null_if and (is_json(own) or pt.is_nested(own.type)):
                raise ConfigError(f"{what}: null_if is for plain values, it is {shown}; leave it out")
            for value in entry.null_if if entry.value is None else (entry.value,):
                try:
                    _value(value, own)
                except (BadValueError, pa.ArrowException):
                    hint = "compare its text, with 'type: string', or use csv.null_values"
                    raise ConfigError(f"{what}: {value!r} is no value of type {shown}; {hint}") from None

    def check_catalog(self, names: Iterable[str], stream: str) -> None:
        """Refuse a catalog of before the setting, which would let columns arrive as they are in files."""
        known = set(names)
        missing = [name for name, entry in self.entries.items() if entry and name not in known]
        left = [n for n in known if (n not in self.entries and n in self.sources) or self.entries.get(n, 1) is None]
        if missing or left:
            differs = f"lacks {missing[0]!r}, which it makes" if missing else f"has {left[0]!r}, which it leaves out"
            msg = f"Stream {stream!r}: the catalog is not one of setting 'columns': it {differs}"
            raise ConfigError(f"{msg}; write it anew with --discover")

    def identity(self) -> str:
        """Identify what decides the values, of salts by what they make of an empty text."""
        salts = [(n, _hash_of(_salt(e.hash), "")) for n, e in self.entries.items() if e and e.hash]
        return repr((sorted(self.entries.items()), sorted(salts)))

    def apply(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Return a batch of files with the columns of the schema."""
        import pyarrow.compute as pc

        columns = list[pa.Array]()
        for own in schema:
            entry = self.entries.get(own.name) or ColumnSettings()
            if entry.is_constant:
                columns.append(pa.repeat(_value(entry.value, own), batch.num_rows))
                continue
            column = batch.column(entry.source or own.name)
            for value in entry.null_if:
                column = pc.if_else(pc.fill_null(pc.equal(column, _value(value, own)), False), None, column)
            if entry.hash is not None:
                salted, texts = _salt(entry.hash), column.dictionary_encode()  # each text once
                hashes = [_hash_of(salted, text) for text in texts.dictionary.to_pylist()]
                column = pa.array(hashes, pa.string()).take(texts.indices)
            if entry.mask is not None:
                first, last = entry.mask.keep_first, entry.mask.keep_last
                end = pc.utf8_slice_codeunits(column, -last, None) if last else ""
                shown = pc.binary_join_element_wise(pc.utf8_slice_codeunits(column, 0, first), MASK, end, "")
                hidden = pc.if_else(column.is_valid(), MASK, pa.scalar(None, pa.string()))
                column = pc.if_else(pc.greater(pc.utf8_length(column), first + last), shown, hidden)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=schema)


NO_COLUMNS = Columns()
"""The mapping of streams without one."""


def _value(given: str | float | bool | None, own: pa.Field) -> pa.Scalar:
    """Return a value of a configuration in the type of a column; an exception of Arrow or casting if it has none."""
    from singer_arrow.casting.from_arrow import fit

    text = given if isinstance(given, str) else json.dumps(given)
    return fit(pa.array([text], pa.string()), own)[0]


def _salt(setting: Hash) -> Any:
    """Return the SHA-256 of a salt, which texts are added to."""
    text = os.environ.get(setting.salt)
    if not text:
        raise ConfigError(
            f"Setting 'columns' has a hash with the salt in the environment variable {setting.salt}, which is not set; "
            "set it to the same long random text in each run"
        )
    return hashlib.sha256(text.encode())


def _hash_of(salted: Any, text: str) -> str:
    made = salted.copy()
    made.update(text.encode())
    found: str = made.hexdigest()
    return found
