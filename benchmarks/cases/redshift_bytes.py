"""Bytes that pass through target-redshift on the way from batch files to a committed table.

100,000 rows of 150 columns in ten batch files. The target reaches S3 through a proxy that counts every byte; the local
Redshift does not, as the real one reads S3 by itself. A target that decodes batch files moves all of them; ours reads
the footers of Parquet files that are on S3, each by one request for its last 128 KB, and writes a manifest. What is on
local disk has to go up, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Contender, Facts, Goal
from benchmarks.cases.redshift_loads import BUCKET, on_s3, parquet_files
from benchmarks.cases.wide import jsonl_files, messages
from benchmarks.connectors import redshift_target
from benchmarks.generators import infinity
from benchmarks.harness import Command, Measured
from benchmarks.redshift import loaded
from benchmarks.workbench import Workbench

ON_S3 = "Parquet on S3"


def build(bench: Workbench) -> Case:
    """Three places where batch files can be."""
    rows = bench.rows(infinity.ROWS)
    cloud = bench.cloud("redshift")
    proxy = cloud.fault_proxy(cloud.s3_url)
    jsonl, parquet = jsonl_files(bench), parquet_files(bench)
    count = loaded(bench, infinity.STREAM, rows)

    def commands(stdin: Path) -> Callable[[Path], Sequence[Command]]:
        def start(folder: Path) -> list[Command]:
            proxy.clear()
            return [redshift_target(bench, folder, {}, stdin, AWS_ENDPOINT_URL=proxy.url)]

        return start

    def facts(files: Path) -> Callable[[Path, Measured], Facts]:
        size = sum(path.stat().st_size for path in files.iterdir())

        def counted(folder: Path, measured: Measured) -> Facts:
            report = proxy.report()
            through = report["bytes_down"] + report["bytes_up"]
            mb = {"files_mb": size / 1e6, "down_mb": report["bytes_down"] / 1e6, "up_mb": report["bytes_up"] / 1e6}
            # Suffix requests end at the file's end: they are for the footer.
            inner = [e for e in report["log"] if e["path"].startswith(f"/{BUCKET}/") and not _is_suffix(e)]
            mb["inner_mb"] = sum(e["bytes_down"] for e in inner) / 1e6
            return count(folder, measured) | mb | {"share": through / size, "requests": report["requests"]}

        return counted

    return Case(
        name="redshift-bytes",
        about=__doc__ or "",
        contenders=[
            Contender(name, f"`target-redshift`, all defaults, BATCH {name}", commands(stdin), facts(files), rounds=1)
            for name, files, stdin in (
                ("gzip JSONL on disk", jsonl, messages(bench, jsonl, "jsonl", "gzip")),
                ("Parquet on disk", parquet, messages(bench, parquet, "parquet", "zstd")),
                ("gzip JSONL on S3", jsonl, on_s3(bench, jsonl, "jsonl", "gzip")),
                (ON_S3, parquet, on_s3(bench, parquet, "parquet", "zstd")),
            )
        ],
        goals=[
            Goal("MB read of Parquet files on S3, but for their footers", "inner_mb", ON_S3, at_most=0),
            Goal("bytes through the target over bytes of the files, Parquet on S3", "share", ON_S3, at_most=0.005),
        ],
        columns=(
            ("files_mb", "MB of files"),
            ("down_mb", "MB read"),
            ("inner_mb", "MB of files but for footers"),
            ("up_mb", "MB written"),
            ("share", "share"),
            ("requests", "requests"),
        ),
        rounds=1,
    )


def _is_suffix(request: dict[str, Any]) -> bool:
    return str(request.get("range") or "").startswith("bytes=-")
