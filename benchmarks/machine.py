"""Where a benchmark ran: what a reader needs to judge its figures, and nothing that names the machine."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = (
    "singer-arrow",
    "tap-s3-files",
    "target-bigquery",
    "target-redshift",
    "singer-sdk",
    "pyarrow",
    "polars",
    "obstore",
    "boto3",
    "smart-open",
    "fastavro",
    "isal",
    "google-cloud-bigquery",
    "redshift-connector",
    "psycopg",
)


def describe() -> dict[str, object]:
    """Date (UTC), processor, cores, memory, and the versions of Python and of the libraries at work."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
