"""Parser of COPY, which refuses what Redshift refuses: the page "COPY" of its guide and those below it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from local_cloud.redshift.copy.command import CopyCommand, Format, credentials
from local_cloud.redshift.errors import SYNTAX, UNSUPPORTED, RedshiftError, unsupported
from local_cloud.redshift.sql import tokens
from local_cloud.redshift.sql.tokens import Reader, Token

MOST_ERRORS = 100_000
_FORMATS = {"csv", "json", "parquet", "delimiter", "fixedwidth", "avro", "orc", "shapefile"}
_FLAGS = {
    "manifest", "gzip", "bzip2", "zstd", "removequotes", "escape", "emptyasnull", "blanksasnull", "truncatecolumns",
    "ignoreblanklines", "fillrecord", "acceptanydate", "trimblanks", "explicit_ids", "noload", "roundec",
    "serializetojson",
}  # fmt: skip
_TEXTS = {
    "iam_role", "credentials", "access_key_id", "secret_access_key", "session_token", "region", "timeformat",
    "dateformat", "null",
}  # fmt: skip
_NUMBERS = {"maxerror", "ignoreheader", "comprows"}
_SWITCHES = {"compupdate", "statupdate"}
_NOT_HERE = {
    "lzop", "fixedwidth", "avro", "orc", "shapefile", "encrypted", "master_symmetric_key", "ssh", "readratio",
    "ignoreallerrors",
}  # fmt: skip
_COLUMNAR = {
    "parquet", "acceptinvchars", "fillrecord", "iam_role", "credentials", "access_key_id", "secret_access_key",
    "session_token", "statupdate", "manifest", "explicit_ids", "serializetojson",
}  # fmt: skip
_NEVER_WITH = {
    "csv": {"fixedwidth", "removequotes", "escape"},
    "json": {"delimiter", "escape", "fillrecord", "removequotes", "ignoreblanklines"},
    "delimited": {"serializetojson"},
}


def parse(sql: str) -> CopyCommand:
    """Return the parsed command."""
    words = _Words(tokens.significant(tokens.tokens(sql)))
    words.expect("copy")
    table = _table(words)
    columns = _columns(words)
    words.expect("from")
    source = words.text()
    given = _options(words)
    _check(given, source)
    return _command(table, columns, source, given)


class _Words(Reader):
    """The tokens of a COPY, without the semicolons at its end."""

    def __init__(self, found: list[Token]) -> None:
        while found and found[-1].text == ";":
            found.pop()
        super().__init__(found)

    def peek(self) -> Token | None:
        return None if self.is_done else self.remaining[0]

    def text(self) -> str:
        token = self.peek()
        if token is None or token.kind not in ("string", "dollar"):
            raise self.unexpected()
        return self.next().unescaped

    def number(self) -> int:
        token = self.peek()
        digits = token.value if token and token.kind in ("number", "string") else ""
        if not digits.isdigit():
            raise self.unexpected()
        self.next()
        return int(digits)


def _table(words: _Words) -> str:
    parts = [words.next()]
    while words.low() == ".":
        parts += [words.next(), words.next()]
    for part in parts[::2]:
        if part.kind not in ("word", "name"):
            raise RedshiftError(f'syntax error at or near "{part.text}"', SYNTAX)
    return tokens.sql_of(parts)


def _columns(words: _Words) -> tuple[str, ...] | None:
    if not words.accept("("):
        return None
    names: list[str] = []
    while True:
        token = words.peek()
        if token is None or token.kind not in ("word", "name"):
            raise words.unexpected()
        names.append(words.next().value.lower())
        if words.accept(")"):
            return tuple(names)
        words.expect(",")


def _options(words: _Words) -> dict[str, Any]:
    given: dict[str, Any] = {}
    while words.peek() is not None:
        for name, value in _option(words).items():
            if name in given:
                raise RedshiftError(f"conflicting or redundant options: {name.upper()}", SYNTAX)
            given[name] = value
    return given


def _option(words: _Words) -> dict[str, Any]:
    if words.low() == "format":
        words.next()
        words.accept("as")
        if words.low() not in _FORMATS:
            raise words.unexpected()
    name = words.low()
    reader = _reader(name)
    if reader is None:
        raise words.unexpected()
    words.next()
    return {name: None, **(reader(words, name) or {})}


def _reader(name: str) -> Callable[[_Words, str], Mapping[str, Any]] | None:
    special = {"json": _json, "csv": _csv, "delimiter": _delimiter, "acceptinvchars": _acceptinvchars}
    if name in special:
        return special[name]
    if name in _NOT_HERE:
        raise unsupported(f"COPY with {name.upper()}")
    if name in _FLAGS or name == "parquet":
        return lambda _words, flag: {flag: True}
    if name in _TEXTS:
        return _text
    if name in _NUMBERS:
        return _number
    if name in _SWITCHES:
        return _switch
    return _encoding if name == "encoding" else None


def _text(words: _Words, name: str) -> Mapping[str, Any]:
    words.accept("as")
    if name == "iam_role" and words.low() == "default":
        words.next()
        return {name: "default"}
    token = words.peek()
    if name == "null" and token and token.value == "\\N":
        words.next()
        return {name: "\\N"}  # not an escape, as everywhere in the documentation
    return {name: words.text()}


def _number(words: _Words, name: str) -> Mapping[str, Any]:
    words.accept("as")
    return {name: words.number()}


def _switch(words: _Words, name: str) -> Mapping[str, Any]:
    if words.low() in ("on", "off", "true", "false", "preset"):
        return {name: words.next().low in ("on", "true", "preset")}
    return {name: True}


def _json(words: _Words, name: str) -> Mapping[str, Any]:
    words.accept("as")
    token = words.peek()
    return {name: words.text() if token and token.kind == "string" else "auto"}


def _csv(words: _Words, name: str) -> Mapping[str, Any]:
    if not words.accept("quote"):
        return {name: '"'}
    words.accept("as")
    return {name: _one_byte(tokens.unescape(words.text()), "quote")}


def _delimiter(words: _Words, name: str) -> Mapping[str, Any]:
    words.accept("as")
    delimiter = tokens.unescape(words.text())
    if not delimiter:
        raise RedshiftError("COPY delimiter must not be empty", SYNTAX)
    return {name: delimiter}


def _acceptinvchars(words: _Words, name: str) -> Mapping[str, Any]:
    if not words.accept("as") and (words.peek() is None or words.peek().kind != "string"):  # type: ignore[union-attr]
        return {name: "?"}
    return {name: _one_byte(words.text(), name)}


def _encoding(words: _Words, name: str) -> Mapping[str, Any]:
    words.accept("as")
    encoding = words.next().value
    if encoding.lower() not in ("utf8", "utf-8"):
        raise unsupported(f"COPY with ENCODING {encoding}")
    return {name: encoding}


def _one_byte(text: str, option: str) -> str:
    if len(text.encode()) != 1 or text == "\0":
        raise RedshiftError(f"COPY {option.lower()} must be a single ASCII character", UNSUPPORTED)
    return text


def _format(given: Mapping[str, Any]) -> Format:
    named: list[Format] = [name for name in ("csv", "json", "parquet") if name in given]
    if len(named) > 1:
        raise RedshiftError(f"COPY format {named[0].upper()} cannot be used with {named[1].upper()}", SYNTAX)
    return named[0] if named else "delimited"


def _check(given: Mapping[str, Any], source: str) -> None:
    """Refuse options that cannot be combined."""
    if not source.lower().startswith("s3://"):
        raise unsupported(f"COPY from {source.split('://', maxsplit=1)[0]}://")
    if "/" not in source[5:] or source[5:].startswith("/"):
        raise RedshiftError(f"The S3 path '{source}' names no bucket and key", "XX000")
    form = _format(given)
    never = set(given) - _COLUMNAR if form == "parquet" else set(given) & _NEVER_WITH[form]
    if never:
        shown = "PARQUET based COPY" if form == "parquet" else f"COPY with format {form.upper()}"
        raise RedshiftError(f"{min(never).upper()} argument is not supported for {shown}", UNSUPPORTED)
    compressions = [name for name in ("gzip", "bzip2", "zstd") if name in given]
    if len(compressions) > 1:
        raise RedshiftError(f"{compressions[0].upper()} cannot be used with {compressions[1].upper()}", SYNTAX)
    if {"escape", "null"} <= set(given) and given["null"] == "\n":
        raise RedshiftError("COPY null string cannot be the end of a line with ESCAPE", SYNTAX)
    if given.get("maxerror", 0) > MOST_ERRORS:
        raise RedshiftError(f"MAXERROR must be between 0 and {MOST_ERRORS}", "22023")


def _command(table: str, columns: tuple[str, ...] | None, source: str, given: Mapping[str, Any]) -> CopyCommand:
    form = _format(given)
    delimiter = given.get("delimiter", "," if form == "csv" else "|")
    command = CopyCommand(
        table=table,
        columns=columns,
        source=source,
        format=form,
        credentials=credentials(given),
        compression=next((name for name in ("gzip", "bzip2", "zstd") if name in given), None),
        region=given.get("region"),
        delimiter=delimiter,
        null_as=given.get("null"),
        date_format=given.get("dateformat"),
        time_format=given.get("timeformat"),
        ignore_header=given.get("ignoreheader", 0),
        max_errors=max(1, given.get("maxerror", 0)),
        invalid=given.get("acceptinvchars"),
        options=frozenset(name for name, value in given.items() if value is not False),
    )
    if form == "json":
        return replace(command, json=_shredding(given["json"]))
    return replace(command, quote=given["csv"]) if form == "csv" else command


def _shredding(option: str) -> str:
    known = {"auto": "auto", "auto ignorecase": "auto ignorecase", "noshred": "noshred"}
    if option in known or option.startswith("s3://"):
        return option
    if option.strip().lower() in known:
        raise RedshiftError(f"Invalid JSON option '{option}': it is case-sensitive, in lower case", SYNTAX)
    raise RedshiftError(f"Invalid JSONPath format: '{option}' is neither 'auto' nor an s3:// URL", SYNTAX)
