"""Names of tables by case, which BigQuery distinguishes and DuckDB does not.

In DuckDB a name with capitals has their positions behind a tilde, which is in no name of BigQuery: `Orders` is
`Orders~1` there.
"""

import re
from typing import Any

import duckdb
from local_bigquery.catalog import tabledata, tables
from local_bigquery.engine.database import quote
from local_bigquery.jobs import query
from local_bigquery.sql import translate
from sqlglot import exp

from local_cloud.bigquery.server.tables.databases import TAKEN

_POSITIONS = re.compile("~[0-9a-f]+")


def stored_name(table_id: str) -> str:
    """Return the name of a table in DuckDB; of such a name, itself."""
    capitals = sum(1 << place for place, letter in enumerate(table_id) if letter != letter.lower())
    return f"{table_id}~{capitals:x}" if capitals and "~" not in table_id else table_id


def without_positions(text: str) -> str:
    """Return a name or a message of DuckDB with the names of BigQuery."""
    return _POSITIONS.sub("", text)


def patch() -> None:
    """Replace the server's functions that name tables to DuckDB. `lookups` does it for those that list them."""
    from_duckdb = query.from_duckdb

    def name(*reference: str) -> str:
        project_id, dataset_id, table_id = tables.physical(*reference)
        return str(quote(project_id, dataset_id, table_id if dataset_id == tables.RESULTS else stored_name(table_id)))

    def spelled(node: Any, _context: Any) -> Any:
        """Rename the tables of a statement; in its other parts they keep the name that it has for them."""
        for table in node.find_all(exp.Table) if isinstance(node, exp.Table | exp.Subquery) else ():
            renamed = (table.catalog and table.catalog not in TAKEN) or isinstance(table.parent, exp.AlterRename)
            if not renamed or not isinstance(table.this, exp.Identifier) or stored_name(table.name) == table.name:
                continue
            if not table.alias and isinstance(table.parent, exp.From | exp.Join | exp.Update | exp.Delete):
                table.set("alias", exp.TableAlias(this=table.this))
            table.set("this", exp.to_identifier(stored_name(table.name), quoted=True))
        return node

    def in_words(error: Exception, *others: Any) -> Any:
        return from_duckdb(duckdb.Error(without_positions(str(error))), *others)

    tables.name = tabledata.name = name
    translate.NODE_RULES.append(spelled)
    query.from_duckdb = in_words
