"""Links between the pages of this repository lead to files and headings that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
NAMED = re.compile(r'<a id="([^"]+)"></a>')
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def pages() -> list[str]:
    """Return the Markdown files under version control."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if (ROOT / name).exists()]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and those that it names itself."""
    found: set[str] = set(NAMED.findall(page.read_text()))
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while (unique := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(unique)
    return found


@pytest.mark.parametrize("name", pages())
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    broken = []
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_an_anchor_follows_the_heading(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    headings = "# One, two: `_three`\n\n```\n# no heading\n```\n## A [link](x.md)\n## A link\n"
    page.write_text(f'{headings}| <a id="b-c"></a>`b` |\n')
    assert anchors(page) == {"one-two-_three", "a-link", "a-link-1", "b-c"}
