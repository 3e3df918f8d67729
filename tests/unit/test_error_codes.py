"""Each error code is in docs/troubleshooting.md, and a test names each code, or a class of errors that has it."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

from singer_arrow.errors import DataError, SingerArrowError, with_code

ROOT = Path(__file__).parents[2]
PACKAGES = ("singer_arrow", "tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift")
OF_THE_COMMAND_LINE = {"disk", "memory", "sdk"}
"""Codes of errors that are not ours: `tests/unit/singer_arrow/sdk/test_cli.py` has them."""
OF_INSTANCES = {"bad-row"}
"""Codes that an error has for what it names."""


def classes() -> dict[str, set[str]]:
    """Return the names of the error classes of all packages, by their codes."""
    for package in map(import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    found: dict[str, set[str]] = {}
    waiting = [SingerArrowError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.partition(".")[0] in PACKAGES:
            found.setdefault(kind.code, set()).add(kind.__name__)
    return found


CLASSES = classes()
DOCUMENTED = re.findall(
    r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", (ROOT / "docs/troubleshooting.md").read_text(), re.MULTILINE
)
TESTS = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__))


def test_each_code_has_its_entry_and_each_entry_its_code() -> None:
    codes = [code for code, _, _ in DOCUMENTED]
    assert codes == sorted(CLASSES.keys() | OF_THE_COMMAND_LINE | OF_INSTANCES)
    assert all(cause.strip() and remedy.strip() for _, cause, remedy in DOCUMENTED)


@pytest.mark.parametrize("code", sorted(CLASSES))
def test_a_test_names_each_code_or_its_class(code: str) -> None:
    names = "|".join(sorted(CLASSES[code]))
    assert re.search(rf"raises\([^()]*\b({names})\b|\[{code}\]|\"{code}\"", TESTS), f"no test names {code} ({names})"


@pytest.mark.parametrize("code", sorted(OF_THE_COMMAND_LINE | OF_INSTANCES))
def test_each_code_of_a_line_is_in_a_test(code: str) -> None:
    assert f"[{code}]" in TESTS


def test_a_code_stays_with_an_error_that_is_completed() -> None:
    error = DataError("it is no number", line=3).at("s3://b/a.csv").hinting("Correct it")
    assert with_code(str(error), error.code) == "s3://b/a.csv, line 3: it is no number. Correct it [bad-row]"
    assert DataError("it is cut", url="s3://b/a.csv").code == "data"
