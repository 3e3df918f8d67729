"""Partition columns: what folders of a key say of all rows of an object, as in `events/year=2024/region=eu/part-0.csv`.

The names of folders are those that Hive, Spark and Athena write. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from singer_arrow.errors import DataError
from singer_arrow.urls import Url

_FOLDER = re.compile(r"([^=]+)=(.*)", re.DOTALL)
_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


def texts(url: Url) -> dict[str, str | None]:
    """The partition columns of an object, in the order of its folders, as text."""
    folders = (_FOLDER.fullmatch(folder) for folder in url.key.split("/")[:-1])
    pairs = ((unquote(m[1]), unquote(m[2])) for m in folders if m)
    return {name: None if value in (_NULL, "") else value for name, value in pairs}


def infer(urls: Iterable[Url]) -> list[pa.Field]:
    """The partition columns of objects, each with the type that all its values have.

    Integers and dates are told; the rest is text, also numbers with leading zeros, which would lose them.
    """
    found: dict[str, set[pa.DataType]] = {}
    for url in urls:
        for name, text in texts(url).items():
            found.setdefault(name, set()).update([_type_of(text)] if text is not None else [])
    return [pa.field(name, kinds.pop() if len(kinds) == 1 else pa.string()) for name, kinds in found.items()]


def _type_of(text: str) -> pa.DataType:
    if _INTEGER.fullmatch(text):
        return pa.int64()
    try:
        return pa.date32() if date.fromisoformat(text).isoformat() == text else pa.string()
    except ValueError:
        return pa.string()


def values(url: Url, schema: pa.Schema) -> dict[str, Any]:
    """The values of those partition columns of an object that a schema has, as its types.

    Raises:
        DataError: A value is none of its type.
    """
    told = texts(url)
    return {field.name: _value(url, field, told[field.name]) for field in schema if field.name in told}


def _value(url: Url, field: pa.Field, text: str | None) -> Any:
    if text is None:
        return None
    try:
        return pa.scalar(text).cast(field.type).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        reason = f"its folder says {text!r}, which is no {field.type}"
        hint = "Set the column's type in the stream's 'schema'"
        raise DataError(reason, url=url, column=field.name, hint=hint) from None
