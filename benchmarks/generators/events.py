"""Events of an application, of the size and likeness of those whose COPY into Redshift was once measured in public.

About 516 bytes each as JSON and 205 between delimiters. They come as a collector writes them: the forty events that a
device sends at once are adjacent, with their session, device and versions repeated in each, so that gzip makes 1/27
of the JSON, and delimited text under gzip is 1/34 of it. No column is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.generators.randoms import Randoms

STREAM = "events"
CHUNK_ROWS = 100_000
PER_SESSION = 40
START_MS = 1_425_168_000_000  # 2015-03-01
TYPES: dict[str, pa.DataType] = {
    "event_name": pa.string(),
    "event_time": pa.timestamp("us", "UTC"),
    "session_id": pa.string(),
    "session_start": pa.timestamp("us", "UTC"),
    "sequence_no": pa.int64(),
    "user_id": pa.int64(),
    "device_identifier": pa.string(),
    "device_model": pa.string(),
    "platform": pa.string(),
    "platform_version": pa.string(),
    "app_version": pa.string(),
    "country": pa.string(),
    "language": pa.string(),
    "channel": pa.string(),
    "experiment": pa.string(),
    "subscriber": pa.bool_(),
    "player_level": pa.int64(),
    "gold_balance": pa.int64(),
    "duration_ms": pa.int64(),
    "screen": pa.string(),
    "frame_rate": pa.float64(),
}
"""Columns in their order."""
REDSHIFT: dict[pa.DataType, str] = {
    pa.string(): "VARCHAR(256)",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE PRECISION",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
}

_EVENTS = ("level_started", "level_finished", "item_collected", "screen_opened", "button_tapped", "purchase_seen")
_SCREENS = ("main_menu", "world_map", "shop", "inventory", "battle", "results", "settings", "friends")
_MODELS = ("iPhone7,2", "iPhone6,1", "iPhone5,3", "iPad4,1", "iPad5,3", "SM-G900F", "Nexus 5", "HTC One M8")
_COUNTRIES = ("US", "GB", "DE", "FR", "BR", "JP", "KR", "CA", "AU", "ES", "IT", "MX")
_CHANNELS = ("organic", "invite", "featured", "advert")
_VERSIONS = ("2.14.0", "2.14.1", "2.15.0", "2.15.2")


def events(first: int, count: int, seed: int) -> pa.Table:
    """Events `first` to `first + count`, session after session."""
    sessions = -(-count // PER_SESSION)
    of_session, each = Randoms(sessions, seed + first), Randoms(count, seed + first + 1)
    place = pa.array(range(count), pa.int64())
    which = pc.divide(place, PER_SESSION)
    step = pc.subtract(place, pc.multiply(which, PER_SESSION))
    columns = {name: column.take(which) for name, column in _sessions(of_session, first).items()}
    columns |= _steps(each, step, columns["session_start"])
    return pa.table({name: columns[name].cast(kind) for name, kind in TYPES.items()})


def _sessions(at: Randoms, first: int) -> dict[str, pa.Array]:
    """What is the same in all events of a session, one value each."""
    started = pc.add(pc.multiply(pa.array(range(at.rows), pa.int64()), 450), at.integers("started", 60_000))
    platform = at.integers("platform", 2)
    return {
        "session_id": at.uuids("session"),
        "session_start": _time(pc.add(started, START_MS + first * 11)),
        "user_id": pc.add(at.integers("user", 90_000_000), 10_000_000),
        "device_identifier": pc.utf8_slice_codeunits(at.uuids("device"), 0, 8),
        "device_model": at.pick("model", pa.array(_MODELS)),
        "platform": pa.array(["ios", "android"]).take(platform),
        "platform_version": pa.array(["8.1.3", "4.4.4"]).take(platform),
        "app_version": at.pick("version", pa.array(_VERSIONS), [1, 2, 3, 14]),
        "country": at.pick("country", pa.array(_COUNTRIES)),
        "language": at.pick("language", pa.array(["en-US", "de-DE", "fr-FR", "pt-BR"]), [7, 1, 1, 1]),
        "channel": at.pick("channel", pa.array(_CHANNELS)),
        "experiment": at.pick("group", pa.array(["control", "variant"])),
        "subscriber": pc.less(at.uniform("subscriber"), 0.08),
        "player_level": pc.add(at.integers("level", 60), 1),
        "gold_balance": at.integers("balance", 20_000),
        "frame_rate": pc.divide(pc.cast(pc.add(at.integers("frames", 120), 480), pa.float64()), 10.0),
    }


def _steps(at: Randoms, step: pa.Array, start: pa.Array) -> dict[str, pa.Array]:
    """What differs from event to event of a session."""
    passed = pc.add(pc.multiply(step, 7_000), at.integers("passed", 1_000))
    return {
        "event_name": at.pick("event", pa.array(_EVENTS), [3, 3, 6, 3, 4, 1]),
        "event_time": _time(pc.add(pc.divide(pc.cast(start, pa.int64()), 1_000), passed)),
        "sequence_no": pc.add(step, 1),
        "duration_ms": pc.multiply(at.integers("duration", 40), 50),
        "screen": at.pick("screen", pa.array(_SCREENS)),
    }


def _time(milliseconds: pa.Array) -> pa.Array:
    return pc.cast(pc.multiply(milliseconds, 1_000), pa.timestamp("us", "UTC"))


def schema() -> dict[str, Any]:
    """The JSON Schema of a SCHEMA message."""
    kinds = {pa.int64(): "integer", pa.float64(): "number", pa.bool_(): "boolean"}
    properties: dict[str, Any] = {name: {"type": [kinds.get(t, "string"), "null"]} for name, t in TYPES.items()}
    for name in ("event_time", "session_start"):
        properties[name]["format"] = "date-time"
    return {"type": "object", "properties": properties}


def chunks(total: int, seed: int) -> Iterator[pa.Table]:
    """All events, by the hundred thousand."""
    for first in range(0, total, CHUNK_ROWS):
        yield events(first, min(CHUNK_ROWS, total - first), seed)


def write_json(path: Path, tables: Iterator[pa.Table]) -> None:
    """One object a line."""
    with path.open("wb") as file:
        for table in tables:
            _printable(table).write_ndjson(file)


def write_delimited(path: Path, tables: Iterator[pa.Table]) -> None:
    """Fields between pipes, without quotes: no value has a pipe, a line break or a backslash."""
    with path.open("wb") as file:
        for table in tables:
            _printable(table).write_csv(file, separator="|", include_header=False, quote_style="never")


def _printable(table: pa.Table) -> pl.DataFrame:
    return pl.DataFrame(table).with_columns(pl.selectors.datetime().dt.strftime("%Y-%m-%d %H:%M:%S%.3f"))
