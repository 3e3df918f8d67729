"""Import circles between modules, type-checking imports included."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from house.source import Module, product

Graph = dict[str, set[str]]


def circles() -> list[list[str]]:
    """Return every group of modules that import one another, at runtime, lazily, or for types only."""
    names = {module.name for module in product()}
    graph = {module.name: set(_imported(module, names)) - {module.name} for module in product()}
    reached = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from {full if full in names else node.module} & names
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & names


def _reached(graph: Graph, start: str) -> set[str]:
    """Return the modules that a module imports, directly or not; it is among them if it is part of a circle."""
    reached: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += graph[name]
    return reached
