"""The error of a failed statement, in Redshift's words."""

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
