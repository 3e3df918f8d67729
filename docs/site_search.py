"""Search the built site as its own search box does: its worker, in V8, with its index.

`make site-search ARGS='"delete rows"'` writes both, and prints for each search the three first results in order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

try:
    from py_mini_racer import MiniRacer
except ImportError:  # it is no part of the development environment
    sys.exit("docs/site_search.py needs libraries of its own; run: make site-search ARGS='\"delete rows\"'")

SITE = Path(__file__).parent.parent / "build/site"
BROWSER = """
var self = globalThis, answer = null, receive, console = {warn() {}, log() {}};
function addEventListener(kind, call) { receive = call }
function postMessage(message) { answer = message }
"""
SETUP, QUERY = 0, 2
"""Kinds of messages to the worker."""


class Search:
    """The search of a built site."""

    def __init__(self, site: Path) -> None:
        index = json.loads((site / "search/search_index.json").read_text())
        (worker,) = site.glob("assets/javascripts/workers/search.*.min.js")
        self._engine = MiniRacer()
        self._engine.eval(BROWSER + worker.read_text())
        self._send(SETUP, index | {"options": {"suggest": False}})

    def _send(self, kind: int, data: Any) -> Any:
        self._engine.eval(f"receive({{data: {json.dumps({'type': kind, 'data': data})}}}); 0")
        return json.loads(self._engine.eval("JSON.stringify(answer)"))

    def close(self) -> None:
        """End the engine, whose threads keep the process alive."""
        self._engine.close()

    def find(self, words: str) -> list[list[str]]:
        """Return the locations of the pages found, each with those of its sections, the best first."""
        items = self._send(QUERY, words)["data"]["items"]
        return [[each["location"] for each in sorted(page, key=lambda e: -e["score"])] for page in items]


if __name__ == "__main__":
    search = Search(SITE)
    for words in sys.argv[1:]:
        sys.stdout.write(json.dumps([words, *[page[0] for page in search.find(words)[:3]]]) + "\n")
    search.close()
