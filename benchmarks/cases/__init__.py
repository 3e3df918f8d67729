"""The cases by name. Each module tells in its docstring what it compares and how."""

from collections.abc import Callable

from benchmarks.case import Case
from benchmarks.cases import avro, loads, memory, parquet, start, wide
from benchmarks.workbench import Workbench

CASES: dict[str, Callable[[Workbench], Case]] = {
    "start": start.build,
    "parquet": parquet.build,
    "parquet-5-files": parquet.build_five,
    "avro": avro.build,
    "avro-from-jsonl": avro.build_from_jsonl,
    "wide": wide.build,
    "loads": loads.build,
    "memory": memory.build,
    "memory-5gb": memory.build_large,
}
ON_REQUEST = frozenset({"memory-5gb"})
"""Cases that run only when they are named: they take long, or much of the disk."""
