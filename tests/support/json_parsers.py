"""The two parsers of JSON Lines: the native one, where it is built, and that of every installation."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from singer_arrow.formats import json_lines

IS_BUILT = importlib.util.find_spec("singer_arrow_json") is not None
needs_native = pytest.mark.skipif(not IS_BUILT, reason="the native parser of JSON is not built; it needs Rust")
PARSERS = [pytest.param("native", marks=needs_native), "plain"]


@pytest.fixture(scope="module", autouse=True, params=PARSERS)
def json_parser(request: pytest.FixtureRequest):
    """Run the tests of a module by each parser."""
    with pytest.MonkeyPatch.context() as patch:
        use(patch, request.param)
        yield request.param


def use(patch: pytest.MonkeyPatch, parser: str) -> Any:
    """Make all readers use one of the parsers."""
    if parser == "plain":
        patch.setattr(json_lines, "native_parser", lambda: None)
