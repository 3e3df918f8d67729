"""The source files of the workspace."""

from __future__ import annotations

import ast
import subprocess
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "singer_arrow": "singer-arrow/src",
    "tap_s3_files": "tap-s3-files/src",
    "tap_flight_sql": "tap-flight-sql/src",
    "target_bigquery": "target-bigquery/src",
    "target_redshift": "target-redshift/src",
    "acceptance": "acceptance/src",
    "local_cloud": "local-cloud/src",
}
"""Source folders by package."""
PUBLISHED = frozenset(PACKAGES) - {"acceptance", "local_cloud"}
"""The packages that users install for their pipelines."""
AREAS = (*PACKAGES, "tests", "benchmarks", "docs", "tools", "examples")
"""Every part of the workspace for which a limit is kept."""


class Module:
    """A Python file of the workspace.

    Attributes:
        path: relative to the root of the workspace.
        area: the package or the top folder that it belongs to.
        name: the dotted name under which it is imported.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.area = area_of(path)
        inside = path.relative_to(PACKAGES[self.area]) if self.area in PACKAGES else path
        parts = inside.with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.in_package = ".".join(self.name.split(".")[1:])
        """The dotted name within the package."""

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def text(self) -> str:
        return (ROOT / self.path).read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree."""
        return tuple(ast.walk(self.tree))


def area_of(path: Path) -> str:
    """Return the package or the part of the workspace that a file belongs to; pages in a package's root are docs."""
    for package, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            return package
    return path.parts[0] if path.suffix == ".py" and path.parts[0] in AREAS else "docs"


@cache
def files() -> tuple[Path, ...]:
    """Return the files under version control and the new ones that are not ignored, sorted."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0")
    return tuple(sorted(Path(name) for name in names if name and (ROOT / name).is_file()))


@cache
def modules() -> tuple[Module, ...]:
    """Return all Python files of the workspace."""
    return tuple(Module(path) for path in files() if path.suffix == ".py")


def product() -> tuple[Module, ...]:
    """Return the modules of all packages."""
    return tuple(module for module in modules() if module.area in PACKAGES)
