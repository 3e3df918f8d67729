"""Redshift's rules for the SQL that the target writes; `broken_rules` lists violations.

The rules are from the AWS documentation: COPY from columnar data formats, JSON and CSV, data conversion parameters,
ALTER TABLE, MERGE, CREATE TABLE, limits and quotas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PART = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<text>'(?:[^'\\]|''|\\.)*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<bound>%s|\$\d+)
  | (?P<number>\d+(?:\.\d+)?)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign>[^\s\w'"\\])
    """,
    re.DOTALL | re.VERBOSE,
)
_COLUMNAR = {"FROM", "IAM_ROLE", "CREDENTIALS", "FORMAT", "AS", "PARQUET", "MANIFEST", "STATUPDATE", "OFF"} | {
    *("ACCEPTINVCHARS", "FILLRECORD", "EXPLICIT_IDS", "SERIALIZETOJSON", "COPY", "DEFAULT")
}
_BENDING = {
    "TRUNCATECOLUMNS",
    "EMPTYASNULL",
    "BLANKSASNULL",
    "ACCEPTINVCHARS",
    "MAXERROR",
    "IGNOREBLANKLINES",
    "ROUNDEC",
}
"""Options of COPY that change values or skip rows."""
_FOREIGN = {"RETURNING", "JSONB", "ON CONFLICT", "SERIAL", "ILIKE ANY", "TRUNCATE", "CREATE INDEX", "QUALIFY"}
"""Syntax of PostgreSQL and other databases that Redshift lacks, and statements that commit."""
_TYPES = (
    r"SMALLINT|INTEGER|BIGINT|REAL|DOUBLE PRECISION|DECIMAL\((\d+), (\d+)\)|BOOLEAN|VARCHAR\((\d+)\)|VARBYTE\((\d+)\)"
    r"|DATE|TIME|TIMESTAMP|TIMESTAMPTZ|SUPER"
)
_DEFINED = re.compile(rf'"(?:[^"]|"")+" (?P<type>{_TYPES})(?: NOT NULL)?(?=[,)]|$)')
_MERGE = re.compile(
    r"MERGE INTO N\.N USING N(?: AS W)? ON N\.N = (?:W|N)\.N(?: AND N\.N = (?:W|N)\.N)* "
    r"(?:AND N\.N BETWEEN (?:-?[\d.]+|T) AND (?:-?[\d.]+|T) )*"
    r"WHEN MATCHED THEN UPDATE SET N = W\.N(?:, N = (?:W\.N|NULL))* "
    r"WHEN NOT MATCHED THEN INSERT \(N(?:, N)*\) VALUES \(W\.N(?:, W\.N)*\)"
)


def parts(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each token; an unclosed quote has the kind `broken`."""
    found, position = [], 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            return [*found, ("broken", text[position:])]
        found.append((match.lastgroup or "", match.group()))
        position = match.end()
    return found


def skeleton(text: str) -> str:
    """Return the text with N for each quoted name and T for each literal.

    The result must not depend on names and values.
    """
    return "".join({"name": "N", "text": "T", "space": " "}.get(kind, part) for kind, part in parts(text))


def broken_rules(text: str) -> list[str]:
    """Return the rules that the text violates; empty if Redshift accepts it."""
    return [*_general(text), *_definitions(text), *_copy(text), *_alter(text), *_merge(text)]


def _words(text: str) -> list[str]:
    return [part.upper() for kind, part in parts(text) if kind == "word"]


def _general(text: str) -> Iterator[str]:
    bare = " ".join(skeleton(text).upper().split())
    found = parts(text)
    if any(kind == "broken" for kind, _ in found):
        yield "a quote is not closed"
    if any(part in (";", "`", "[") for kind, part in found if kind == "sign"):
        yield "more than one statement, or foreign quotes"
    if "--" in bare or "/*" in bare:
        yield "a comment"
    if "\0" in text:
        yield "a NUL"
    if bare.count("%S") > 32_767:
        yield "more than 32,767 parameters"
    for foreign in _FOREIGN:
        if re.search(rf"\b{foreign}\b", bare):
            yield f"{foreign}, which Redshift does not have"
    for kind, part in found:
        if kind == "name" and part == '""':
            yield "a name of no bytes"
    if re.match(r"CREATE|ALTER|COMMENT|GRANT|DROP|COPY|LOCK", bare) and ("%S" in bare or "$" in bare):
        yield "a bound parameter where Redshift binds none"


def _definitions(text: str) -> Iterator[str]:
    if not re.match(r"CREATE (?:TEMP )?TABLE (?!.* AS SELECT)", skeleton(text)):
        return
    body = text[text.index("(") + 1 :]
    count = len(
        re.findall(r"N [A-Z]", skeleton(text).partition("(")[2].partition(" DISTSTYLE")[0].partition(" COMPOUND")[0])
    )
    found = list(_DEFINED.finditer(body))
    if len(found) != count:
        yield f"{count - len(found)} columns of a type that Redshift does not have"
    if count > 1_600:
        yield "more than 1,600 columns"
    for match in found:
        yield from _size(match["type"])


def _size(kind: str) -> Iterator[str]:
    sizes = [int(n) for n in re.findall(r"\d+", kind)]
    if kind.startswith("VARCHAR") and not 1 <= sizes[0] <= 65_535:
        yield f"{kind}: a VARCHAR has 1 to 65,535 bytes"
    if kind.startswith("VARBYTE") and not 1 <= sizes[0] <= 16_777_216:
        yield f"{kind}: a VARBYTE has 1 to 16,777,216 bytes"
    if kind.startswith("DECIMAL") and not (1 <= sizes[0] <= 38 and 0 <= sizes[1] <= min(37, sizes[0])):
        yield f"{kind}: a DECIMAL has up to 38 digits, 37 of them after the point"


def _copy(text: str) -> Iterator[str]:
    bare = " ".join(skeleton(text).split())
    if not bare.startswith("COPY "):
        return
    words = set(_words(text))
    if not re.match(
        r"COPY N(?:\.N)? FROM T (?:IAM_ROLE (?:T|default)|CREDENTIALS T) FORMAT AS (?:PARQUET|JSON T|CSV)\b", bare
    ):
        yield "COPY is not of the form that this target writes"
    if "MANIFEST" not in words:
        yield "COPY without MANIFEST: files that appear meanwhile would be read too"
    if bending := words & _BENDING:
        yield f"{', '.join(sorted(bending))}: values would be bent or rows left out without a word"
    if "PARQUET" in words:
        if foreign := words - _COLUMNAR:
            yield f"{', '.join(sorted(foreign))} with a columnar format"
        if "STATUPDATE OFF" not in bare:
            yield "COPY without STATUPDATE OFF"
        return
    for option in ("COMPUPDATE OFF", "STATUPDATE OFF"):
        if option not in bare:
            yield f"COPY without {option}"
    for option in ("DATEFORMAT 'auto'", "TIMEFORMAT 'auto'"):
        if option not in text:
            yield f"COPY without {option}, in lower case"
    if len(words & {"GZIP", "BZIP2", "ZSTD", "LZOP"}) > 1:
        yield "COPY with more than one compression"
    if re.search(r"NULL AS '(?:\\\\)?(?:n|0)?'", text):
        yield "NULL AS with what may be a value or the end of a line"


def _alter(text: str) -> Iterator[str]:
    bare = " ".join(skeleton(text).split())
    if not bare.startswith("ALTER TABLE "):
        return
    added = re.fullmatch(rf"ALTER TABLE N\.N ADD COLUMN N (?:{_TYPES})", bare)
    widened = re.fullmatch(r"ALTER TABLE N\.N ALTER COLUMN N TYPE (VARCHAR\(\d+\))", bare)
    if not added and not widened:
        yield "ALTER TABLE does more or other than add one column or widen one VARCHAR"
    if widened:
        yield from _size(widened[1])


def _merge(text: str) -> Iterator[str]:
    bare = " ".join(re.sub(r"_sdc_source", "W", skeleton(text)).split())
    if bare.startswith("MERGE") and not _MERGE.fullmatch(bare):
        yield "MERGE is not of Redshift's form: no alias for the target, plain SET columns, equality, both WHEN clauses"
