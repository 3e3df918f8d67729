"""The native parser of JSON, and Python alone."""

from __future__ import annotations

import importlib.util

import pytest

from singer_arrow.formats import json_lines

IS_BUILT = importlib.util.find_spec("singer_arrow_json") is not None
needs_native = pytest.mark.skipif(not IS_BUILT, reason="the native parser of JSON is not built; it needs Rust")


@pytest.fixture(scope="module", autouse=True, params=[pytest.param("native", marks=needs_native), "python"])
def json_parser(request: pytest.FixtureRequest):
    """Run the tests of a module by each parser."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(json_lines, "native_parser", lambda: None)
        yield request.param


def skip_by_python(parser: str) -> None:
    """Skip a test of what only the native parser does at once."""
    if parser == "python":
        pytest.skip("Python reads line by line")
