"""One step of an Arrow batch file; prints its CPU seconds as JSON.

Usage: python -m benchmarks.programs.arrow_batch WHO FOLDER SOURCE...

WHO is `plain`, pyarrow's `ipc.open_file` and `pq.write_table`; `target`, the reading and writing of both targets; or
`arrow` or `parquet`, a batch file of tap-s3-files out of CSV. SOURCE is Parquet; the file to read is made before the
clock starts.
"""

import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from singer_arrow.batch.files import read_file
from singer_arrow.formats import FORMATS, WRITABLE, WriteOptions
from singer_arrow.read_options import ReadOptions
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.storage.store import Storage
from singer_arrow.storage.urls import Url


def main() -> None:
    """Take the step, and print `rows` and `convert_cpu_s`."""
    who, folder, *sources = sys.argv[1:]
    table, root = pa.concat_tables(pq.read_table(source) for source in sources), Path(folder)
    made = root / ("in.arrow" if who in ("plain", "target") else "in.csv")
    if made.suffix == ".arrow":
        WRITABLE["arrow"].write(table.to_batches(), table.schema, made)
    else:
        pa_csv.write_csv(table, made)
    _step(who, made, table.slice(0, 1), root / "first")  # imports what it needs
    started = time.process_time()
    _step(who, made, table, root / "out")
    print(
        json.dumps(
            {"rows": pq.read_metadata(root / "out").num_rows if who != "arrow" else table.num_rows}
            | {"convert_cpu_s": time.process_time() - started}
        )
    )


def _step(who: str, made: Path, table: pa.Table, out: Path) -> None:
    if who == "plain":
        with pa.ipc.open_file(str(made)) as source:
            pq.write_table(source.read_all(), out, compression="zstd", compression_level=1)
    elif who == "target":
        batches = read_file(Storage(), str(made), format="arrow", schema=table.schema)
        WRITABLE["parquet"].write(batches, table.schema, out, WriteOptions("zstd"))
    else:
        reader = ObjectReader(Storage(), Url.parse(str(made)))
        batches = FORMATS["csv"].read(reader, table.schema, ReadOptions())
        WRITABLE[who].write(batches, table.schema, out)


if __name__ == "__main__":
    main()
