"""Conversion of library errors to errors that name the file: `naming_file`."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from singer_arrow.errors import DataError, SchemaError, is_of_disk, is_of_memory

_OF_LIBRARIES = (
    *(pa.ArrowException, OSError, EOFError, struct.error),
    *(ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, RecursionError),
)

_HINT = (
    "Write the file again, or set the stream's format; if other programs read it, report this with "
    "what LOG_LEVEL=debug shows"
)


@contextmanager
def naming_file(url: object) -> Iterator[None]:
    """Add the file to errors, and convert library errors about its content to DataError.

    Errors of disk, memory and network are raised unchanged.
    """
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{url}: {error}") from None
    except DataError as error:
        if error.url is not None or str(url) in str(error):
            raise
        raise error.at(url) from None
    except UnicodeDecodeError as error:
        shown = bytes(error.object)[:60]
        reason = f"a text in it that must be UTF-8, such as a column's name, is {shown!r}"
        raise DataError(reason, url=url, hint="Rename the column at the source") from error
    except _OF_LIBRARIES as error:
        is_of_system = isinstance(error, OSError) and error.errno is not None
        if is_of_system or is_of_memory(error) or is_of_disk(error) or isinstance(error, pa.ArrowCancelled):
            raise
        reason = f"it cannot be read ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        raise DataError(reason, url=url, hint=_HINT) from error


def too_large(what: str, size: int, most: int, *, url: object = None, row_group: int | None = None) -> DataError:
    """Return the error for a part of a file that takes `size` bytes or more decompressed, and may take `most`.

    These are a quarter of `memory_limit_mb`.
    """
    megabytes = -(-4 * size >> 20) + 1
    reason = f"{what} would take {size >> 20} MB decompressed, more than the {most >> 20} MB that one may take"
    hint = f"If the file is as it should be, set memory_limit_mb to {megabytes} or more"
    return DataError(reason, url=url, row_group=row_group, hint=hint)
