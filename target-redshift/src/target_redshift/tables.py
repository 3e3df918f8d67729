"""Creates the schema and the tables; adds and widens columns; layout and comments."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial

import pyarrow as pa

from singer_arrow.errors import AccessDeniedError, ConfigError, FatalError, LoadError, SchemaError, SingerArrowError
from singer_arrow.load.convert import RANK
from singer_arrow.naming import LEDGER, staging_name, stream_label
from singer_arrow.warehouse.settings import EVOLVE, unfilled
from singer_arrow.warehouse.table import (
    OTHERS,
    UNKNOWN,
    Descriptions,
    has_line,
    is_described,
    layout_column,
    log_new,
    owner_line,
    taken_table,
    warn_of_layout,
)
from target_redshift import sql
from target_redshift.client import Redshift
from target_redshift.columns import RESCUE, SUPER, ColumnEvolution, columns_of
from target_redshift.resources import AlreadyExistsError, RefusedDataError, Table
from target_redshift.types import MAX_COLUMNS, RULES, Column, ddl_type, missing_required, new_columns, wider_length

# Distributes and sorts new tables by the settings; warns of tables with another layout.

NO_KEYS = ("SUPER",)
"""Types that rows can neither be spread nor sorted nor compared by."""


def _warn_of_layout(client: Redshift, stream: str, table: Table, columns: Sequence[Column]) -> None:
    """Warn if the layout of a table differs from the settings, which apply to new tables only."""
    settings = client.settings.of_stream(stream)
    dist, sort = settings.distribution(stream), settings.sorting(stream)
    if not (dist or sort):
        return
    try:
        has_dist, has_sort = client.layout(table.name)
    except SingerArrowError as error:
        logger.debug("%s", error)  # the layout is only for a warning
        return
    path, named, has = client.path(table.name), [dist] if dist else [], [has_dist] if has_dist else []
    words = {"by": "distributed by", "without": "not distributed by a key"}
    warn_of_layout(path, "dist_key", named, has, columns, **words, logger=logger)
    words = {"by": "sorted by", "without": "not sorted by keys"}
    warn_of_layout(path, "sort_keys", sort, has_sort, columns, **words, logger=logger)


def _column(setting: str, given: object, stream: str, columns: Sequence[Column], name: str) -> str | None:
    column = layout_column(setting, given, stream, columns, name, logger=logger)
    if column and column.kind in NO_KEYS:
        msg = f"Setting {setting!r} names column {name!r} of stream {stream!r}, which is {column}; name another"
        raise ConfigError(msg)
    return column.name if column else None


# Comments of tables and columns: the first line is for this program, descriptions of SCHEMA follow.

OWNER = "singer_stream: "
"""Begin of the comment of a table, before the name of its stream."""
NO_DESCRIPTIONS = Descriptions()


def of_table(stream: str, description: str | None) -> str:
    """Return a table's comment: its owner, and on further lines its description."""
    return "\n".join([OWNER + stream_label(stream), *([description] if description else [])])


def of_columns(
    columns: Iterable[Column], descriptions: Descriptions, *, is_new_table: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield columns that get a comment: the one that it is a variant of, or its property, and its description.

    The first column of a new table always gets one, by which the table records the owners of columns.
    """
    for number, column in enumerate(columns):
        first = owner_line(column, always=is_new_table and not number)
        if text := _joined(first, descriptions.columns.get((column.source,))):
            yield column.name, text


def write_comments(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> None:
    """Set the comments that a table and its columns lack: descriptions of SCHEMA, and the owners of all columns.

    Only a table's owner may do so; where it is another's, nothing happens.
    """
    texts = list(_lacking(client, stream, table, columns, descriptions))
    what = f"Describing table {client.path(table.name)}"

    def write() -> None:
        with client.session() as session, session.transaction(what):
            for text in texts:
                session.execute(text, what=what)

    try:
        if texts:
            client.retried(write)
    except AccessDeniedError as error:
        logger.info("%s", error)


def _lacking(
    client: Redshift, stream: str, table: Table, columns: Sequence[Column], descriptions: Descriptions
) -> Iterator[str]:
    quoted = client.quoted(table.name)
    if descriptions.table and (table.comment or "").rstrip() in ("", OWNER + stream_label(stream)):
        yield sql.comment(quoted, of_table(stream, descriptions.table))
    filled = {c.name: c for c in columns}
    adopts = not any(has_line(c.comment) for c in table.columns) and (
        (table.comment or "").startswith(OWNER) or any(c.name != c.source and not c.variant_of for c in columns)
    )
    lines: dict[str, str | None] = {c.name: UNKNOWN for c in table.columns}
    lines |= {name: owner_line(column) for name, column in filled.items()}
    if adopts and table.columns and not any(lines.values()):
        lines[table.columns[0].name] = owner_line(filled[table.columns[0].name], always=True)
    for column in table.columns:
        text, own = column.comment, filled.get(column.name)
        if own and not is_described(text):
            text = _joined(text, descriptions.columns.get((own.source,)))
        if adopts and not column.variant_of:
            text = _joined(lines[column.name], text)
        if text and text != column.comment:
            yield sql.comment_column(quoted, column.name, text)


def _joined(*lines: str | None) -> str:
    return "\n".join(filter(None, lines))


# Makes the schema and the tables ready: creates them, adds and widens columns, and refuses what does not fit.

logger = logging.getLogger("target-redshift")
_TRIES = 20
_FIXED = (
    "Redshift widens no column that has a default, is a key, or is encoded as BYTEDICT, RUNLENGTH, TEXT255 or TEXT32K: "
    "change its encoding by ALTER TABLE, or create the table anew with a wider column"
)
"""Why Redshift refuses to widen a column for good, and what to do."""
_SHOWN = "drop the views that show the column, and create them again afterwards, best WITH NO SCHEMA BINDING"


class Destination:
    """The table of a stream, as it was when the stream began, and the columns of it that the stream fills."""

    def __init__(self, table: Table, columns: tuple[Column, ...]) -> None:
        self.table, self.columns, self.name = table, columns, table.name
        self.lengths = {e.name: e.length or 0 for e in table.columns if e.kind == "VARCHAR"}
        """The bytes of its VARCHAR columns, which `widen` keeps up to date."""
        self.lock = threading.Lock()
        self.texts = tuple(c.name for c in columns if c.kind == "VARCHAR")
        """The names of its VARCHAR columns that the stream fills."""
        self.unfilled = unfilled(columns, (e for e in table.columns if e.nullable and not e.is_filled))
        """Columns that the stream does not fill, and that an upsert empties in the rows that it replaces."""
        self.changes = 0  # columns that were added for the stream's properties


def prepare_schema(client: Redshift) -> None:
    """Make sure that there are the schema and the ledger in it."""
    schema = client.settings.schema
    if not client.query(sql.SCHEMA_EXISTS, [schema], what=f"Looking for schema {schema}").rows:
        with suppress(AlreadyExistsError):  # another run may create it just now
            client.query(sql.create_schema(schema), what=f"Creating schema {schema}")
        every = [client.settings, *map(client.settings.of_stream, client.settings.streams)]
        for grantee in dict.fromkeys(grantee for each in every for _, grantee in each.grantees):
            with _granting():
                client.query(sql.grant_usage(schema, grantee), what=f"Granting {grantee} the use of schema {schema}")
    if client.table(LEDGER) is None:
        with suppress(AlreadyExistsError):
            client.query(sql.create_ledger(client.quoted(LEDGER)), what=f"Creating table {client.path(LEDGER)}")


def prepare_table(
    client: Redshift,
    stream: str,
    schema: pa.Schema,
    keys: Sequence[str] = (),
    *,
    descriptions: Descriptions = NO_DESCRIPTIONS,
) -> Destination:
    """Make sure that the stream's table exists and has a column for each property of `schema`, which its SCHEMA means.

    The columns of keys can be compared, and have no variants; `descriptions` become comments where there are none.
    """
    settings, compared = client.settings.of_stream(stream), (*keys, RANK)
    arranged = {name.lower() for name in (*compared, settings.distribution(stream) or "", *settings.sorting(stream))}
    columns_for = partial(
        columns_of,
        schema,
        varchar_max=settings.varchar_max,
        # texts that rows are compared, spread or sorted by become no SUPER; those that they are compared by stay
        super_texts={n for n in schema.names if n.lower() not in arranged} if settings.long_text == SUPER else (),
        rescued_texts=set(schema.names).difference(compared) if settings.long_text == RESCUE else None,
        drift=ColumnEvolution(settings.on_drift == EVOLVE, keys),
    )
    changes = 0
    for _ in range(_TRIES):
        name, distinct = settings.table_names(stream, RULES)
        table = client.table(name)
        owner = (table.comment or "").partition("\n")[0].rstrip() if table else ""
        if owner.startswith(OWNER) and owner != OWNER + stream_label(stream):  # it is another stream's
            if settings.names_table(stream):
                raise taken_table(stream, client.path(name))
            logger.warning(OTHERS, stream, client.path(name), client.path(distinct))
            name, table = distinct, client.table(distinct)
        path = client.path(name)
        try:
            if table is None:
                _create(client, stream, name, columns_for(), descriptions)
                continue
            try:
                columns = columns_for(table.columns)
            except SchemaError as error:
                raise SchemaError(f"Table {path}: {error}") from None
            if lacking := missing_required(columns, table.columns):
                raise SchemaError(
                    f"Table {path} requires column {lacking[0]!r}, which stream {stream!r} does not have; "
                    "drop the column, or create the table anew without NOT NULL"
                )
            added = new_columns(columns, table.columns)
            if not added:
                _warn_of_layout(client, stream, table, columns)
                write_comments(client, stream, table, columns, descriptions)
                found = Destination(table, columns)
                found.changes = changes
                return found
            # the owners are written before columns are added
            write_comments(client, stream, table, columns, descriptions)
            found_by = keys if RANK in schema.names else ()
            variants = [(c.name, c.variant_of) for c in added if c.variant_of]
            log_new(path, stream, columns, table.columns, variants, rules=RULES, keys=found_by, logger=logger)
            for column in added:
                _add_column(client, name, column, descriptions)
                changes += not column.source.startswith("_sdc_")
        except AlreadyExistsError:
            logger.debug("Somebody else changed table %s; looking again", name)
    path = client.path(settings.table_names(stream, RULES)[0])
    raise SchemaError(f"Table {path} is changed by others all the time; run again when they are done")


def check_keys(client: Redshift, destination: Destination, keys: Sequence[str]) -> None:
    """Refuse keys that rows cannot be compared by, and more columns than a table takes with that of the order."""
    if (count := len(destination.columns)) >= MAX_COLUMNS:
        raise SchemaError(
            f"Stream of table {client.path(destination.name)} has {count} columns, and upsert takes {MAX_COLUMNS - 1}; "
            "leave some out by selection, or set load_method: append-only"
        )
    for column in destination.columns:
        if column.name in keys and column.kind in NO_KEYS:
            raise SchemaError(
                f"Column {column.name!r} of table {client.path(destination.name)} is {column}, which cannot be a key; "
                "set other key_properties, or load_method: append-only"
            )


def widen(client: Redshift, destination: Destination, needed: Mapping[str, int]) -> None:
    """Give VARCHAR columns the bytes that texts need; nothing happens where they have them. Not in a transaction.

    `needed` is the longest text of each column in bytes; none is longer than `varchar_max` allows.
    """
    with destination.lock:
        for name, length in needed.items():
            if length <= destination.lengths.get(name, 0):
                continue
            wider = wider_length(length, client.settings.varchar_max) or length
            what = f"Widening column {name!r} of table {client.path(destination.name)} to {wider} bytes"
            logger.info("%s", what)
            try:
                client.query(sql.widen_column(client.quoted(destination.name), name, wider), what=what)
            except LoadError as error:
                table = client.table(destination.name)
                wider = next((c.length or 0 for c in table.columns if c.name == name), 0) if table else 0
                if wider < length:  # else another run has widened it
                    raise RefusedDataError(f"{error}; {_SHOWN if 'used by a view' in str(error) else _FIXED}") from None
            destination.lengths[name] = wider


def remove_leftovers(client: Redshift, table: str) -> None:
    """Remove the staging tables that earlier runs left behind, but none that may still be in use."""
    found = client.tables_named(staging_name(table))
    if not found:
        return
    now = client.now()
    for name, created in found:
        if created is not None and now - created > timedelta(days=1):
            client.drop_table(name)


def _create(client: Redshift, stream: str, name: str, columns: Sequence[Column], descriptions: Descriptions) -> None:
    quoted, what = client.quoted(name), f"Creating table {client.path(name)}"
    settings = client.settings.of_stream(stream)
    name_of_dist = settings.distribution(stream)
    dist = _column("dist_key", settings.dist_key, stream, columns, name_of_dist) if name_of_dist else None
    sort = [_column("sort_keys", settings.sort_keys, stream, columns, n) for n in settings.sorting(stream)]
    text = sql.create_table(quoted, columns, dist_key=dist, sort_keys=[n for n in sort if n])

    def create() -> None:
        with client.session() as session, session.transaction(what):
            session.execute(text, what=what)
            session.execute(sql.comment(quoted, of_table(stream, descriptions.table)), what=what)
            for column, comment in of_columns(columns, descriptions, is_new_table=True):
                session.execute(sql.comment_column(quoted, column, comment), what=what)
            for privilege, grantee in settings.grantees:
                granting = f"Granting {grantee} {privilege} on table {client.path(name)}"
                with _granting():
                    session.execute(sql.grant(privilege, quoted, grantee), what=granting)

    client.retried(create)


@contextmanager
def _granting() -> Iterator[None]:
    """Name the setting of a grant that Redshift refuses."""
    try:
        yield
    except FatalError as error:
        raise ConfigError(f"{error}; check the setting grants") from None


def _add_column(client: Redshift, table: str, column: Column, descriptions: Descriptions) -> None:
    """Add a column, together with its comment, unless another run was faster."""
    quoted = client.quoted(table)
    what = f"Adding column {column.name!r} ({ddl_type(column)}) to table {client.path(table)}"

    def add() -> None:
        with client.session() as session, session.transaction(what):
            session.execute(sql.add_column(quoted, column), what=what)
            for name, comment in of_columns([column], descriptions):
                session.execute(sql.comment_column(quoted, name, comment), what=what)

    with suppress(AlreadyExistsError):
        client.retried(add)
