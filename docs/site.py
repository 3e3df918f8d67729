"""Gather the pages of the documentation site in build/site-pages, with links between them that lead there.

Pages stay where GitHub shows them: READMEs beside their packages, the rest in docs/. A link to a file that is no page,
such as a module, becomes plain text: the site has no place for it. Files of docs/deploy are shown in place of comments
such as `<!-- file: deploy/pipeline.yml -->`.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build/site-pages"
PACKAGES = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift", "singer-arrow", "local-cloud")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".py": "python", ".sh": "sh"}
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def main() -> None:
    """Write the pages."""
    shutil.rmtree(SITE, ignore_errors=True)
    places = pages()
    for source, place in places.items():
        target = SITE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(with_links(source, places))
        else:
            shutil.copyfile(source, target)


def pages() -> dict[Path, str]:
    """Return the place in the site of each page, image and file that pages link to."""
    docs = ROOT / "docs"
    found = {ROOT / "README.md": "index.md", ROOT / "LICENSE": "LICENSE"}
    found |= {
        ROOT / f"{name}.md": f"project/{name.lower()}.md"
        for name in ("CHANGELOG", "CONTRIBUTING", "ARCHITECTURE", "SECURITY")
    }
    found |= {ROOT / package / "README.md": f"{package}.md" for package in PACKAGES}
    found |= {
        path: path.name for pattern in ("*.md", "*.yml", "*.yaml", "*.json", "*.css") for path in docs.glob(pattern)
    }
    found |= {path: f"{name}/{path.name}" for name in ("images", "performance") for path in (docs / name).iterdir()}
    found |= {path: f"schemas/{path.name}" for path in (docs / "schemas").glob("*.json")}
    found |= {path: f"deploy/{path.name}" for path in (docs / "deploy").iterdir() if path.is_file()}
    return {path: place for path, place in found.items() if path.exists()}


def with_files(page: Path) -> str:
    """Return the text of a page with the files that its comments name."""

    def shown(match: re.Match[str]) -> str:
        file = page.parent / match[1]
        return f'```{LANGUAGES.get(file.suffix, "sh")} title="{file.name}"\n{file.read_text()}```\n'

    return SHOWN.sub(shown, page.read_text())


def with_links(page: Path, places: dict[Path, str]) -> str:
    """Return the text of a page with its links as they are in the site."""

    def moved(match: re.Match[str]) -> str:
        image, text, link = match.groups()
        path, mark, anchor = link.partition("#")
        if not path or re.match(r"[a-z]+:", link):
            return match[0]
        target = (page.parent / path).resolve()
        if target not in places:
            return text
        place = os.path.relpath(places[target], Path(places[page]).parent)
        return f"{image}[{text}]({place}{mark}{anchor})"

    text, parts, end = with_files(page), [], 0
    for fenced in [*FENCED.finditer(text), None]:
        parts.append(LINK.sub(moved, text[end : fenced.start() if fenced else None]))
        if fenced:
            parts.append(fenced[0])
            end = fenced.end()
    return "".join(parts)


if __name__ == "__main__":
    main()
