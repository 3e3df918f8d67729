"""The page of the services' limits has the constants of the code, and each limit the page that it is from."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "service-limits.md").read_text()
CONSTANTS = re.findall(r"`((?:target_\w+|singer_arrow)\.[\w.]+)` = ([\d,]+)", PAGE)


def value_of(path: str) -> Any:
    """Return what a path of modules and attributes names; of a dataclass, its default."""
    parts = path.split(".")
    modules = next(n for n in range(len(parts), 0, -1) if _is_module(".".join(parts[:n])))
    found: Any = import_module(".".join(parts[:modules]))
    for name in parts[modules:]:
        fields = getattr(found, "__dataclass_fields__", {}) if isinstance(found, type) else {}
        found = fields[name].default if name in fields else getattr(found, name)
    return found


def _is_module(name: str) -> bool:
    try:
        import_module(name)
    except ModuleNotFoundError:
        return False
    return True


def test_there_are_constants_of_both_targets() -> None:
    assert len(CONSTANTS) >= 20
    assert {path.split(".")[0] for path, _ in CONSTANTS} == {"target_bigquery", "target_redshift", "singer_arrow"}


@pytest.mark.parametrize(("path", "value"), CONSTANTS, ids=[path for path, _ in CONSTANTS])
def test_constants_are_those_of_the_code(path: str, value: str) -> None:
    assert value_of(path) == int(value.replace(",", ""))


def test_each_limit_names_a_page_of_the_vendor() -> None:
    limits = re.findall(r"^\| (?!limit|-)(.+?) \| ", PAGE, re.MULTILINE)
    assert len(limits) >= 25
    linked = re.compile(r"\[.+\]\(https://(?:cloud\.google|docs\.aws\.amazon)\.com/\S+\)$")
    assert [limit for limit in limits if not linked.match(limit)] == []
