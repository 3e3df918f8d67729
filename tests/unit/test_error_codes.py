"""Each error code is in docs/errors.md; tests/integration/pipelines/test_error_codes.py provokes each."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

from singer_arrow.errors import DataError, SingerArrowError, with_code
from singer_arrow.load.dead_letters import TooManyRejectedError

ROOT = Path(__file__).parents[2]
PACKAGES = ("singer_arrow", "tap_s3_files", "tap_flight_sql", "target_bigquery", "target_redshift")
OF_THE_COMMAND_LINE = {"disk", "memory", "sdk"}
"""Codes of errors that are not ours."""
OF_INSTANCES = {"bad-row"}
"""Codes that an error has for what it names."""


def codes() -> set[str]:
    """Return the codes of the error classes of all packages."""
    for package in map(import_module, PACKAGES):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    found = set[str]()
    waiting = [SingerArrowError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.partition(".")[0] in PACKAGES:
            found.add(kind.code)
    return found


DOCUMENTED = re.findall(
    r'^\| (?:<a id="([a-z-]+)"></a>)?`([a-z-]+)` \| (.+) \| (.+) \|$',
    (ROOT / "docs/errors.md").read_text(),
    re.MULTILINE,
)
"""Anchor, code, cause and remedy of each entry."""


def test_each_code_has_its_entry_and_each_entry_its_code() -> None:
    assert [code for _, code, _, _ in DOCUMENTED] == sorted(codes() | OF_THE_COMMAND_LINE | OF_INSTANCES)
    assert [anchor for anchor, *_ in DOCUMENTED] == [code for _, code, *_ in DOCUMENTED]
    assert all(cause.strip() and remedy.strip() for *_, cause, remedy in DOCUMENTED)


def test_a_code_stays_with_an_error_that_is_completed() -> None:
    error = DataError("it is no number", line=3).at("s3://b/a.csv").hinting("Correct it")
    assert with_code(str(error), error.code) == "s3://b/a.csv, line 3: it is no number. Correct it [bad-row]"
    assert DataError("it is cut", url="s3://b/a.csv").code == "data"


def test_a_code_of_its_own_stays_with_an_error_that_is_placed_elsewhere() -> None:
    error = TooManyRejectedError("more rows are rejected", hint="Correct it").placed("RECORD messages")
    assert (
        with_code(str(error), error.code) == "RECORD messages: more rows are rejected. Correct it [too-many-rejected]"
    )
    assert DataError("it is null", row=3).placed("s3://b/a.parquet").code == "data"
    assert DataError("it is null").placed("s3://b/a.parquet", row=3).code == "bad-row"
