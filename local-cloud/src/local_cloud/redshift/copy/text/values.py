"""Fields of text as values of a column: checked by Redshift's rules, in PostgreSQL's text form.

One vectorised check covers a whole column. Only if its result is uncertain is each distinct text of the column
converted by itself, by all rules; this finds exactly the wrong ones.
"""

import decimal
import json
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from local_cloud.redshift import errors
from local_cloud.redshift.copy.columns import INTEGERS, STRING, TEXT, Column, any_of
from local_cloud.redshift.copy.command import CopyCommand
from local_cloud.redshift.copy.json.paths import no_constant
from local_cloud.redshift.copy.text import temporal as moments
from local_cloud.redshift.errors import BadValue

Exact = Callable[[str], str | None]
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_SHOWN = {"smallint": "Short", "integer": "Integer", "bigint": "Long"}
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")  # COPY accepts exponents for doubles only
_LARGEST = {"real": 3.4028235677973366e38, "double precision": float("inf")}
_SMALLEST = {"real": 7.006492321624085e-46, "double precision": 0.0}


def convert(command: CopyCommand, column: Column, texts: pa.Array) -> tuple[pa.Array, dict[int, BadValue]]:
    """Return a large_string column in PostgreSQL's text form, and the errors by row; the values there are undefined."""
    texts = _nulls(command, column, texts)
    wrong: dict[int, BadValue] = {}
    if column.type in TEXT:
        texts, wrong = _characters(command, column, texts)
    else:
        sure = _sure(command, column, texts)
        texts, wrong = (sure, {}) if sure is not None else _each(exact(command, column), texts)
    if not column.nullable and texts.null_count:
        for index in pc.indices_nonzero(texts.is_null()).to_pylist():
            wrong.setdefault(index, BadValue(errors.NOT_NULL, "Missing data for not-null field"))
    return texts, wrong


def _nulls(command: CopyCommand, column: Column, texts: pa.Array) -> pa.Array:
    """Return the fields with NULL in place of empty or blank fields that mean it."""
    void = column.type not in TEXT or command.has("emptyasnull")
    if void and any_of(pc.equal(texts, "")):
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, STRING), texts)
    if column.type in TEXT and command.has("blanksasnull"):
        blank = pc.equal(pc.ascii_trim(texts, characters=" \t\n\r\f\v"), "")
        texts = pc.if_else(blank, pa.scalar(None, STRING), texts)
    if column.type in TEXT and command.has("trimblanks"):
        texts = pc.ascii_rtrim(texts, characters=" \t")
    return texts


def _all(mask: pa.Array) -> bool:
    return bool(pc.all(mask).as_py() in (True, None))


def _characters(command: CopyCommand, column: Column, texts: pa.Array) -> tuple[pa.Array, dict[int, BadValue]]:
    wrong: dict[int, BadValue] = {}
    if any_of(pc.match_substring(texts, "\0")):
        message = "String contains invalid or unsupported UTF8 codepoints. Bad UTF8 hex sequence: 00 (error 3)"
        for index in pc.indices_nonzero(pc.match_substring(texts, "\0")).to_pylist():
            wrong[index] = BadValue(errors.UTF8, message)
    if column.type == "char":
        texts = pc.ascii_rtrim(texts, characters=" ")
        for index in pc.indices_nonzero(pc.invert(pc.string_is_ascii(texts))).to_pylist():
            wrong[index] = BadValue(errors.UTF8, _multibyte(texts[index].as_py()))
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    if column.length is None or longest <= column.length:
        return texts, wrong
    if command.has("truncatecolumns"):
        return pa.array([_cut(text, column.length) for text in texts.to_pylist()], STRING), wrong
    message = "Char length exceeds DDL length" if column.type == "char" else "String length exceeds DDL length"
    for index in pc.indices_nonzero(pc.greater(pc.binary_length(texts), column.length)).to_pylist():
        wrong[index] = BadValue(errors.OUT_OF_RANGE, message)
    return texts, wrong


def _multibyte(text: str) -> str:
    found = next(character for character in text if not character.isascii())
    shown = found.encode().hex(" ")
    return f"Multibyte character not supported for CHAR (Hint: try using VARCHAR). Invalid char: {shown}"


def _cut(text: str | None, length: int) -> str | None:
    """Return as many whole characters as fit."""
    return None if text is None else text.encode()[:length].decode(errors="ignore")


def _sure(command: CopyCommand, column: Column, texts: pa.Array) -> pa.Array | None:
    """Return the column if every field is certainly valid, or None if each must be converted by itself."""
    kind = column.type
    if kind in INTEGERS:
        return _integers(kind, texts)
    if kind in _LARGEST:
        return _floats(kind, texts)
    if kind == "boolean":
        known = pc.is_in(texts.drop_null(), pa.array((*_TRUE, *_FALSE), STRING))
        return texts if _all(known) else None
    if kind == "numeric":
        precision, scale = column.precision or 18, column.scale or 0
        form = rf"^-?[0-9]{{1,{precision - scale}}}(\.[0-9]{{0,{scale}}})?$" if precision > scale else "^$"
        return texts if _all(pc.match_substring_regex(texts, form)) else None
    if kind in ("date", "timestamp", "timestamptz"):
        return moments.sure(kind, command.date_format if kind == "date" else command.time_format, texts)
    if kind == "super" and command.format == "json" and not any_of(pc.match_substring(texts, "\\u")):
        return texts
    if kind == "varbyte":
        form = "^([0-9A-Fa-f]{2})*$"
        short = (pc.max(pc.binary_length(texts)).as_py() or 0) <= 2 * (column.length or 1 << 20)
        whole = short and _all(pc.match_substring_regex(texts, form))
        return pc.binary_join_element_wise(_one("\\x"), texts, _one("")) if whole else None
    return None


def _one(text: str) -> pa.Scalar:
    return pa.scalar(text, STRING)


def _integers(kind: str, texts: pa.Array) -> pa.Array | None:
    # Arrow reads hexadecimal digits, which Redshift does not.
    if any_of(pc.match_substring(texts, "x")) or any_of(pc.match_substring(texts, "X")):
        return None
    try:
        texts.cast({"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}[kind])
    except pa.ArrowInvalid:
        return None
    return texts


def _floats(kind: str, texts: pa.Array) -> pa.Array | None:
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    size = pc.abs(numbers)
    inside = pc.and_(pc.less(size, min(_LARGEST[kind], 1.7976931348623157e308)), pc.greater(size, _SMALLEST[kind]))
    odd = pc.unique(texts.filter(pc.invert(inside)))
    return texts if all(text in ("0", "-0", "0.0", "0.00") for text in odd.to_pylist()) else None


def _each(one: Exact, texts: pa.Array) -> tuple[pa.Array, dict[int, BadValue]]:
    """Convert every distinct text by itself."""
    coded = texts.dictionary_encode()
    found: list[str | None] = []
    bad: dict[int, BadValue] = {}
    for code, text in enumerate(coded.dictionary.to_pylist()):
        try:
            found.append(one(text))
        except BadValue as error:
            found.append(None)
            bad[code] = error
    values = pa.array(found, STRING).take(coded.indices) if found else pa.nulls(len(texts), STRING)
    if not bad:
        return values, {}
    return values, {row: bad[code] for row, code in enumerate(coded.indices.to_pylist()) if code in bad}


def exact(command: CopyCommand, column: Column) -> Exact:
    """Return the function that converts one field that is not NULL, by all rules: BadValue, or None for NULL."""
    kind = column.type
    if kind in INTEGERS:
        return lambda text: _integer(kind, text)
    if kind in _LARGEST:
        return lambda text: _float(kind, text)
    if kind == "numeric":
        return lambda text: _numeric(column, text, rounded=command.has("roundec"))
    if kind == "boolean":
        return _boolean
    if kind == "super":
        return _super if command.format != "json" else _super_of_json
    if kind == "varbyte":
        return lambda text: _varbyte(column, text)
    given = command.date_format if kind == "date" else command.time_format
    read = moments.exact(kind, given)
    return _or_null(read) if command.has("acceptanydate") else read


def _or_null(read: Exact) -> Exact:
    def lenient(text: str) -> str | None:
        try:
            return read(text)
        except BadValue:
            return None

    return lenient


def _digit(text: str, kind: str) -> BadValue:
    place = next(
        (at for at, character in enumerate(text) if not (character.isdigit() or (not at and character in "+-"))), 0
    )
    return BadValue(errors.DIGIT, f"Invalid digit, Value '{text[place : place + 1]}', Pos {place}, Type: {kind}")


def _integer(kind: str, text: str) -> str:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise _digit(text, _SHOWN[kind])
    if not -INTEGERS[kind] <= int(text) < INTEGERS[kind]:
        raise BadValue(errors.OVERFLOW, f"Overflow for {kind.upper()}: '{text}'")
    return str(int(text))


def _float(kind: str, text: str) -> str:
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return text
    if not _NUMBER.fullmatch(text):
        raise BadValue(errors.FLOAT, f"Invalid float format or value: '{text[:64]}'")
    size = abs(float(text))
    nothing = not re.search("[1-9]", re.split("[eE]", text)[0])
    if size >= _LARGEST[kind] or (size <= _SMALLEST[kind] and not nothing):
        raise BadValue(errors.OUT_OF_RANGE, f"Overflow for {kind.upper()}: '{text[:64]}'")
    return text


def _numeric(column: Column, text: str, *, rounded: bool) -> str:
    if not _DECIMAL.fullmatch(text):
        raise _digit(text, "Decimal")
    precision, scale = column.precision or 18, column.scale or 0
    way = decimal.ROUND_HALF_UP if rounded else decimal.ROUND_DOWN
    # Redshift cuts digits beyond the scale, unless ROUNDEC is given; PostgreSQL would round.
    with decimal.localcontext(prec=2000):
        try:
            number = decimal.Decimal(text).quantize(decimal.Decimal(1).scaleb(-scale), way)
        except decimal.InvalidOperation:
            raise _overflow(precision, scale, text) from None
    if abs(number) >= decimal.Decimal(1).scaleb(precision - scale):
        raise _overflow(precision, scale, text)
    return f"{number:f}"


def _overflow(precision: int, scale: int, text: str) -> BadValue:
    return BadValue(errors.OUT_OF_RANGE, f"Overflow for NUMERIC({precision},{scale}): '{text[:64]}'")


def _boolean(text: str) -> str:
    if text.lower() in _TRUE:
        return "true"
    if text.lower() in _FALSE:
        return "false"
    raise BadValue(errors.BOOLEAN, f"Unknown boolean format: '{text[:64]}'")


def _varbyte(column: Column, text: str) -> str:
    if not re.fullmatch("(?:[0-9A-Fa-f]{2})*", text):
        raise BadValue(errors.INVALID_LINE, "Invalid hexadecimal digits for VARBYTE")
    if len(text) // 2 > (column.length or 1 << 20):
        raise BadValue(errors.OUT_OF_RANGE, "Binary length exceeds DDL length")
    return "\\x" + text


def _super(text: str) -> str:
    try:
        json.loads(text, parse_constant=no_constant, parse_float=str, parse_int=str)
        text.encode()
    except (ValueError, RecursionError) as error:
        raise BadValue(errors.SUPER, f"Input data is not properly formatted JSON for SUPER: {error}") from None
    return _super_of_json(text)


def _super_of_json(text: str) -> str:
    """Return a text that is JSON already, as a part of an object."""
    if "\\u" in text:
        _check_escapes(text)
    return text


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # and no backslash before some letters


def _check_escapes(text: str) -> None:
    """Refuse NUL and lone surrogates, which no text of a database can hold."""
    plain = json.dumps(json.loads(text), ensure_ascii=False)
    if _NUL.search(plain) or any("\ud800" <= character <= "\udfff" for character in plain):
        raise BadValue(errors.UTF8, "String contains invalid or unsupported UTF8 codepoints")
