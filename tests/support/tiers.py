"""Tiers of tests, given by folder and mark: unit, smoke, full and soak; and what a run of them cost.

- `unit`: a test of a product package below tests/unit. It starts no process and uses no network; `refused_events`
  fails one that does. A unit test that needs either, or takes more than a second, is marked `full`.
- `smoke`: an end-to-end test that was chosen by hand. `make test` runs unit and smoke.
- `full`: every other test. `make test-all` runs unit, smoke and full.
- `soak`: a test that takes minutes; `make soak` runs it.

`@pytest.mark.smoke` is for all cases of a parametrised test, `@pytest.mark.smoke("CASE", ...)` for the cases with these
ids; `full` likewise.
"""

from __future__ import annotations

import resource
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TIERS = ("unit", "smoke", "full", "soak")
PRODUCT = ("singer_arrow", "tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift")
"""Folders below tests/unit of the packages that are installed by users."""
_STARTS_A_PROCESS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"})
_USES_THE_NETWORK = frozenset({"socket.bind", "socket.connect"})


def add_tiers(items: Iterable[pytest.Item], tests: Path, *, has_all_cases: bool) -> None:
    """Mark each test with its tier.

    Args:
        items: The tests.
        tests: The folder of all tests.
        has_all_cases: No single case was asked for, so that all cases of each test are among the items.

    Raises:
        pytest.UsageError: A mark names a case that does not exist.

    Of tests with a mark `warehouses`, the cases of other warehouses are in the tier `soak`.
    """
    cases: dict[tuple[str, str], set[str]] = {}  # cases that a mark names and that were not met, by test and mark
    for item in items:
        test, _, case = item.nodeid.removesuffix("]").partition("[")
        for mark in [mark for mark in item.own_markers if mark.name in ("smoke", "full") and mark.args]:
            cases.setdefault((test, mark.name), set(mark.args)).discard(case)
            if case not in mark.args:
                item.own_markers.remove(mark)
        only = item.get_closest_marker("warehouses")
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if only and params.get("warehouse", only.args[0]) not in only.args:
            item.own_markers = [mark for mark in item.own_markers if mark.name not in TIERS]
            item.add_marker("soak")
        if not any(item.get_closest_marker(tier) for tier in TIERS):
            folders = item.path.relative_to(tests).parts
            item.add_marker("unit" if folders[0] == "unit" and folders[1] in PRODUCT else "full")
    unmet = {name: missing for name, missing in cases.items() if missing}
    if unmet and has_all_cases:
        raise pytest.UsageError(f"a mark names cases that do not exist: {unmet}")


_refused: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _refused is None:
        return
    if event in _STARTS_A_PROCESS or (
        event in _USES_THE_NETWORK
        and isinstance(arguments[0], socket.socket)
        and arguments[0].family in (socket.AF_INET, socket.AF_INET6)
    ):
        _refused.append(event)


_is_hooked = False


@contextmanager
def refused_events() -> Iterator[None]:
    """Fail the test that runs meanwhile if it starts a process or uses the network.

    Python's audit events show both, but not processes that `multiprocessing` spawns, nor sockets of Rust libraries.
    """
    global _is_hooked, _refused  # noqa: PLW0603 - an audit hook is for the whole process, and stays
    if not _is_hooked:
        sys.addaudithook(_note)
        _is_hooked = True
    _refused = events = []
    try:
        yield
    finally:
        _refused = None
    if events:
        text = f"a unit test starts no process and uses no network, but this one did: {', '.join(sorted(set(events)))}"
        pytest.fail(f"{text}. Mark it `full`, or test without them.", pytrace=False)


class Cost:
    """The wall time and CPU time of a run, also of its workers and of the processes that they started."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def line(self) -> str:
        """Return one line for the end of the run. Processes that nobody waited for are not counted."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        seconds = sum(one.ru_utime + one.ru_stime for one in used)
        return f"{time.monotonic() - self._began:.0f} s wall, {seconds:.0f} s CPU with all processes"
