"""What a statement fails with, as Redshift words it."""

SYNTAX, UNDEFINED_COLUMN, UNSUPPORTED, INTERNAL = "42601", "42703", "0A000", "XX000"


class RedshiftError(Exception):
    """The statement failed.

    Attributes:
        message: the primary message.
        code: the SQLSTATE.
        detail: the detail as Redshift lays it out; empty if there is none.
    """

    def __init__(self, message: str, code: str = INTERNAL, detail: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.detail = message, code, detail


def syntax_error(near: str) -> RedshiftError:
    """What the parser says of a word that it did not expect; without one, of the end."""
    where = f'at or near "{near}"' if near else "at end of input"
    return RedshiftError(f"syntax error {where}", SYNTAX)
