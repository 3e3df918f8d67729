"""`local-cloud query "SELECT ..."`: the rows of a local warehouse as a table."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from local_cloud.cloud import Cloud
from local_cloud.errors import LocalCloudError

DEMO_DATA = ".demo"
"""The folder in which `make demo` keeps its warehouses."""
WAREHOUSES = ("bigquery", "redshift")
MOST_ROWS = 1000
_WIDEST = 60  # characters of a value
_ADDRESS = {"bigquery": "TARGET_BIGQUERY_API_ENDPOINT", "redshift": "TARGET_REDSHIFT_HOST"}


@dataclass(frozen=True)
class Answer:
    """The first rows of a statement, and whether there are more. No columns: it was no query."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    has_more: bool


def query(sql: str, *, warehouse: str | None = None, data_dir: Path | None = None) -> str:
    """Run a statement in a local warehouse and return its rows as a table.

    The warehouse is one of the surrounding `local-cloud run` or `up`. If there is none, or `data_dir` is given, it is
    started on the kept data, by default those of `make demo`, and stopped again.

    Raises:
        LocalCloudError: No warehouse was found, or it refused the statement.
    """
    with _environment(warehouse, data_dir) as (name, env):
        return table({"bigquery": _bigquery, "redshift": _redshift}[name](sql, env))


@contextmanager
def _environment(warehouse: str | None, data_dir: Path | None) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the name of a warehouse and the variables with its address."""
    running = [name for name in WAREHOUSES if _is_local(os.environ.get(_ADDRESS[name], ""))]
    if running and data_dir is None:
        name = warehouse or running[0]
        if name not in running:
            raise LocalCloudError(f"this local cloud has no {name}: start it with `--service {name}`")
        yield name, os.environ
        return
    name = warehouse or WAREHOUSES[0]
    folder = data_dir or _nearest(Path.cwd())
    if folder is None:
        raise LocalCloudError(
            "no local cloud found: run this in a shell of `local-cloud run`, or after `make demo`, or give --data-dir"
        )
    if not (folder / name).is_dir():
        raise LocalCloudError(f"{folder} has no data of {name}: give the --data-dir of an earlier `local-cloud run`")
    sys.stderr.write(f"local-cloud: starting {name} with the data in {_shown(folder)}\n")
    with Cloud([name], data_dir=folder, redshift_copies=False) as cloud:
        yield name, cloud.env


def _is_local(address: str) -> bool:
    """Whether an address is one of a local cloud, not that of a real warehouse."""
    return address == "127.0.0.1" or address.startswith("http://127.0.0.1:")


def _nearest(folder: Path) -> Path | None:
    """Return the data of `make demo` in a folder or in the nearest one above it."""
    return next((above / DEMO_DATA for above in (folder, *folder.parents) if (above / DEMO_DATA).is_dir()), None)


def _shown(folder: Path) -> str:
    return str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)


def _bigquery(sql: str, env: Mapping[str, str]) -> Answer:
    from google.api_core.client_options import ClientOptions
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery
    from requests.exceptions import ConnectionError as NoAnswer

    with bigquery.Client(
        project=env["TARGET_BIGQUERY_PROJECT"],
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
        client_options=ClientOptions(api_endpoint=env[_ADDRESS["bigquery"]]),
    ) as client:
        try:
            job = client.query(sql, retry=None, job_retry=None)
            found = job.result(job_retry=None)
            columns = [field.name for field in found.schema] if job.statement_type in (None, "SELECT") else []
            rows = [row.values() for row in islice(found, MOST_ROWS + 1)]
        except GoogleAPICallError as error:
            message = error.errors[0]["message"] if error.errors else error.message
            raise LocalCloudError(f"BigQuery: {_one_line(message)}") from None
        except NoAnswer:
            raise LocalCloudError(f"BigQuery does not answer at {env[_ADDRESS['bigquery']]}: it has ended") from None
        return Answer(columns, rows[:MOST_ROWS], len(rows) > MOST_ROWS)


def _redshift(sql: str, env: Mapping[str, str]) -> Answer:
    import psycopg

    names = ("host", "port", "user", "password", "dbname")
    given: dict[str, Any] = {name: env[f"TARGET_REDSHIFT_{name.upper()}"] for name in names}
    try:
        with psycopg.connect(**given, autocommit=True, client_encoding="utf8") as connection:
            cursor = connection.execute(sql.encode())
            columns = [column.name for column in cursor.description or ()]
            rows = cursor.fetchmany(MOST_ROWS + 1) if columns else []
    except psycopg.Error as error:
        raise LocalCloudError(f"Redshift: {_one_line(error.diag.message_primary or str(error))}") from None
    return Answer(columns, rows[:MOST_ROWS], len(rows) > MOST_ROWS)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def table(answer: Answer) -> str:
    """Return rows in aligned columns under their names, and their number; long values are cut."""
    if not answer.columns:
        return "done"
    cells = [[_text(value) for value in row] for row in answer.rows]
    widths = [max(map(_width, column)) for column in zip(answer.columns, *cells, strict=True)]
    is_number = [_are_numbers([row[n] for row in answer.rows]) for n in range(len(widths))]

    def line(texts: Sequence[str]) -> str:
        padded = (
            " " * (width - _width(text)) + text if right else text + " " * (width - _width(text))
            for text, width, right in zip(texts, widths, is_number, strict=True)
        )
        return "  ".join(padded).rstrip()

    count = len(answer.rows)
    rows = "(1 row)" if count == 1 else f"({count:,} rows)"
    if answer.has_more:
        rows = f"(the first {count:,} rows; there are more)"
    return "\n".join([line(answer.columns), "  ".join("-" * width for width in widths), *map(line, cells), rows])


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(value is None or type(value) in (int, float, Decimal) for value in values)


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
