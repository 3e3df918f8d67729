"""A guard: tests of the tier `unit` start no process and use no network."""

from collections.abc import Generator

import pytest
from tiers import refused_events


def _guarded(item: pytest.Item) -> Generator[None]:
    if item.get_closest_marker("unit") is None:
        return (yield)
    with refused_events():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Guard the fixtures of a test."""
    return (yield from _guarded(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Guard a test."""
    return (yield from _guarded(item))
