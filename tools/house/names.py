"""Class and function names with two meanings: defined in several modules of the published packages."""

from __future__ import annotations

import ast
from collections import defaultdict

from house.source import PUBLISHED, Module, product

ONE_MEANING = frozenset({"main", "run", "read", "write", "infer", "open", "close", "connect", "create", "name"})
"""Functions that several modules define with one meaning, for example the same operation of different formats."""
ONE_KIND = frozenset({"Conversion", "Settings"})
"""Classes of one kind: each connector has its own."""

Definitions = dict[str, set[str]]
"""The modules that define a name."""


def ambiguous_classes() -> Definitions:
    """Return the class names that more than one module defines, without those of `ONE_KIND`."""
    return _ambiguous((ast.ClassDef,), ONE_KIND)


def ambiguous_functions() -> Definitions:
    """Return the names of public functions that more than one module defines, without those of `ONE_MEANING`."""
    return _ambiguous((ast.FunctionDef, ast.AsyncFunctionDef), ONE_MEANING)


def _ambiguous(kinds: tuple[type[ast.stmt], ...], allowed: frozenset[str]) -> Definitions:
    definitions: dict[str, list[Module]] = defaultdict(list)
    for module in product():
        for node in module.tree.body if module.area in PUBLISHED else ():
            if isinstance(node, kinds):
                name = str(getattr(node, "name", ""))
                if not name.startswith("_") and name not in allowed:
                    definitions[name].append(module)
    return {
        name: {module.name for module in found}
        for name, found in sorted(definitions.items())
        if len(found) > 1 and not _are_counterparts(found)
    }


def _are_counterparts(found: list[Module]) -> bool:
    """Return whether both targets or both taps, and nothing else, define a name in the module or folder of one name."""
    areas = {module.area for module in found}
    is_pair = len(found) == 2 and len(areas) == 2 and len({area.split("_")[0] for area in areas}) == 1
    return is_pair and len({m.in_package.split(".")[0] for m in found}) == 1
