"""CSV to Parquet as plain pyarrow does it without holding the file: open_csv, ParquetWriter (zstd level 1).

Usage: python -m benchmarks.programs.csv_to_parquet TARGET SOURCE
"""

import sys

import pyarrow.parquet as pq
from pyarrow import csv


def main() -> None:
    """Copy block by block (16 MB, types inferred from the first)."""
    target, source = sys.argv[1:]
    reader = csv.open_csv(source, read_options=csv.ReadOptions(block_size=16 << 20))
    with pq.ParquetWriter(target, reader.schema, compression="zstd", compression_level=1) as writer:
        for batch in reader:
            writer.write_batch(batch)


if __name__ == "__main__":
    main()
