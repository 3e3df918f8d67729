"""PostgreSQL's answers as Redshift's. Pure."""

import re
from collections.abc import Callable, Mapping

from local_cloud.redshift import wire

BYTEA, JSONB = 17, 3802
_TYPES = {BYTEA: 6551, JSONB: 4000}  # VARBYTE and SUPER
SUPER, VARBYTE = 4000, 6551

# Parameters that PostgreSQL reports; Redshift reports itself as PostgreSQL 8.0.2.
PARAMETERS = {"server_version": "8.0.2"}
_BYTES = re.compile(r'violates check constraint "bytes_(\d+)_\w*"')
_NULL = re.compile(r'null value in column "(.*)" of relation')
_ROLE = re.compile(r'role "(?:(group|role):)?([^"]*)"')


def row_description(body: bytes, full_name: Callable[[str], str]) -> tuple[bytes, frozenset[int]]:
    """Return the columns of a result with Redshift's types and names, and the indexes of VARBYTE columns."""
    count, position = wire.int16(body, 0), 2
    parts, varbytes = [body[:2]], set[int]()
    for index in range(count):
        name, after = wire.split_text(body, position)
        type_id = wire.int32(body, after + 6)
        if type_id == BYTEA:
            varbytes.add(index)
        parts += [wire.text(full_name(name)), body[after : after + 6], wire.pack32(_TYPES.get(type_id, type_id))]
        parts.append(body[after + 10 : after + 18])
        position = after + 18
    return b"".join(parts), frozenset(varbytes)


def parameter_description(body: bytes) -> bytes:
    """Return the types of a statement's parameters, as Redshift's."""
    ids = [wire.int32(body, position) for position in range(2, len(body), 4)]
    return body[:2] + b"".join(wire.pack32(_TYPES.get(type_id, type_id)) for type_id in ids)


def data_rows(run: bytes, varbytes: frozenset[int]) -> bytes:
    r"""Return data rows in wire format, without PostgreSQL's `\x` in VARBYTE columns sent as text."""
    parts, position = list[bytes](), 0
    while position < len(run):
        end = position + 1 + wire.int32(run, position + 1)
        values = wire.row_of(run[position + 5 : end])
        for index in varbytes:
            value = values[index]
            values[index] = value[2:] if value is not None else None
        parts.append(wire.data_row(values))
        position = end
    return b"".join(parts)


def text_varbytes(varbytes: frozenset[int], formats: list[int]) -> frozenset[int]:
    """Return the VARBYTE columns that a portal sends as text, given the format codes of its Bind."""
    if not formats:
        return varbytes
    if len(formats) == 1:
        return frozenset() if formats[0] else varbytes
    return frozenset(index for index in varbytes if formats[index] == 0)


def result_formats(bind: bytes) -> list[int]:
    """Return the format codes of the results in a Bind message."""
    _, position = wire.split_text(bind)
    _, position = wire.split_text(bind, position)
    position += 2 + 2 * wire.int16(bind, position)
    count = wire.int16(bind, position)
    position += 2
    for _ in range(count):
        position += 4 + max(0, wire.int32(bind, position))
    count = wire.int16(bind, position)
    return [wire.int16(bind, position + 2 + 2 * index) for index in range(count)]


def fields(found: Mapping[str, str], full_text: Callable[[str], str]) -> dict[str, str]:
    """Return the fields of an error or a notice, with Redshift's names in their texts."""
    kept = {name: value for name, value in found.items() if name not in "WFLRpqstcdn"}
    kept |= {name: full_text(kept[name]) for name in "MDH" if name in kept}
    kept |= _words(kept)
    kept["M"] = _ROLE.sub(lambda match: f'{match[1] or "user"} "{match[2]}"', kept.get("M", ""))
    return {name: value for name, value in kept.items() if value}


def _words(found: Mapping[str, str]) -> dict[str, str]:
    code, words = found.get("C", ""), found.get("M", "")
    if code == "40001":
        detail = f"Serializable isolation violation on table, transactions forming the cycle are: {words}"
        return {"C": "XX000", "M": "1023", "D": detail}
    if code == "21000" and words.startswith("MERGE command cannot affect row a second time"):
        return {"C": "XX000", "M": "Found multiple matches to update the same tuple.", "H": ""}
    if code == "23514" and (limit := _BYTES.search(words)):
        return {"C": "22001", "M": f"value too long for type character varying({limit[1]})", "D": ""}
    if code == "23502" and (column := _NULL.match(words)):
        return {"M": f"Cannot insert a NULL value into column {column[1]}", "D": ""}
    return {}


def parameter(body: bytes, *, unicode: bool) -> bytes:
    """Return a parameter's status; the encoding is UNICODE for a client that asked for none (`unicode`)."""
    name, position = wire.split_text(body)
    value, _ = wire.split_text(body, position)
    if name == "client_encoding" and unicode and value == "UTF8":
        value = "UNICODE"
    return wire.text(name) + wire.text(PARAMETERS.get(name, value))
