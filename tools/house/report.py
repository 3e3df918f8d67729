"""The table that `make house` prints."""

from __future__ import annotations

from collections.abc import Iterator

from house import circles, classes, folders, names, pages, private, walks, words
from house.source import PACKAGES

Row = tuple[str, str, str]
"""What is measured, its figure, its goal."""


def rows() -> Iterator[Row]:
    """Return the rows of the table; the walks start the local cloud."""
    sizes = folders.sizes()
    yield "Lines of product, five packages", f"{sizes['product']:,}", "43,000"
    yield "Lines of local-cloud", f"{sizes['local_cloud']:,}", "12,000"
    yield "Python files of product", str(sizes["files"]), "160"
    written = pages.words()
    yield "Words of pages written by hand", f"{sum(written.values()):,}", "32,000"
    yield "Words of one page, most", "{1:,} ({0})".format(*max(written.items(), key=lambda page: page[1])), "1,200"
    yield "One-statement functions", f"{folders.one_statement_share():.1f} %", "22 %"
    yield "Import circles, type-checking imports included", str(len(circles.circles())), "0"
    folder, most = folders.module_counts().most_common(1)[0]
    yield "Modules in one folder, most", f"{most} ({folder.name})", "24"
    yield from _walks()
    found = words.found()
    yield "Lines with excluded words, five packages", str(sum(len(found[area]) for area in PACKAGES)), "0"
    yield "Lines with excluded words, elsewhere", str(sum(len(v) for k, v in found.items() if k not in PACKAGES)), "0"
    yield "Class names with two meanings", str(len(names.ambiguous_classes())), "0"
    yield "Function names with two meanings", str(len(names.ambiguous_functions())), "0"
    yield "Uses of private members in tests", str(sum(map(len, private.uses().values()))), "0"
    yield from _chains()
    yield "Faults of the maps in __init__.py", str(len(folders.map_faults())), "0"


def _walks() -> Iterator[Row]:
    goals = ("108 / 24 / 54 / 14", "108 / 24 / 54 / 14", "90 / 20 / 45 / 12", "40 / 210", "18 / 45", "-")
    for (run, walk), goal in zip(walks.walks().items(), goals, strict=True):
        yield f"{run}: functions / files / changes / depth", " / ".join(map(str, walk)), goal


def _chains() -> Iterator[Row]:
    chains = classes.chains()
    for name, chain in chains.items():
        yield f"Classes of ours in {name}", f"{len(chain)} ({', '.join(kind.__name__ for kind in chain)})", "2"
    kinds = {kind for chain in chains.values() for kind in chain}
    largest = max(kinds, key=classes.methods)
    yield "Methods of one of these classes, most", f"{classes.methods(largest)} ({largest.__name__})", "15"
