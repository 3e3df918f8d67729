"""Words of the pages that people write and read."""

from __future__ import annotations

import re
from functools import cache

from house.source import ROOT, files

_WRITTEN_BY_A_PROGRAM = re.compile(r"\b[Ww]ritten by `?(?:docs/|make )")
_WRITTEN_PART = re.compile(r"^<!-- (figures|sources)\b.*?^<!-- end of the \1 -->", re.MULTILINE | re.DOTALL)


@cache
def words() -> dict[str, int]:
    """Return the words of each page in Markdown, tables and code blocks included.

    Pages that name the program that writes them in their first six lines, and such parts of pages, do not count.
    """
    counts = {}
    for path in files():
        text = (ROOT / path).read_text() if path.suffix == ".md" else ""
        if text and not _is_generated(text):
            counts[str(path)] = len(_WRITTEN_PART.sub("", text).split())
    return counts


def _is_generated(text: str) -> bool:
    return bool(_WRITTEN_BY_A_PROGRAM.search("\n".join(text.splitlines()[:6])))
