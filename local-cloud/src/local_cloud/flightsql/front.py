"""The front of the local Flight SQL server: runs queries in DuckDB and returns tickets for their rows."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as fl

from local_cloud.flightsql.access import Access
from local_cloud.flightsql.endpoint import Results, Ticket
from local_cloud.flightsql.faults import Faults, Rule
from local_cloud.flightsql.protocol import Command, parse, ticket

BATCH_ROWS = 8192
_TABLES = """
    SELECT table_catalog AS catalog_name, table_schema AS db_schema_name, table_name, table_type
    FROM information_schema.tables ORDER BY ALL
"""
_LISTS = {
    "CommandGetCatalogs": "SELECT DISTINCT catalog_name FROM information_schema.schemata ORDER BY ALL",
    "CommandGetDbSchemas": """
        SELECT catalog_name, schema_name AS db_schema_name FROM information_schema.schemata ORDER BY ALL
    """,
    "CommandGetTables": _TABLES,
    "CommandGetTableTypes": "SELECT DISTINCT table_type FROM information_schema.tables ORDER BY ALL",
}
"""The queries of commands that list what there is. Their filters: catalog, pattern of schemas, pattern of tables."""
_REQUIRED = {
    "CommandGetDbSchemas": ("db_schema_name",),
    "CommandGetTables": ("table_name", "table_type", "table_schema"),
}
"""Columns that are not nullable, as drivers check; of other lists all."""
_FILTERS = ((1, "catalog_name = ?"), (2, "db_schema_name LIKE ?"), (3, "table_name LIKE ?"))


class Front(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow ships no types
    """The server that clients connect to."""

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        results: Results,
        endpoints: Callable[[], Sequence[int]],  # the ports, also while an endpoint is started again
        access: Access,
    ) -> None:
        super().__init__(f"{access.scheme}://127.0.0.1:0", **access.server_options())
        self._database, self._results, self._endpoints, self._access = database, results, endpoints, access
        self._lock = threading.Lock()
        self._faults = Faults()
        self._statements: list[str] = []

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:  # noqa: ARG002 - the signature of pyarrow
        """Run a query, and return tickets for its rows."""
        command = parse(descriptor.command)
        query = command.text(1) or ""
        if command.name in _LISTS:
            with self._lock:
                found = self._listed(command)
                names, rows = self._results.write(found.schema, found.to_batches(), 1)
            return self._info(found.schema, descriptor, names, rows, "")
        if command.name != "CommandStatementQuery":
            raise NotImplementedError(f"{command.name} is not supported")
        with self._lock:
            self._statements.append(query)
            rule = self._fail(self._faults.of("info", query))
            ports = self._endpoints()
            with self._database.cursor() as cursor:
                schema, batches = _run(cursor, query, len(ports))
                names, rows = self._results.write(schema, batches, len(ports))
            self._then(rule)
            return self._info(schema, descriptor, names * (2 if rule.action == "twice" else 1), rows, query)

    def get_schema(self, context: Any, descriptor: Any) -> Any:  # noqa: ARG002 - the signature of pyarrow
        """Return the columns of a query, whose rows are not read."""
        query = parse(descriptor.command).text(1) or ""
        with self._lock, self._database.cursor() as cursor:
            rule = self._fail(self._faults.of("schema", query))
            schema, _ = _run(cursor, query, 1)
            self._then(rule)
            return fl.SchemaResult(schema)

    def do_action(self, context: Any, action: Any) -> Iterator[bytes]:  # noqa: ARG002 - the signature of pyarrow
        """Do what `client` asks for."""
        body = action.body.to_pybytes()
        with self._lock:
            if action.type == "local-cloud-execute":
                with self._database.cursor() as cursor:
                    table: Any = cursor.execute(body.decode()).to_arrow_table()
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as writer:
                    writer.write_table(table)
                return iter([sink.getvalue().to_pybytes()])
            if action.type == "local-cloud-faults":
                before, self._faults = self._faults.report(), Faults(json.loads(body))
                return iter([json.dumps(before).encode()])
            if action.type == "local-cloud-statements":
                statements, self._statements = self._statements, []
                return iter([json.dumps(statements).encode()])
        raise NotImplementedError(f"{action.type} is not supported")

    def _info(self, schema: pa.Schema, descriptor: Any, names: list[str], rows: int, query: str) -> Any:
        ports, found = self._endpoints(), []
        for number, name in enumerate(names):
            fault = self._faults.of("get", query, number) if query else Rule()
            self._then(fault)
            place = f"{self._access.scheme}://127.0.0.1:{ports[number % len(ports)]}"
            found.append(fl.FlightEndpoint(ticket(Ticket(name, fault).to_bytes()), [place]))
        return fl.FlightInfo(schema, descriptor, found, rows, -1)

    def _listed(self, command: Command) -> Any:
        given = [(text, value) for number, text in _FILTERS if (value := command.text(number)) is not None]
        if command.name in ("CommandGetCatalogs", "CommandGetTableTypes"):
            given = []
        where = f" WHERE {' AND '.join(text for text, _ in given)}" if given else ""
        query = f"SELECT * FROM ({_LISTS[command.name]}) AS found{where}"  # noqa: S608 - made of constants
        with self._database.cursor() as cursor:
            table: Any = cursor.execute(query, [value for _, value in given]).to_arrow_table()
            if command.name == "CommandGetTables" and command.fields.get(5):
                table = table.append_column("table_schema", pa.array(_schemas(cursor, table), pa.binary()))
        required = _REQUIRED.get(command.name, tuple(table.column_names))
        return table.cast(pa.schema([f.with_nullable(f.name not in required) for f in table.schema]))

    def _fail(self, rule: Rule) -> Rule:
        if rule.action == "hang":
            time.sleep(rule.delay_s)
        if rule.action == "lost":
            raise fl.FlightUnavailableError("the server is not available")
        if rule.action == "error":
            raise fl.FlightServerError(rule.message)
        return rule

    def _then(self, rule: Rule) -> None:
        if rule.then:
            with self._database.cursor() as cursor:
                cursor.execute(rule.then)


def _run(cursor: duckdb.DuckDBPyConnection, query: str, parts: int) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        reader: Any = cursor.execute(query).to_arrow_reader(BATCH_ROWS * parts)
    except duckdb.Error as error:
        raise pa.ArrowInvalid(str(error)) from None
    return reader.schema, iter(reader)


def _schemas(cursor: duckdb.DuckDBPyConnection, tables: pa.Table) -> Iterator[bytes]:
    for row in tables.to_pylist():
        name = ".".join('"' + row[part] + '"' for part in ("catalog_name", "db_schema_name", "table_name"))
        schema, _ = _run(cursor, f"SELECT * FROM {name} LIMIT 0", 1)  # noqa: S608 - names of tables
        yield schema.serialize().to_pybytes()
