"""`--sample`: of each parametrized test that starts processes, run some cases, spread over all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

SLOW_FOLDERS = frozenset({"conformance", "faults", "hostile", "integration"})
"""Folders of tests that start processes and use the local cloud."""
CASES = 4
"""Cases of each of their tests that a sample keeps."""


def sample(items: Iterable[pytest.Item], tests: Path) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that a sample keeps, and the others; which ones depends on nothing but their order.

    Args:
        items: All tests.
        tests: The folder of all tests.
    """
    by_test = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        is_slow = item.path.relative_to(tests).parts[0] in SLOW_FOLDERS
        by_test[item.nodeid.partition("[")[0] if is_slow else item.nodeid].append(item)
    kept = {item for cases in by_test.values() for item in _spread(cases)}
    return [item for item in items if item in kept], [item for item in items if item not in kept]


def _spread(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first case, the last, and some between them at equal distances."""
    if len(cases) <= CASES:
        return cases
    return [cases[round(n * (len(cases) - 1) / (CASES - 1))] for n in range(CASES)]
