"""MERGE in Redshift's form, as PostgreSQL's. Pure. Page "MERGE" of the Redshift guide."""

from local_cloud.redshift.errors import RedshiftError, syntax_error
from local_cloud.redshift.sql.expressions import rewritten
from local_cloud.redshift.sql.statement import Plain
from local_cloud.redshift.sql.tokens import Reader, Token, significant, split_commas


def merge(text: str, found: list[Token]) -> Plain:
    """Translate MERGE INTO target USING source ON ... with both WHEN clauses, or REMOVE DUPLICATES."""
    reader = Reader(significant(found))
    reader.expect("merge", "into")
    target = reader.name()
    reader.expect("using")  # also refuses an alias of the target
    if reader.low() == "(":
        raise RedshiftError("MERGE source must be a table or a view, not a subquery", "0A000")
    source = alias = reader.name()
    if reader.accept("as") or reader.low() != "on":
        alias = reader.name()
    reader.expect("on")
    condition = _until(reader, "when", "remove")
    if not any(token.text == "=" for token in condition):
        raise RedshiftError("MERGE supports only equality conditions between target and source", "0A000")
    on = _spaced(condition)
    if reader.accept("remove", "duplicates"):
        reader.done()
        return Plain(text, _without_duplicates(target, source, alias, on))
    clauses = _clauses(reader)
    return Plain(text, f"MERGE INTO {target} USING {source} {alias * (alias != source)} ON {on} {clauses}")


def _until(reader: Reader, *words: str) -> list[Token]:
    """Return the tokens before one of these words, outside of parentheses and of CASE."""
    parts, cases = list[Token](), 0
    while not reader.is_done and (cases or reader.low() not in words):
        if reader.low() == "(":
            parts += [Token("operator", "("), *reader.parenthesised(), Token("operator", ")")]
            continue
        cases += {"case": 1, "end": -1}.get(reader.low(), 0)
        parts.append(reader.next())
    return parts


def _spaced(found: list[Token]) -> str:
    return rewritten([token for part in found for token in (part, Token("space", " "))]).strip()


def _clauses(reader: Reader) -> str:
    done, parts = set[str](), list[str]()
    while reader.accept("when"):
        kind = "not matched" if reader.accept("not", "matched") else "matched"
        if kind == "matched":
            reader.expect("matched")
        reader.expect("then")  # also refuses AND and a condition
        if kind in done:
            raise syntax_error("WHEN")
        done.add(kind)
        action = _until(reader, "when")
        parts.append(f"WHEN {kind.upper()} THEN {_insert(action) if kind == 'not matched' else _change(action)}")
    reader.accept(";")
    reader.done()
    if done != {"matched", "not matched"}:
        raise RedshiftError("MERGE requires both WHEN MATCHED and WHEN NOT MATCHED clauses", "42601")
    return " ".join(parts)


def _change(action: list[Token]) -> str:
    reader = Reader(action)
    if reader.accept("delete"):
        reader.done()
        return "DELETE"
    reader.expect("update", "set")
    for assignment in split_commas(reader.rest()):
        column = Reader(assignment)
        column.next()
        column.expect("=")  # also refuses a qualified column
    return _spaced(action)


def _insert(action: list[Token]) -> str:
    reader = Reader(action)
    reader.expect("insert")
    if reader.low() == "(":
        reader.parenthesised()
    reader.expect("values")
    reader.parenthesised()
    reader.done()
    return _spaced(action)


def _without_duplicates(target: str, source: str, alias: str, on: str) -> str:
    """Return SQL that replaces the target's rows that match a source row by the distinct rows of the source."""
    named = f"{source} {alias}" if alias != source else source
    return (
        f"WITH replaced AS (DELETE FROM {target} USING {named} WHERE {on}) "  # noqa: S608 - names as SQL
        f"INSERT INTO {target} SELECT DISTINCT * FROM {source}"
    )
