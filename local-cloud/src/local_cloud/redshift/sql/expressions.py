"""Differences inside statements between Redshift and PostgreSQL: functions, casts and dates. Pure."""

from collections.abc import Callable
from itertools import islice

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.tokens import Reader, Token, closing, significant, spelled, split_commas
from local_cloud.redshift.sql.types import read_type

_DATE_PARTS = ("dateadd", "datediff")
_LONGEST_TYPE = 16
_JSON_OPERATORS = ("->", "->>", "@>", "<@", "#>", "#>>")


def rewritten(found: list[Token]) -> str:
    """Return SQL for PostgreSQL from tokens with PostgreSQL's names. Spaces and comments stay."""
    parts, at = list[str](), 0
    while at < len(found):
        token = found[at]
        change = _CHANGES.get(token.low) if token.kind in ("word", "operator") else None
        if change is None:
            _check(token)
            parts.append(token.text)
            at += 1
            continue
        text, at = change(found, at)
        parts.append(text)
    return "".join(parts)


def _check(token: Token) -> None:
    if token.kind == "string" and token.text[0] in "eE":
        raise RedshiftError('type "e" does not exist', "42704")
    if token.kind == "operator" and token.text in _JSON_OPERATORS:
        raise RedshiftError(f"operator does not exist: {token.text}", "42883")


def _after(found: list[Token], at: int) -> int:
    """Return the index of the next token that is no space or comment, or the end."""
    at += 1
    while at < len(found) and found[at].kind in ("space", "comment"):
        at += 1
    return at


def _before(found: list[Token], at: int) -> str:
    while at and found[at - 1].kind in ("space", "comment"):
        at -= 1
    return found[at - 1].low if at else ""


def _call(found: list[Token], at: int) -> tuple[list[list[Token]], int] | None:
    """Return the arguments of the call that begins at a function's name, and its end, or None if it is no call."""
    opening = _after(found, at)
    if opening >= len(found) or found[opening].text != "(" or _before(found, at) == ".":
        return None
    end = closing(found, opening)
    if end is None:
        raise syntax_error("")
    return split_commas(found[opening + 1 : end]), end + 1


def _same(found: list[Token], at: int) -> tuple[str, int]:
    return found[at].text, at + 1


def _sysdate(found: list[Token], at: int) -> tuple[str, int]:
    if _before(found, at) in (".", "as") or _call(found, at):
        return _same(found, at)
    return "(transaction_timestamp() AT TIME ZONE 'UTC')", at + 1


def _nvl(found: list[Token], at: int) -> tuple[str, int]:
    return ("coalesce", at + 1) if _call(found, at) else _same(found, at)


def _nvl2(found: list[Token], at: int) -> tuple[str, int]:
    if not (call := _call(found, at)):
        return _same(found, at)
    given, full, empty = (rewritten(argument) for argument in call[0])
    return f"CASE WHEN ({given}) IS NOT NULL THEN {full} ELSE {empty} END", call[1]


def _approximate(found: list[Token], at: int) -> tuple[str, int]:
    following = _after(found, at)
    is_it = following < len(found) and found[following].low in ("count", "percentile_disc")
    return ("", at + 1) if is_it else _same(found, at)


def _cast_operator(found: list[Token], at: int) -> tuple[str, int]:
    """Translate `::` and the type after it; return the SQL and its end."""
    meant = (place for place in range(at + 1, len(found)) if found[place].kind not in ("space", "comment"))
    places = list(islice(meant, _LONGEST_TYPE))
    reader = Reader([found[place] for place in places])
    kind = read_type(reader, for_column=False)
    return f"::{kind.sql}", places[len(places) - len(reader.remaining) - 1] + 1


def _cast(found: list[Token], at: int) -> tuple[str, int]:
    if not (call := _call(found, at)):
        return _same(found, at)
    inner = [token for part in _with_commas(call[0]) for token in part]
    depth, position = 0, None
    for index, token in enumerate(inner):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.low == "as":
            position = index
    if position is None:
        raise syntax_error(")")
    reader = Reader(significant(inner[position + 1 :]))
    kind = read_type(reader, for_column=False)
    reader.done()
    return f"CAST({rewritten(inner[:position])} AS {kind.sql})", call[1]


def _with_commas(parts: list[list[Token]]) -> list[list[Token]]:
    comma = Token("operator", ",")
    return [part if index == 0 else [comma, *part] for index, part in enumerate(parts)]


def _convert(found: list[Token], at: int) -> tuple[str, int]:
    if not (call := _call(found, at)) or len(call[0]) != 2:
        return _same(found, at)
    reader = Reader(significant(call[0][0]))
    kind = read_type(reader, for_column=False)
    reader.done()
    return f"CAST({rewritten(call[0][1])} AS {kind.sql})", call[1]


def _listagg(found: list[Token], at: int) -> tuple[str, int]:
    if not (call := _call(found, at)):
        return _same(found, at)
    arguments, end = call
    text = rewritten(arguments[0]).strip()
    distinct = text.lower().startswith("distinct ")
    text = text[9:] if distinct else text
    delimiter = rewritten(arguments[1]) if len(arguments) > 1 else "''"
    order, within = "", _after(found, end - 1)
    if within < len(found) and found[within].low == "within":
        group = _after(found, within)
        if group >= len(found) or found[group].low != "group" or (ordered := _call(found, group)) is None:
            raise syntax_error("WITHIN")
        order = " " + rewritten([token for part in _with_commas(ordered[0]) for token in part])
        end = ordered[1]
    return f"string_agg({'DISTINCT ' * distinct}CAST({text} AS varchar), {delimiter}{order})", end


def _date_part(found: list[Token], at: int) -> tuple[str, int]:
    """Translate the part of a date, a bare word in Redshift, to a string; return the SQL and its end."""
    if not (call := _call(found, at)):
        return _same(found, at)
    arguments, end = call
    part = significant(arguments[0])
    named = f"'{part[0].value.lower()}'" if len(part) == 1 and part[0].kind in ("word", "string") else spelled(part)
    others = ", ".join(rewritten(argument).strip() for argument in arguments[1:])
    return f"{found[at].text}({named}, {others})", end


def _minus(found: list[Token], at: int) -> tuple[str, int]:
    return ("EXCEPT", at + 1) if found[at].text.lower() == "minus" and _before(found, at) != "." else _same(found, at)


def _distinct(found: list[Token], at: int) -> tuple[str, int]:
    following = _after(found, at)
    if following < len(found) and found[following].low == "on" and _before(found, at) == "select":
        raise syntax_error("ON")
    return _same(found, at)


_CHANGES: dict[str, Callable[[list[Token], int], tuple[str, int]]] = {
    "sysdate": _sysdate,
    "nvl": _nvl,
    "nvl2": _nvl2,
    "approximate": _approximate,
    "::": _cast_operator,
    "cast": _cast,
    "convert": _convert,
    "listagg": _listagg,
    "minus": _minus,
    "distinct": _distinct,
    **dict.fromkeys(_DATE_PARTS, _date_part),
}
