"""Yellow-taxi trips in the shape of New York's TLC records of July 2022: 3,174,394 rows of 19 columns.

Values follow the distributions of the records closely enough that the file has about their size.
"""

import gzip
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.generators.randoms import Randoms
from singer_arrow.schema.json_schema import to_json_schema

STREAM = "trips"
ROWS = 3_174_394
CHUNK = 1 << 20
MONTH_SECONDS = 31 * 86_400
START = int(datetime(2022, 7, 1, tzinfo=UTC).timestamp())
ZONES = 265


def trips(rows: int, seed: int, *, first: float = 0.0, last: float = 1.0) -> pa.Table:
    """Trips, ordered by the time of pickup within a minute, as the records are.

    Args:
        first: which part of the month they are spread over: from this share of it ...
        last: ... to this one.
    """
    at = Randoms(rows, seed)
    span, offset = (last - first) * MONTH_SECONDS, START + first * MONTH_SECONDS
    place = pc.divide(pc.cast(pa.array(range(rows), pa.int64()), pa.float64()), float(rows))
    jitter = pc.multiply(at.uniform("jitter"), 60.0)
    pickup = pc.floor(pc.add(pc.add(pc.multiply(place, span), jitter), offset))
    miles = pc.round(at.lognormal("miles", median=1.9, spread=0.85), 2)
    seconds = pc.floor(
        pc.add(pc.multiply(pc.multiply(miles, 230.0), at.lognormal("pace", median=1.3, spread=0.35)), 60.0)
    )
    fare = _halves(pc.add(pc.add(pc.multiply(miles, 2.5), pc.multiply(seconds, 0.0035)), 2.5))
    payment = at.pick("payment", pa.array([1, 2, 0, 3, 4], pa.int64()), [760, 190, 35, 5, 10])
    by_card = pc.equal(payment, 1)
    extra = at.pick("extra", pa.array([0.0, 0.5, 1.0, 2.5, 3.0, 3.5]), [33, 22, 11, 20, 5, 9])
    shares = pa.array([0.0, 0.1, 0.15, 0.2, 0.25, 0.3])
    tip_paid = pc.multiply(pc.add(fare, 4.3), at.pick("tip", shares, [10, 6, 12, 50, 12, 10]))
    tip = pc.if_else(by_card, pc.round(tip_paid, 2), 0.0)
    tolls = at.pick("tolls", pa.array([0.0, 6.55, 13.75, 3.0]), [930, 60, 6, 4])
    congestion = at.pick("congestion", pa.array([2.5, 0.0]), [92, 8])
    airport = at.pick("airport", pa.array([0.0, 1.25]), [91, 9])
    total = fare
    for part in (extra, tip, tolls, congestion, airport):
        total = pc.add(total, part)
    constant = {name: pa.repeat(value, rows) for name, value in (("mta", 0.5), ("improvement", 0.3))}
    passengers = at.pick("passengers", pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.0]), [72, 15, 4, 2, 2, 2, 3])
    rate = at.pick("rate", pa.array([1.0, 2.0, 5.0, 3.0, 99.0, 4.0]), [936, 40, 10, 5, 6, 3])
    return pa.table(
        {
            "VendorID": at.pick("vendor", pa.array([1, 2, 6], pa.int64()), [285, 712, 3]),
            "tpep_pickup_datetime": _timestamp(pickup),
            "tpep_dropoff_datetime": _timestamp(pc.add(pickup, seconds)),
            "passenger_count": at.blank("blank", passengers, 0.035),
            "trip_distance": miles,
            "RatecodeID": at.blank("blank", rate, 0.035),
            "store_and_fwd_flag": at.blank("blank", at.pick("flag", pa.array(["N", "Y"]), [985, 15]), 0.035),
            "PULocationID": _zone(at, "pickup zone"),
            "DOLocationID": _zone(at, "dropoff zone"),
            "payment_type": payment,
            "fare_amount": fare,
            "extra": extra,
            "mta_tax": constant["mta"],
            "tip_amount": tip,
            "tolls_amount": tolls,
            "improvement_surcharge": constant["improvement"],
            "total_amount": pc.round(pc.add(total, 0.8), 2),
            "congestion_surcharge": at.blank("blank", congestion, 0.035),
            "airport_fee": at.blank("blank", airport, 0.035),
        }
    )


def chunks(rows: int, seed: int) -> Iterator[pa.Table]:
    """Trips over the whole month, about a million at a time."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        stop = min(start + CHUNK, rows)
        yield trips(stop - start, seed + number * 1_000_003, first=start / rows, last=stop / rows)


def write_parquet(path: Path, rows: int, *, seed: int, compression: str = "snappy") -> None:
    """One Parquet file with row groups of about a million rows, pyarrow's defaults."""
    writer = None
    for chunk in chunks(rows, seed):
        writer = writer or pq.ParquetWriter(path, chunk.schema, compression=compression)
        writer.write_table(chunk)
    assert writer is not None
    writer.close()


def write_text(path: Path, rows: int, *, seed: int) -> None:
    """One CSV file with a header, or JSON Lines, and gzip level 6 around it, by the suffixes of the path.

    Raises:
        StopIteration: the name has neither .csv nor .jsonl in it.
    """
    kind = next(suffix for suffix in path.suffixes if suffix in {".csv", ".jsonl"})
    with gzip.open(path, "wb", 6) if ".gz" in path.suffixes else path.open("wb") as file:
        for number, chunk in enumerate(chunks(rows, seed)):
            text, frame = io.BytesIO(), pl.DataFrame(chunk)
            if kind == ".csv":
                frame.write_csv(text, include_header=number == 0, datetime_format="%Y-%m-%d %H:%M:%S")
            else:
                frame.write_ndjson(text)
            file.write(text.getbuffer())


def write_csv(path: Path, size: int, *, seed: int) -> None:
    """One uncompressed CSV file with a header and at least `size` bytes, or little more."""
    with path.open("wb") as file:
        header, number = True, 0
        while (left := size - file.tell()) > 0:
            chunk = trips(min(CHUNK, left // 108 + 1), seed + number * 1_000_003)
            pyarrow.csv.write_csv(chunk, file, pyarrow.csv.WriteOptions(include_header=header))
            header, number = False, number + 1


def _timestamp(seconds: pa.Array) -> pa.Array:
    return pc.cast(pc.multiply(pc.cast(seconds, pa.int64()), 1_000_000), pa.timestamp("us"))


def _halves(amount: pa.Array) -> pa.Array:
    """Fares come in steps of half a dollar."""
    return pc.divide(pc.round(pc.multiply(amount, 2.0)), 2.0)


def _zone(at: Randoms, name: str) -> pa.Array:
    """Zones from 1 to 265, some dozens of which have most of the trips."""
    # u^6 crowds a uniform column towards 0; the multiplication mod 265 scatters the crowded numbers.
    crowded = pc.cast(pc.floor(pc.multiply(pc.power(at.uniform(name), 6), float(ZONES))), pa.int64())
    scattered = pc.multiply(crowded, 97)
    return pc.add(pc.subtract(scattered, pc.multiply(pc.divide(scattered, ZONES), ZONES)), 1)


def schema_message() -> dict[str, Any]:
    """The SCHEMA message of the trips."""
    return {"type": "SCHEMA", "stream": STREAM, "schema": to_json_schema(trips(1, 0).schema), "key_properties": []}


def write_folder(folder: Path, rows: int, *, seed: int) -> None:
    """A folder with one Parquet file of trips."""
    folder.mkdir()
    pq.write_table(trips(rows, seed), folder / "trips.parquet", compression="zstd", compression_level=1)


def write_records(path: Path, rows: int, *, seed: int) -> None:
    """A file of Singer messages: SCHEMA, and a RECORD for each trip."""
    with path.open("wb") as file:
        file.write(json.dumps(schema_message()).encode() + b"\n")
        for batch in trips(rows, seed).to_batches(max_chunksize=CHUNK):
            frame = pl.DataFrame(batch).with_columns(pl.selectors.datetime().dt.replace_time_zone("UTC"))
            frame.select(
                pl.lit("RECORD").alias("type"), pl.lit(STREAM).alias("stream"), pl.struct(pl.all()).alias("record")
            ).write_ndjson(file)
