"""Write the tables of sources of the pages about other tools, from docs/comparison_sources.toml.

`python docs/comparison_sources.py` writes; with `--check` it fails if a page is not as it would be written.
"""

from __future__ import annotations

import datetime
import sys
import tomllib
from pathlib import Path
from typing import Any

from written_files import write_or_check

DOCS = Path(__file__).parent
BEGIN, END = "<!-- sources: docs/comparison_sources.py writes them -->\n", "<!-- end of the sources -->"
HEADER = "| tool | version or commit | its date | read on | files |\n|---|---|---|---|---|\n"
MAX_AGE_DAYS = 180


def sources() -> list[dict[str, Any]]:
    """Return the sources, in the order of the file."""
    found: list[dict[str, Any]] = tomllib.loads((DOCS / "comparison_sources.toml").read_text())["source"]
    return found


def outdated(today: datetime.date, listed: list[dict[str, Any]]) -> list[str]:
    """Return a line for each source that was read more than 180 days before `today`, with what to do."""
    return [
        f"{source['page']}: {source['tool']} was read on {source['read']}, more than {MAX_AGE_DAYS} days ago: read "
        f"{source['place']} again, correct the cells, and set version and date in docs/comparison_sources.toml"
        for source in listed
        if (today - source["read"]).days > MAX_AGE_DAYS
    ]


def with_sources(page: str, text: str, listed: list[dict[str, Any]]) -> str:
    """Return the text of a page with the table of its sources between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = "".join(_row(source) for source in listed if source["page"] == page)
    return f"{before}{BEGIN}\n{HEADER}{rows}\n{END}{after}"


def _row(source: dict[str, Any]) -> str:
    """Return the row of a source."""
    files = "; ".join(f"[{label}] {file}" for label, file in source["files"].items()).replace("__", r"\_\_")
    tool = f"[{source['tool']}]({source['place']})"
    return f"| {tool} | {source['version']} | {source.get('committed', '')} | {source['read']} | {files} |\n"


def main() -> int:
    """Write, or check."""
    listed = sources()
    pages = dict.fromkeys(source["page"] for source in listed)
    return write_or_check({DOCS / page: with_sources(page, (DOCS / page).read_text(), listed) for page in pages})


if __name__ == "__main__":
    sys.exit(main())
