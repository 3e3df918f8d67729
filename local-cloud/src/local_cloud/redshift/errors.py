"""The error of a failed statement, in Redshift's words; errors of COPY and rows of stl_load_errors.

For COPY by the page "Load error reference" of the Redshift guide.
"""

from dataclasses import dataclass

SYNTAX, UNDEFINED_COLUMN, UNSUPPORTED, INTERNAL = "42601", "42703", "0A000", "XX000"


class RedshiftError(Exception):
    """The statement failed: primary message, SQLSTATE, and detail in Redshift's layout or empty."""

    def __init__(self, message: str, code: str = INTERNAL, detail: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.detail = message, code, detail


def syntax_error(near: str) -> RedshiftError:
    """Return the parser's error at an unexpected word, or at the end of the text if the word is empty."""
    where = f'at or near "{near}"' if near else "at end of input"
    return RedshiftError(f"syntax error {where}", SYNTAX)


EXTRA_COLUMNS = 1202
OUT_OF_RANGE = 1204
DATE = 1205
TIMESTAMP = 1206
DIGIT = 1207
FLOAT = 1208
DECIMAL = 1209
BOOLEAN = 1210
NOT_NULL = 1213
DELIMITER = 1214
INVALID_LINE = 1216
UTF8 = 1220
OVERFLOW = 1222
SUPER = 1224


@dataclass(frozen=True, slots=True)
class LoadErrorRow:
    """A row of stl_load_errors. `column`, `type` and `length` are empty where the record itself is wrong."""

    file: str  # the URL of the object
    line: int  # number of the record's first line in the file, from 1
    column: str
    type: str  # as stl_load_errors spells it
    length: str  # in bytes, or precision and scale
    position: int  # start of the field in the record, in bytes
    raw_line: str  # the record, up to the 1,024 bytes that stl_load_errors keeps
    raw_value: str  # the field before it was parsed, up to the same length
    code: int
    reason: str  # one line


class BadValue(Exception):  # noqa: N818 - a value, not a fault of the program
    """A value or a record that cannot be loaded; becomes a `LoadErrorRow`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


def load_failed(table: str) -> RedshiftError:
    """Return the error of the statement when records were wrong."""
    shown = table.rsplit(".", 1)[-1].strip('"')
    return RedshiftError(
        f"Load into table '{shown}' failed.  Check 'sys_load_error_detail' system table for details.", INTERNAL
    )


def detailed(message: str, code: int, context: str) -> RedshiftError:
    """Return an internal error of COPY, in Redshift's layout."""
    rule = "-" * 47
    lines = [rule, f"error:  {message}", f"code:      {code}", f"context:   {context}", rule]
    return RedshiftError(message, INTERNAL, "\n  ".join(["", *lines, ""]))


def spectrum(code: int, context: str) -> RedshiftError:
    """Return an error of the reader of columnar files. The message contains the context, as in Redshift."""
    found = detailed("Spectrum Scan Error", code, context)
    return RedshiftError(f"Spectrum Scan Error. {context}", INTERNAL, found.detail)


def unsupported(what: str) -> RedshiftError:
    """Return the error for what Redshift supports and this server does not."""
    return RedshiftError(f"the local Redshift cannot do this: {what}", UNSUPPORTED)
