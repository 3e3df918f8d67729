"""Class and function names with two meanings: defined in several modules of the published packages."""

from __future__ import annotations

import ast
from collections import defaultdict

from house.source import PUBLISHED, product

ONE_MEANING = frozenset(
    {"main", "run", "read", "write", "infer", "open", "close", "connect", "create", "append_builtin_config", "name"}
)
"""Functions that several modules define with one meaning, for example the same operation of different formats."""

Definitions = dict[str, set[str]]
"""The modules that define a name."""


def ambiguous_classes() -> Definitions:
    """Return the class names that more than one module defines."""
    return _ambiguous((ast.ClassDef,), frozenset())


def ambiguous_functions() -> Definitions:
    """Return the names of public functions that more than one module defines, without those of `ONE_MEANING`."""
    return _ambiguous((ast.FunctionDef, ast.AsyncFunctionDef), ONE_MEANING)


def _ambiguous(kinds: tuple[type[ast.stmt], ...], allowed: frozenset[str]) -> Definitions:
    """Modules of the two targets with the same name in their packages count as one: they are counterparts."""
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for module in product():
        if module.area not in PUBLISHED:
            continue
        for node in module.tree.body:
            if isinstance(node, kinds):
                name = str(getattr(node, "name", ""))
                if not name.startswith("_") and name not in allowed:
                    counterpart = f"target.{module.in_package}" if module.area.startswith("target_") else module.name
                    places[name].setdefault(counterpart, module.name)
    return {name: set(modules.values()) for name, modules in sorted(places.items()) if len(modules) > 1}
