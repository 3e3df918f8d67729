"""Tests that use private members of the packages."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache

from house.source import Module, modules, product

_PRIVATE = re.compile(r"_[a-z][a-z0-9_]*$|_[A-Z]\w*$")
_DOTTED = re.compile(r"^(?:singer_arrow|tap_\w+|target_\w+|local_cloud)\.[\w.]*\b(_[a-z]\w*)")
NOT_PRIVATE = frozenset({"_replace", "_asdict", "_fields", "_make", "_value_"})
"""Public members of named tuples and enums, whose names begin with an underscore."""
SDK_CONTRACT = "tests/unit/singer_arrow/sdk/"
"""Tests there check the SDK's privates, which singer_arrow.sdk relies on."""


def uses() -> dict[str, list[str]]:
    """Return the tests that use a private member, `line: name` by file."""
    result: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        if module.area != "tests" or str(module.path).startswith(SDK_CONTRACT):
            continue
        own = _defined_in(module)
        for node in module.nodes:
            if (name := _private_name(node)) and name in _ours() and name not in own:
                result[str(module.path)].append(f"{getattr(node, 'lineno', 0)}: {name}")
    return result


def _private_name(node: ast.AST) -> str | None:
    match node:
        case ast.Attribute(attr=name) if _PRIVATE.match(name) and not _is_self(node.value):
            return name
        case ast.alias(name=name) if _PRIVATE.match(name):
            return name
        case ast.Constant(value=str(text)) if dotted := _DOTTED.match(text):
            return dotted[1]
    return None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"self", "cls"}


@cache
def _ours() -> frozenset[str]:
    """Return the private names that the packages define."""
    return frozenset().union(*(_defined_in(module) for module in product())) - NOT_PRIVATE


def _defined_in(module: Module) -> frozenset[str]:
    names: set[str] = set()
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Attribute(attr=name, value=owner, ctx=ast.Store()) if _is_self(owner):
                names.add(name)
    return frozenset(name for name in names if _PRIVATE.match(name))
