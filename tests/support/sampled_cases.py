"""`--sample`: leave out long tests, and of each test that starts processes all cases but the first or the last."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

SLOW_FOLDERS = frozenset({"conformance", "faults", "hostile", "integration"})
"""Folders of tests that start processes and use the local cloud."""


def sample(items: Iterable[pytest.Item], tests: Path) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that a sample keeps, and the others; which ones depends on nothing but names and order.

    About one half of the tests keeps its first case, the other half its last: so each warehouse has one half of those
    that run with both.

    Args:
        items: All tests.
        tests: The folder of all tests.
    """
    by_test = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("long") is None:
            is_slow = item.path.relative_to(tests).parts[0] in SLOW_FOLDERS
            by_test[item.nodeid.partition("[")[0] if is_slow else item.nodeid].append(item)
    kept = {cases[-(zlib.crc32(name.encode()) % 2)] for name, cases in by_test.items()}
    return [item for item in items if item in kept], [item for item in items if item not in kept]
