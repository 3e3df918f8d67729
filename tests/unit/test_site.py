"""The pages of the documentation site link to each other; `make site` checks their anchors too."""

from __future__ import annotations

import importlib.util
import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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
    known |= {f"{place[:-3]}{scheme}.svg" for place in known if place.endswith(".svg") for scheme in ("light", "dark")}
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
    cases = [place for place in site.pages().values() if place.startswith("performance/")]
    assert sorted([*listed(menu), *cases]) == sorted(place for place in site.pages().values() if place.endswith(".md"))
    index = (ROOT / "docs/performance-details.md").read_text()
    assert [place for place in cases if f"({place})" not in index] == []
    assert len(cases) > 40


def listed(menu: list[Any]) -> Iterator[str]:
    """Yield the pages of a menu and of the menus in it."""
    for item in menu:
        inner = item if isinstance(item, str) else next(iter(item.values()))
        yield from [inner] if isinstance(inner, str) else listed(inner)


def test_words_for_the_search_are_of_pages(site: ModuleType) -> None:
    words = tomllib.loads((ROOT / "docs/search_words.toml").read_text())
    assert set(words) <= set(site.pages().values())
    page = site.for_site("columns.md", "# Columns\n", words["columns.md"])
    assert page.startswith('---\ntags: ["rename", "mask", ')
    assert page.endswith("]\n---\n# Columns\n")


def test_settings_and_codes_of_errors_have_anchors(site: ModuleType) -> None:
    page = site.for_site(
        "x-settings.md", "### `csv.quote`\n\n`streams[].csv.quote`: string\n\n### `aws`\n\nobject\n", ()
    )
    assert page.startswith('### `csv.quote`<a id="csv.quote"></a><a id="streams[].csv.quote"></a>\n\n`streams')
    assert page.endswith("### `aws`\n\nobject\n")
    table = "| code | cause | remedy |\n|---|---|---|\n| `bad-row` | it is bad | correct it |\n"
    page = site.for_site("errors.md", table, ["error"])
    assert (
        page
        == '---\ntags: ["error", "bad-row"]\n---\n## `bad-row`\n\n**Cause**: it is bad.\n\n**Remedy**: correct it.\n\n'
    )


def test_the_page_of_errors_has_a_section_for_each_code(site: ModuleType) -> None:
    page = ROOT / "docs/errors.md"
    text = site.for_site("errors.md", page.read_text(), ())
    assert len(re.findall(r"^## `[a-z-]+`$", text, re.MULTILINE)) > 30
    assert "| code |" not in text


def test_the_start_page_has_the_head_of_the_site(site: ModuleType) -> None:
    readme = ROOT / "README.md"
    page = site.for_site("index.md", site.with_links(readme, site.pages()), ())
    head, _, rest = page.partition("\n</div>\n")
    assert '<div class="hero" markdown>' in head
    assert "**No real warehouse has run this suite yet.**" in head
    assert 'src="pictures/first-load.svg"' in rest
    assert set(re.findall(r'(?:src|srcset)="([^"]+)"|!\[[^]]*\]\(([^)]+)\)', page)) == {
        ("pictures/first-load-narrow.svg", ""),
        ("pictures/first-load-still.svg", ""),
        ("pictures/first-load.svg", ""),
        ("", "pictures/mark.svg"),
        ("", "pictures/pipeline.light.svg#only-light"),
        ("", "pictures/pipeline.dark.svg#only-dark"),
    }
    assert {f"pictures/first-load{kind}.svg" for kind in ("", "-narrow", "-still")} <= set(site.pages().values())


def test_pictures_follow_the_scheme_of_the_site(site: ModuleType, tmp_path: Path) -> None:
    page, drawn, plain = tmp_path / "a.md", tmp_path / "p/one.svg", tmp_path / "p/two.svg"
    drawn.parent.mkdir()
    drawn.write_text(
        "<svg><style>.a{fill:#fff}@media (prefers-color-scheme: dark) {\n .a{fill:#000} .b{}\n}</style></svg>"
    )
    plain.write_text("<svg/>")
    page.write_text("![One](p/one.svg) ![Two](p/two.svg) [one](p/one.svg)")
    places = {page: "a.md", drawn: "p/one.svg", plain: "p/two.svg"}
    assert site.with_links(page, places) == (
        "![One](p/one.light.svg#only-light) ![One](p/one.dark.svg#only-dark) ![Two](p/two.svg) [one](p/one.svg)"
    )
    light, dark = (site.DARK.sub(rules, drawn.read_text()) for rules in ("", r"\1"))
    assert light == "<svg><style>.a{fill:#fff}</style></svg>"
    assert re.sub(r"\s", "", dark) == "<svg><style>.a{fill:#fff}.a{fill:#000}.b{}</style></svg>"


def test_each_picture_with_two_schemes_has_rules_for_both(site: ModuleType) -> None:
    pictures = [path for path in site.pages() if path.suffix == ".svg" and "prefers-color-scheme" in path.read_text()]
    assert len(pictures) > 50
    for path in pictures:
        (rules,) = site.DARK.findall(path.read_text())
        assert rules.count("{") >= 5, path
        assert "@media" not in site.DARK.sub("", path.read_text()), path
