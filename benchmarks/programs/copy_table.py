"""A table of a lake to Parquet as its library does it: to_pyarrow_table or to_arrow, write_table (zstd level 1).

Usage: python -m benchmarks.programs.copy_table FORMAT TARGET_FOLDER TABLE
"""

import sys
from typing import Any

import pyarrow.parquet as pq


def main() -> None:
    """Copy one table with the library's own threads."""
    kind, folder, table = sys.argv[1:]
    rows = _of_delta(table) if kind == "delta" else _of_iceberg(table)
    pq.write_table(rows, f"{folder}/table.parquet", compression="zstd", compression_level=1)


def _of_delta(table: str) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table).to_pyarrow_table()


def _of_iceberg(metadata: str) -> Any:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(metadata).scan().to_arrow()


if __name__ == "__main__":
    main()
