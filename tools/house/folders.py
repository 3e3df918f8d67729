"""Modules in a folder, length of files, maps in `__init__.py`."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

from house.source import PUBLISHED, ROOT, Module, files, modules, product

_MAP_LINE = re.compile(r"^(\w+)/? {2,}\S")


def module_counts() -> Counter[Path]:
    """Return how many modules each folder of the packages holds, without `__init__.py`."""
    return Counter(module.path.parent for module in product() if not module.is_package)


def lengths() -> dict[str, int]:
    """Return the number of lines of every Python file."""
    return {str(module.path): module.text.count("\n") for module in modules()}


def lines_of_packages() -> Counter[str]:
    """Return the number of lines of each package."""
    return Counter({area: sum(m.text.count("\n") for m in product() if m.area == area) for area in _areas()})


def sizes() -> dict[str, int]:
    """Return what may only fall: lines of product, acceptance suite and local cloud; files of the product."""
    lines = lines_of_packages()
    rust = sum((ROOT / path).read_text().count("\n") for path in files() if path.match("src/*.rs"))
    return {
        "product": sum(lines[area] for area in PUBLISHED) + rust,
        "acceptance": lines["acceptance"],
        "local_cloud": lines["local_cloud"],
        "files": sum(module.area in PUBLISHED for module in product()),
    }


def one_statement_share() -> float:
    """Return the share of the product's functions, in per cent, that are one short statement beside a docstring."""
    counts = Counter[bool]()
    for module in product():
        for node in module.nodes if module.area in PUBLISHED else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
                counts[len(body) <= 1 and all((n.end_lineno or 0) - n.lineno <= 2 for n in body)] += 1
    return 100 * counts[True] / counts.total()


def map_faults() -> list[str]:
    """Return what is wrong with the maps: modules that an `__init__.py` does not list, and listed ones that are gone.

    A map has a line for each module or folder: its name, two spaces or more, what it holds.
    """
    contents: dict[Path, set[str]] = defaultdict(set)
    for module in product():
        if module.is_package:
            contents[module.path.parent.parent].add(module.path.parent.name)
        elif not module.path.stem.startswith("__"):
            contents[module.path.parent].add(module.path.stem)
    faults = []
    for module in product():
        if module.is_package and (inside := contents[module.path.parent]):
            listed = _listed(module)
            faults += [f"{module.path}: the map misses {name}" for name in sorted(inside - listed)]
            faults += [f"{module.path}: the map lists {name}, which is gone" for name in sorted(listed - inside)]
    return faults


def _listed(module: Module) -> set[str]:
    lines = (ast.get_docstring(module.tree) or "").splitlines()
    return {match[1] for line in lines if (match := _MAP_LINE.match(line))}


def _areas() -> set[str]:
    return {module.area for module in product()}
