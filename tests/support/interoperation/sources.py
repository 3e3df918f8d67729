"""Write the rows of `things` as files, to S3, to PostgreSQL and to an HTTP server."""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from workbooks import xlsx

from interoperation.things import THINGS, TYPED, Row, text
from local_cloud.redshift.postgres import Postgres

COLUMNS = list(THINGS[0])


def write_csv(path: Path, rows: list[Row] = THINGS) -> Path:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([text(value) for value in row.values()] for row in rows)
    return path


def plain(row: Row) -> Row:
    """Return a row with JSON values; numbers with a fraction become floats."""
    return {
        name: value if isinstance(value, bool | int | float | list | dict | None) else _plain(value)
        for name, value in row.items()
    }


def _plain(value: Any) -> Any:
    return text(value) if isinstance(value, date | datetime | str) else float(value)


NESTED = [plain(row) | {"tags": ["a", "é"], "place": {"lat": 1.5, "floor": row["id"]}} for row in THINGS]


def write_jsonl(path: Path, rows: list[Row] = NESTED) -> Path:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def write_json_files(folder: Path, rows: list[Row] = NESTED) -> Path:
    """Write each row into a JSON file of its own."""
    folder.mkdir(parents=True)
    for row in rows:
        (folder / f"{row['id']}.json").write_text(json.dumps(row))
    return folder


def write_excel(path: Path) -> Path:
    """Write the rows into a workbook."""
    # a cell has no time zone, and stores numbers as floats
    cells = [
        [v.replace(tzinfo=None) if isinstance(v, datetime) else float(v) if isinstance(v, Decimal) else v for v in row]
        for row in (list(row.values()) for row in THINGS)
    ]
    path.write_bytes(xlsx({"things": [COLUMNS, *cells]}))
    return path


def write_geojson(path: Path) -> Path:
    """Write each row as a point with properties."""
    features = [
        {"type": "Feature", "properties": plain(row), "geometry": {"type": "Point", "coordinates": [row["id"], 1.5]}}
        for row in THINGS
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def write_feed(path: Path) -> Path:
    """Write each row as an entry of an RSS feed."""
    entries = "".join(
        f"<item><guid>{row['id']}</guid><title>{row['name'].replace('&', '&amp;')}</title>"
        f"<link>https://example.com/{row['id']}</link>"
        f"<pubDate>{row['at']:%a, %d %b %Y %H:%M:%S} +0000</pubDate></item>"
        for row in THINGS
    )
    path.write_text(f'<?xml version="1.0"?><rss version="2.0"><channel><title>Things</title>{entries}</channel></rss>')
    return path


_DBF_FIELDS = (
    ("ID", "N", 10, 0),
    ("NAME", "C", 60, 0),
    ("AMOUNT", "N", 18, 2),
    ("GOOD", "L", 1, 0),
    ("DAY", "D", 8, 0),
)


def write_dbf(path: Path) -> Path:
    """Write the rows into a dBASE III table, as far as it has types for them."""
    size = 1 + sum(length for _, _, length, _ in _DBF_FIELDS)
    header = 32 * (len(_DBF_FIELDS) + 1) + 1
    start = bytes([3, 126, 1, 2]) + len(THINGS).to_bytes(4, "little") + header.to_bytes(2, "little")
    out = bytearray((start + size.to_bytes(2, "little")).ljust(32, b"\0"))
    for name, kind, length, digits in _DBF_FIELDS:
        out += name.encode().ljust(11, b"\0") + kind.encode() + bytes(4) + bytes([length, digits]) + bytes(14)
    out += b"\r"
    for row in THINGS:
        cells = [str(row["id"]).rjust(10), dbf_name(row).ljust(60), f"{row['amount']:.2f}".rjust(18)]
        out += (" " + "".join([*cells, "T" if row["good"] else "F", f"{row['day']:%Y%m%d}"])).encode("ascii")
    path.write_bytes(bytes(out) + b"\x1a")
    return path


def dbf_name(row: Row) -> str:
    """Return a name in the characters that DBF allows."""
    return row["name"].encode("ascii", "replace").decode()


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Run PostgreSQL with two tables in the database `source`; yield the socket's folder.

    The database `loaded` is empty.
    """
    folder.mkdir(parents=True, exist_ok=True)
    server = Postgres(folder)
    server.start()
    try:
        place = f"host={server.socket.parent} port=5432 user=rdsdb"
        with psycopg.connect(f"{place} dbname=postgres", autocommit=True) as connection:
            for name in ("source", "loaded"):
                connection.execute(f"CREATE DATABASE {name}")
                connection.execute(f"ALTER DATABASE {name} SET standard_conforming_strings = on")
                connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'read committed'")
        with psycopg.connect(f"{place} dbname=source") as connection:
            _fill(connection)
        yield str(server.socket.parent)
    finally:
        server.stop()


def _fill(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "CREATE TABLE things (id int PRIMARY KEY, name text, amount numeric(12,2), big bigint, score double precision, "
        "good boolean, day date, at timestamptz, note text, wide numeric(38,10), small smallint, single real, "
        "local timestamp, clock time, zoned_clock timetz, facts jsonb, tags text[], numbers bigint[], code uuid, "
        "raw bytea, short varchar(20))"
    )
    for row in THINGS:
        values = row | (TYPED if row["id"] == 1 else {})
        adapted = {n: json.dumps(v) if isinstance(v, dict) else v for n, v in values.items()}
        marks = ", ".join(f"%({name})s" for name in adapted)
        connection.execute(f"INSERT INTO things ({', '.join(adapted)}) VALUES ({marks})", adapted)
    connection.execute("CREATE SCHEMA plain")
    names = ", ".join(name for name in [*COLUMNS, *TYPED] if name not in ("raw", "zoned_clock"))
    connection.execute(f"CREATE TABLE plain.things AS SELECT {names} FROM things")
    connection.execute("ALTER TABLE plain.things ADD PRIMARY KEY (id)")


@contextmanager
def http(folder: Path) -> Iterator[str]:
    """Serve the files of a folder and, at `/things`, the rows as JSON; yield the address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            body = json.dumps({"things": NESTED}).encode() if path == "/things" else (folder / path[1:]).read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if path == "/things" else "application/rss+xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
