"""Invalid UTF-8: Redshift's errors ("Multibyte character load errors" of its guide) and its replacement. Pure."""

import codecs

import pyarrow as pa

TOO_LONG, INCOMPLETE, OUT_OF_RANGE, OVERLONG = 1, 2, 3, 6
_SURROGATES = range(0xDC80, 0xDD00)


def reason(bad: bytes) -> str:
    """Return the text of stl_load_errors for a sequence of bytes."""
    return (
        f"String contains invalid or unsupported UTF8 codepoints. Bad UTF8 hex sequence: {bad.hex(' ')} "
        f"(error {_error(bad)})"
    )


def _error(bad: bytes) -> int:
    first = bad[0]
    if 0x80 <= first < 0xC0 or first in (0xC0, 0xC1):
        return OUT_OF_RANGE if first < 0xC0 else OVERLONG
    return TOO_LONG if first >= 0xF5 else INCOMPLETE


def bad_bytes(data: bytes) -> bytes | None:
    """Return the first sequence of bytes that is not UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return data[error.start : error.end]
    return None


def bad_text(text: str) -> bytes | None:
    """Return the first invalid bytes in a text decoded with surrogateescape, or those of a lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        is_escaped = ord(text[error.start]) in _SURROGATES
        return text[error.start : error.start + 1].encode("utf-8", "surrogateescape" if is_escaped else "surrogatepass")
    return None


def replace_with(character: str) -> str:
    """Return the name of an error handler that replaces each invalid byte with the character."""
    name = f"redshift-{ord(character)}"

    def handler(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeDecodeError):
            raise error
        return character * (error.end - error.start), error.end

    codecs.register_error(name, handler)
    return name


def invalid_text(values: pa.Array) -> str | None:
    """Return the error of the first text that is not UTF-8, or None if all are. Checks all values at once."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        for item in values.cast(pa.large_binary()):
            found = bad_bytes(item.as_py() or b"")
            if found:
                return reason(found)
    return None


def replaced(values: pa.Array, character: str) -> pa.Array:
    """Return the texts with each invalid byte replaced by a character."""
    handler = replace_with(character)
    found = [
        None if item is None else item.decode("utf-8", handler) for item in values.cast(pa.large_binary()).to_pylist()
    ]
    return pa.array(found, pa.large_string())
