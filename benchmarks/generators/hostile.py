"""Files that are small, or of a usual size, and that take much memory where memory is not counted."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.generators import taxi
from benchmarks.generators.randoms import Randoms

BLOCK = 30_000_000
LONG = 60_000_000
COLUMNS = 1000


def repeated_csv(path: Path, size: int, seed: int) -> None:
    """One CSV of trips of at least `size` bytes: a block of 30 MB again and again, which is made fast."""
    block = path.with_name(f"{path.name}.block")
    taxi.write_csv(block, min(size, BLOCK), seed=seed)
    header, _, body = block.read_bytes().partition(b"\n")
    block.unlink()
    with path.open("wb") as file:
        file.write(header + b"\n")
        while file.tell() < size:
            file.write(body)


def wide(rows: int, seed: int) -> pa.Table:
    """1,000 columns: every third of text, the others of floats."""
    at, columns = Randoms(rows, seed), dict[str, pa.Array]()
    for i in range(COLUMNS):
        numbers = at.uniform(f"c{i}")
        columns[f"c{i}"] = numbers.cast(pa.string()) if i % 3 == 0 else numbers
    return pa.table(columns)


def wide_csv(path: Path, rows: int) -> None:
    """Of `wide`."""
    pyarrow.csv.write_csv(wide(rows, 1), path)


def wide_parquet(path: Path, rows: int) -> None:
    """One row group of `wide`, whose rows repeat, so that the file is a tenth of what it holds."""
    some = wide(max(1, rows // 15), 2)
    table = pa.concat_tables([some] * 15)
    pq.write_table(table, path, row_group_size=table.num_rows)


def one_row_group(path: Path, rows: int) -> None:
    """Trips in one row group, not compressed and without dictionaries."""
    pq.write_table(taxi.trips(rows, 3), path, row_group_size=rows, compression="none", use_dictionary=False)


def long_texts(rows: int, write: Callable[[Path, pa.Table], None]) -> Callable[[Path], None]:
    """A file of texts of 60 MB."""
    return lambda path: write(path, pa.table({"id": pa.array(range(rows)), "text": ["x" * LONG] * rows}))


def csv(path: Path, table: pa.Table) -> None:
    """A plain CSV."""
    pyarrow.csv.write_csv(table, path)


def jsonl(path: Path, table: pa.Table) -> None:
    """Plain JSON Lines."""
    with path.open("w") as file:
        for row in table.to_pylist():
            file.write(json.dumps(row) + "\n")


def parquet(path: Path, table: pa.Table) -> None:
    """Parquet by pyarrow's defaults."""
    pq.write_table(table, path)


def named_texts(path: Path, rows: int) -> None:
    """Twenty texts of 10 kB, each named by a twentieth of the rows: a megabyte that expands to gigabytes."""
    texts = [f"{i:05d}" * 2000 for i in range(20)]
    indices = pa.array([i % 20 for i in range(rows)], pa.int32())
    table = pa.table({"id": pa.array(range(rows)), "text": pa.DictionaryArray.from_arrays(indices, texts)})
    pq.write_table(table, path, store_schema=False)


def repetitive_gzip(path: Path, rows: int) -> None:
    """JSON Lines that gzip makes a hundredth of."""
    line, step = json.dumps({"id": 1, "text": "a" * 200, "n": 1.5}).encode() + b"\n", 4096
    with gzip.open(path, "wb", 1) as file:
        for start in range(0, rows, step):
            file.write(line * min(step, rows - start))


def bad_rows(path: Path, rows: int) -> None:
    """Numbers in CSV, and behind what is sampled every third one is none."""
    with path.open("w") as file:
        file.write("id,n\n")
        file.writelines(f"{i},{'oops' if i > 20_000 and i % 3 == 0 else i}\n" for i in range(rows))
