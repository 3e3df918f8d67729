"""XML: the elements at one path are rows; their attributes, the elements within them and their text are columns.

    <orders><order id="1"><item>pen</item><item>ink</item></order></orders>  ->  id: 1, item: [pen, ink]

An element that repeats is a list; one with attributes or elements in it is a struct, whose own text is the member
`_text`. Names have no namespaces. Empty elements and attributes, blank text, and texts in `null_values` are null;
attributes of XML Schema instances, such as `xsi:nil`, are left out. Types are inferred as for CSV, in the standard
spelling. A document is parsed as a stream, by expat; a reading that resumes parses it from its start again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Any, cast
from xml.parsers import expat

import pyarrow as pa
from pyarrow import types as pt

from singer_arrow.casting.to_json import json_text
from singer_arrow.compression import in_pieces
from singer_arrow.enforcement.bad_rows import batch_of
from singer_arrow.enforcement.enforce import columns_to_read, fit_batch, schema_columns, type_name, widened_field
from singer_arrow.errors import DataError, DriftError
from singer_arrow.formats.blocks import in_groups
from singer_arrow.formats.text import infer_type
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint, no_such_resume_point
from singer_arrow.reading.chunks import MAX_RECORD_BYTES, PLAIN_ENCODINGS, codec_name, decoded, unpacked
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.schema.arrow_schema import is_json, json_field, merge_fields

logger = logging.getLogger(__name__)
MOST_TYPED = 10_000
"""Columns whose types are inferred; no warehouse has tables with more."""
MAX_ELEMENTS, MAX_DEPTH, MAX_TAG, MAX_NAMES = 1 << 20, 200, 8 << 20, 1 << 20
"""Elements and attributes of a row, elements within each other, bytes of a tag or comment and of all names, at most."""
_MOST_LEVELS, _MOST_MEMBERS = 32, 200  # of a type, as for JSON; with more, a column is JSON text
_GROWTH = 4  # a row takes that much more memory than in other text
_PIECE = 256 << 10
_ELEMENT, _ROW = 500, 10  # bytes in memory of an element, and per byte of a row, about
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance}"
_TRUNCATED = (3, 5, 6, 20)  # codes of expat: no element found, and three kinds of unclosed tokens

Node = str | None | dict[str, list[Any]]
"""An element: its text, or its attributes and elements as lists of nodes by name."""
Members = dict[str, list[Node]]
_size: Callable[[tuple[Members, int]], int] = itemgetter(1)


class XmlFormat:
    """The format `xml`."""

    def infer(self, reader: ObjectReader, options: ReadOptions, *, sample_bytes: int) -> pa.Schema:
        rows = [row for row, _ in next(in_groups(_rows(reader, options), _size, sample_bytes, options.batch_rows), [])]
        names = list(dict.fromkeys(name for row in rows for name in row))
        more = [pa.field(name, pa.string()) for name in names[MOST_TYPED:]]
        return pa.schema([*_types(rows, names[:MOST_TYPED], {}), *more])

    def read(
        self, reader: ObjectReader, schema: pa.Schema, options: ReadOptions, progress: ReadProgress | None = None
    ) -> Iterator[pa.RecordBatch]:
        progress = progress or ReadProgress()
        begin = progress.resume_point or ResumePoint()
        rows, given, done = _rows(reader, options), begin.rows, begin.lines
        size, before = options.block_bytes // _GROWTH, islice(rows, done)
        first_rows = [row for row, _ in next(in_groups(before, _size, size, options.batch_rows), [])]
        if len(first_rows) + sum(1 for _ in before) < done:
            raise no_such_resume_point(begin, reader.url)
        progress.rows_read += done
        own = {name: schema.field(name) for name in schema_columns(schema, options)}
        closed = {name for name, f in own.items() if not (pt.is_nested(f.type) or pt.is_null(f.type))}
        typed = [name for name in own if name in closed and not pt.is_string(own[name].type)]
        odd = set[str]()  # names of elements that were logged
        # All drift is found here: further values that do not fit are bad; digits are cut off as in all text
        fitting = replace(options, declared_columns=frozenset(own), cuts_digits=True)
        for group in in_groups(rows, _size, size, options.batch_rows):
            block = [row for row, _ in group]
            # New columns and members; columns of another type: nested ones, and others in the first rows of the file
            names = dict.fromkeys(name for row in block for name in row if name not in closed)
            found = _types(block, names if options.on_drift in ("raise", "rescue") else (), own)
            fields = dict(own)
            if options.on_drift == "raise":
                columns_to_read(found, schema, options, reader.url)
                others = [*_types(first_rows or block, typed, own), *(f for f in found if f.name in own)]
                others = [f for f in others if f.name not in options.declared_columns]
                if wider := [w for f in others if (w := widened_field(own[f.name], f)) is not None]:
                    first, ours = wider[0], own[wider[0].name]
                    reason = f"with the file's values it is {type_name(first)}, the schema has it as {type_name(ours)}"
                    raise DriftError(reason, wider, url=reader.url, column=first.name)
                typed, first_rows = [], []
            for f in found if options.on_drift == "rescue" else ():
                merged = merge_fields(own[f.name], f) if f.name in own else f
                if f.name not in own or (pt.is_nested(merged.type) and pt.is_nested(own[f.name].type)):
                    fields[f.name] = merged

            # Text in the shape of the schema, then values of its types
            columns, as_json = list[pa.Array](), set[str]()
            for name, f in fields.items():
                t, value = _shaped(f, as_json)
                columns.append(pa.array([value(row[name]) if name in row else None for row in block], t))
            if more := as_json - odd:
                odd |= more
                msg = "%s: elements that repeat, or have elements, where the schema has a value are JSON text: %s"
                logger.warning(msg, reader.url, ", ".join(sorted(more)))
            types = pa.schema([(name, column.type) for name, column in zip(fields, columns, strict=True)])
            batch = batch_of(columns, types, len(block))
            batch = fit_batch(batch, schema, reader.url, first_row=done + 1, options=fitting, progress=progress)
            given, done = given + batch.num_rows, done + len(block)
            progress.rows_read += len(block)
            progress.resume_point = ResumePoint(given, 0, done)
            if batch.num_rows:
                yield batch
        if not done:
            logger.warning("%s: no element is at %s, so that it has no rows", reader.url, options.record_path or "*/*")


def _rows(reader: ObjectReader, options: ReadOptions) -> Iterator[tuple[Members, int]]:
    """Yield the rows of a document, and the bytes of each; DataError if it is not well-formed, or not accepted."""
    memory = 4 * reader.budget.decoded.limit
    most_elements, most_bytes = min(MAX_ELEMENTS, memory // _ELEMENT), min(MAX_RECORD_BYTES, memory // _ROW)
    path, nulls = (options.record_path or "*/*").strip("/").split("/"), {"", *options.null_values}
    # Open elements outside of rows; those of a row: members, their full names, and pieces of text
    above, within = list[str](), list[tuple[Members, dict[str, str], list[str]]]()
    rows, row_name, row_begin, elements, fed = list[tuple[Members, int]](), "", 0, 0, 0
    names_known, names_size = 0, 0  # names that the parser keeps, and their characters

    def error(reason: str, hint: str) -> DataError:
        found = DataError(reason, url=reader.url, line=parser.CurrentLineNumber, hint=hint)
        found.code = DataError.code  # not that of a bad row, which `on_bad_row` can leave out
        return found

    def add(name: str, full_name: str, node: Node) -> None:
        members, names, _ = within[-1]
        if (other := names.setdefault(name, full_name)) != full_name:
            reason = f"{other!r} and {full_name!r} of one element would both be {name!r}"
            raise error(reason, "Set xml.attribute_prefix if one is an attribute (@), else rename one at the source")
        members.setdefault(name, []).append(node)

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal row_name, row_begin, elements, names_known, names_size
        if len(parser.intern) > names_known:
            names_known, names_size = len(parser.intern), names_size + len(name) + sum(map(len, attributes))
            if names_size > MAX_NAMES:
                reason = f"its elements and attributes have names of more than {MAX_NAMES >> 20} MiB in total"
                raise error(reason, "Leave the file out, or write what differs from row to row as values")
        if not within:
            local = name.rpartition("}")[2]
            above.append(local)
            if len(above) > MAX_DEPTH:
                raise error(f"it has more than {MAX_DEPTH} elements within each other", "Leave the file out")
            if len(above) == 1 and path[0] not in ("*", local):
                raise error(f"its root element is <{local}>, not <{path[0]}>", "Correct xml.record_path")
            if len(above) != len(path) or any(p not in ("*", a) for p, a in zip(path, above, strict=True)):
                return
            if options.record_path is None and row_name not in ("", local):
                reason = f"its rows are not alike: <{row_name}> and <{local}> are children of the root element"
                raise error(reason, f"Set xml.record_path, for instance to {above[0]}/{local}")
            row_name, row_begin, elements = local, parser.CurrentByteIndex, 0
        elements += 1 + len(attributes)
        if elements > most_elements or len(within) == MAX_DEPTH:
            reason = f"a row has more than {most_elements:,} elements, or more than {MAX_DEPTH} within each other"
            raise error(reason, "Set xml.record_path to the elements that are rows")
        within.append(({}, {}, []))
        for full_name, value in attributes.items():
            if not full_name.startswith(_INSTANCE):
                member = options.attribute_prefix + full_name.rpartition("}")[2]
                add(member, f"@{full_name}", None if value in nulls else value)

    def end(name: str) -> None:
        if within:
            members, _, texts = within[-1]
            text = "".join(texts)
            is_blank, node = text.isspace() or text in nulls, cast("Node", members)
            if not members:
                node = None if is_blank else text
            elif not is_blank:
                add("_text", "text", text.strip())
            within.pop()
            if within:
                add(name.rpartition("}")[2], name, node)
                return
            rows.append((_members(node), parser.CurrentByteIndex - row_begin))
        above.pop()

    def doctype(*_: object) -> None:
        raise error("it has a document type (<!DOCTYPE>), whose entities are not read", "Write it without one")

    is_plain = codec_name(options.encoding) in PLAIN_ENCODINGS  # else the document's declaration does not count
    parser = expat.ParserCreate(None if is_plain else "utf-8", "}")
    parser.buffer_text, parser.buffer_size = True, 1 << 16
    parser.StartElementHandler, parser.EndElementHandler, parser.StartDoctypeDeclHandler = start, end, doctype
    parser.CharacterDataHandler = lambda text: within[-1][2].append(text) if within else None
    packed = options.compression
    data: Any = unpacked(reader, packed) if is_plain else decoded(reader, compression=packed, encoding=options.encoding)
    try:
        for piece in in_pieces(data, _PIECE):
            parser.Parse(piece, False)
            yield from rows
            rows.clear()
            fed += len(piece)
            if (within and fed - row_begin > most_bytes) or fed - parser.CurrentByteIndex > MAX_TAG:
                reason = f"a row is longer than {most_bytes >> 20} MiB, or a tag or comment than {MAX_TAG >> 20} MiB"
                raise error(reason, "Set xml.record_path to the elements that are rows")
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as broken:
        is_truncated = getattr(broken, "code", 0) in _TRUNCATED
        reason = f"it is {'truncated' if is_truncated else 'not well-formed XML'} ({str(broken).partition(':')[0]})"
        hint = "Upload the file again, set the stream's format, or csv.encoding if that is not as the file declares it"
        raise error(reason, hint) from None
    yield from rows


def _members(node: Node) -> Members:
    return node if isinstance(node, dict) else {} if node is None else {"_text": [node]}


def _types(rows: Sequence[Members], names: Iterable[str], own: Mapping[str, pa.Field]) -> pa.Schema:
    """Return the types of columns; lists and structs where the fields `own` have them."""
    columns = {name: [row[name] for row in rows if name in row] for name in names}
    return pa.schema([_field(name, values, own.get(name)) for name, values in columns.items()])


def _field(name: str, values: Iterable[list[Node]], own: pa.Field | None, levels: int = 0) -> pa.Field:
    repeats = any(len(nodes) > 1 for nodes in values)
    if own is not None and pt.is_list(own.type):
        repeats, own = True, own.type.value_field
    found = [node for nodes in values for node in nodes if node is not None]
    ours = {f.name: f for f in own.type} if own is not None and pt.is_struct(own.type) else {}
    if found and (ours or any(isinstance(node, dict) for node in found)):
        members = defaultdict[str, list[list[Node]]](list)
        for node in found:
            for member, nodes in _members(node).items():
                members[member].append(nodes)
        levels += 1 + repeats
        if levels > _MOST_LEVELS or len(members) > _MOST_MEMBERS:
            return json_field(name)
        t = pa.struct([_field(m, nodes, ours.get(m), levels) for m, nodes in members.items()])
    else:
        t = infer_type(pa.array(found, pa.string()), pa.array([], pa.string()), ReadOptions())
    return pa.field(name, pa.list_(t) if repeats and found else t)


def _shaped(f: pa.Field, as_json: set[str]) -> tuple[pa.DataType, Callable[[list[Node]], Any]]:
    """Return the type of a field with text for values, and what makes one of the elements of a name, or JSON text.

    Names of elements that become JSON text although the field is not JSON are added to `as_json`.
    """
    if pt.is_list(f.type):
        t, item = _shaped(f.type.value_field.with_name(f.name), as_json)
        return pa.list_(t), lambda nodes: None if nodes == [None] else [item([node]) for node in nodes]
    parts = {own.name: _shaped(own, as_json) for own in f.type} if pt.is_struct(f.type) else {}

    def one(nodes: list[Node]) -> Any:
        node = nodes[0]
        if parts and len(nodes) > 1:
            reason, hint = (
                "it repeats, and the schema has one of it",
                "Discover the schema anew, or leave the column out",
            )
            raise DataError(reason, column=f.name, hint=hint)
        if len(nodes) > 1 or (not parts and isinstance(node, dict)):
            if not is_json(f):
                as_json.add(f.name)
            return json_text(_plain(nodes))
        if not parts or node is None:
            return node
        members = _members(node)
        return {name: make(members[name]) for name, (_, make) in parts.items() if name in members}

    return pa.struct([(name, t) for name, (t, _) in parts.items()]) if parts else pa.string(), one


def _plain(nodes: list[Node]) -> Any:
    """Return the elements of one name as JSON has them."""
    found = [{n: _plain(v) for n, v in node.items()} if isinstance(node, dict) else node for node in nodes]
    return found[0] if len(found) == 1 else found
