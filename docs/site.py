"""Gather the pages of the documentation site in build/site-pages, with links between them that lead there.

Pages stay where GitHub shows them: READMEs beside their packages, the rest in docs/. A link to a file that is no page,
such as a module, becomes plain text: the site has no place for it. Files of docs/deploy are shown in place of comments
such as `<!-- file: deploy/pipeline.yml -->`. Words of docs/search_words.toml become tags, which the search of the site
counts first; settings and codes of errors get anchors with their own names. Of a picture with colours for dark screens
the site has a light and a dark one, and shows that of the scheme that its reader has chosen.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build/site-pages"
PACKAGES = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift", "singer-arrow", "local-cloud")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".py": "python", ".sh": "sh"}
DARK = re.compile(r"@media ?\(prefers-color-scheme: ?dark\) ?\{((?:[^{}]*\{[^{}]*\})*)\s*\}")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


SETTING = re.compile(r"^### `([^`]+)`$(?=\n\n(?:`([^`]+)`: )?)", re.MULTILINE)
CODE = re.compile(r"^\| (?:<a id=\S+></a>)?`([a-z-]+)` \| (.+?)\.? \| (.+?)\.? \|$", re.MULTILINE)
CODES_HEAD = re.compile(r"^\| code \|.*\n\|[-| ]+\|\n", re.MULTILINE)
START = """---
hide: [navigation, toc]
---
<div class="hero" markdown>
![](pictures/mark.svg)

{head}

[Quickstart](first-try.md){{ .md-button .md-button--primary }}
[Load a folder](getting-started.md){{ .md-button }}
[Something else?](instead-of.md){{ .md-button }}
</div>
"""


def main() -> None:
    """Write the pages, and print the release that they are of."""
    shutil.rmtree(SITE, ignore_errors=True)
    places = pages()
    words = tomllib.loads((ROOT / "docs/search_words.toml").read_text())
    for source, place in places.items():
        target = SITE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(for_site(place, with_links(source, places), words.get(place, ())))
            continue
        shutil.copyfile(source, target)
        if source.suffix == ".svg" and DARK.search(drawn := source.read_text()):
            for scheme, rules in (("light", ""), ("dark", r"\1")):
                target.with_suffix(f".{scheme}.svg").write_text(DARK.sub(rules, drawn))
    sys.stdout.write(f"Version {version('singer-arrow').partition('+')[0]}, Apache-2.0\n")


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
        path: path.name for pattern in ("*.md", "*.yml", "*.yaml", "*.json", "site.*s") for path in docs.glob(pattern)
    }
    found |= {path: f"{path.parent.name}/{path.name}" for path in docs.glob("[ip]*s/*.[sp][vn]g")}
    found |= {path: f"performance/{path.name}" for path in (docs / "performance").iterdir()}
    found |= {path: f"schemas/{path.name}" for path in (docs / "schemas").glob("*.json")}
    found |= {path: f"deploy/{path.name}" for path in (docs / "deploy").iterdir() if path.is_file()}
    return {path: place for path, place in found.items() if path.exists()}


def for_site(place: str, text: str, words: Iterable[str]) -> str:
    """Return the text of a page with what the site alone has: the start page's head, anchors, words for its search."""
    if place == "index.md":
        head, picture, rest = text.partition("\n\n<picture>")
        return START.format(head=head) + (picture + rest).replace('="docs/', '="')
    if place.endswith("-settings.md"):
        text = SETTING.sub(_with_anchors, text)
    if place == "errors.md":
        words = [*words, *(code for code, _, _ in CODE.findall(text) if "-" in code)]
        text = CODE.sub(r"## `\1`\n\n**Cause**: \2.\n\n**Remedy**: \3.\n", CODES_HEAD.sub("", text))
    tags = json.dumps(list(words))
    return f"---\ntags: {tags}\n---\n{text}" if words else text


def _with_anchors(match: re.Match[str]) -> str:
    title, path = match.groups()
    names = sorted({title, path or title})
    return f"### `{title}`" + "".join(f'<a id="{name}"></a>' for name in names if re.search(r"\W", name))


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
        if target.suffix == ".svg" and image and DARK.search(target.read_text()):
            shown = (f"![{text}]({place[:-3]}{scheme}.svg#only-{scheme})" for scheme in ("light", "dark"))
            return " ".join(shown)
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
