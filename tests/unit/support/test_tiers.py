"""Tiers: the guard of unit tests, and marks that name cases."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiers import TIERS, add_tiers, refused_events


def _start() -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)


def _fork() -> None:
    if not (pid := os.fork()):
        os._exit(0)
    os.waitpid(pid, 0)


def _bind() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def _connect() -> None:
    with socket.socket(socket.AF_INET6) as client:
        client.connect_ex(("::1", 1))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("forbidden", [_start, _fork, _bind, _connect])
def test_the_guard_fails_what_starts_a_process_or_uses_the_network(forbidden: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match="starts no process"), refused_events():
        forbidden()
    forbidden()  # the guard has ended


def test_the_guard_allows_pairs_of_sockets_and_keeps_errors() -> None:
    with refused_events():
        for end in socket.socketpair():
            end.close()
    with pytest.raises(KeyError), refused_events():
        raise KeyError


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> Callable[[str], list[pytest.Item]]:
    """Collects the tests of a module as if it was below tests/integration."""

    def collect(text: str) -> list[pytest.Item]:
        folder: Path = request.getfixturevalue("tmp_path") / "integration"
        folder.mkdir()
        (folder / "test_module.py").write_text(f"import pytest\n{text}")
        module = pytest.Module.from_parent(request.session, path=folder / "test_module.py")
        return [item for item in module.collect() if isinstance(item, pytest.Item)]

    return collect


def test_a_mark_counts_for_the_cases_that_it_names(
    collected: Callable[[str], list[pytest.Item]], tmp_path: Path
) -> None:
    items = collected(
        "@pytest.mark.smoke('b', 'c')\n@pytest.mark.parametrize('case', ['a', 'b', 'c'])\ndef test_x(case): pass\n"
        "@pytest.mark.smoke\ndef test_y(): pass\n@pytest.mark.soak\ndef test_z(): pass\n"
    )
    add_tiers(items, tmp_path, has_all_cases=True)
    tiers = [[tier for tier in TIERS if item.get_closest_marker(tier)] for item in items]
    assert tiers == [["full"], ["smoke"], ["smoke"], ["smoke"], ["soak"]]


def test_a_case_that_does_not_exist_is_an_error(collected: Callable[[str], list[pytest.Item]], tmp_path: Path) -> None:
    items = collected("@pytest.mark.smoke('b')\n@pytest.mark.parametrize('case', ['a'])\ndef test_x(case): pass\n")
    with pytest.raises(pytest.UsageError, match=r"test_x.*'b'"):
        add_tiers(items, tmp_path, has_all_cases=True)


def test_cases_of_other_warehouses_are_in_soak(collected: Callable[[str], list[pytest.Item]]) -> None:
    items = collected(
        'pytestmark = pytest.mark.warehouses("a")\n'
        '@pytest.mark.parametrize("warehouse", ["a", "b"])\n'
        '@pytest.mark.smoke("a")\n'
        "def test_one(warehouse): ...\n"
        "def test_none(): ...\n"
    )
    add_tiers(items, Path(items[0].path).parents[1], has_all_cases=True)
    found = {item.name: [tier for tier in TIERS if item.get_closest_marker(tier)] for item in items}
    assert found == {"test_one[a]": ["smoke"], "test_one[b]": ["soak"], "test_none": ["full"]}
