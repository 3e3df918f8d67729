"""The pages of the documentation site link to each other; `make site` checks their anchors too."""

from __future__ import annotations

import importlib.util
import posixpath
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    """Return docs/site.py, whose name is also that of a module of the standard library."""
    spec = importlib.util.spec_from_file_location("docs_site", ROOT / "docs/site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_lead_to_pages_of_the_site(site: ModuleType) -> None:
    places = site.pages()
    known, links = set(places.values()), 0
    for page, place in places.items():
        if page.suffix != ".md":
            continue
        for _, _, link in site.LINK.findall(site.FENCED.sub("", site.with_links(page, places))):
            path = link.partition("#")[0]
            if path and "://" not in link:
                links += 1
                assert posixpath.normpath(posixpath.join(posixpath.dirname(place), path)) in known, f"{place}: {link}"
    assert links > 100


def test_a_link_to_source_becomes_text(site: ModuleType, tmp_path: Path) -> None:
    page, other = tmp_path / "a.md", tmp_path / "b" / "README.md"
    page.write_text("[one](b/README.md#x) [two](src/two.py)\n```\n[three](src/two.py)\n```\n")
    moved = site.with_links(page, {page: "docs/a.md", other: "b.md"})
    assert moved == "[one](../b.md#x) two\n```\n[three](src/two.py)\n```\n"


def test_a_comment_becomes_the_file_that_it_names(site: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("One.\n\n<!-- file: b.yaml -->\n\nTwo.\n")
    (tmp_path / "b.yaml").write_text("key: [x](y)\n")
    assert site.with_links(page, {page: "a.md"}) == 'One.\n\n```yaml title="b.yaml"\nkey: [x](y)\n```\n\n\nTwo.\n'


def test_each_page_is_in_the_menu(site: ModuleType) -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    menu = yaml.safe_load(text[text.index("\nnav:\n") :])["nav"]
    listed = [
        item if isinstance(item, str) else next(iter(item.values()))
        for part in menu
        for item in next(iter(part.values()))
    ]
    cases = [place for place in site.pages().values() if place.startswith("performance/")]
    assert sorted(listed + cases) == sorted(place for place in site.pages().values() if place.endswith(".md"))
    index = (ROOT / "docs/performance-details.md").read_text()
    assert [place for place in cases if f"({place})" not in index] == []
    assert len(cases) > 40
