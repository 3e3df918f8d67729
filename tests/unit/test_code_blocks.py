"""Each code block of the documentation is run by a test, or has the reason why it is not.

A fenced block with a language follows one of these comments:

    <!-- tested -->                   run as it is: by the newcomer's script, or by the tests of documented commands
    <!-- tested by tests/x.py -->     by this test, which names the page
    <!-- tested: NAME -->             by a test that looks for the comment
    <!-- policy: NAME -->             by the tests of policies
    <!-- not run: REASON -->

Settings, in JSON or YAML, are parsed here and need no comment. Blocks without a language are pictures and output.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("docs/*.md")) + [
    path for path in (ROOT / "README.md", *ROOT.glob("*/README.md")) if ".venv" not in path.parts
]
FENCE = re.compile(r"^ *```(\w*)(.*)$")
MARK = re.compile(r"<!-- (tested|tested by (?P<test>\S+)|tested: .+|policy: .+|not run: (?P<reason>.+)) -->$")
RUN_AS_THEY_ARE = (
    "test_newcomer.py",
    "test_documented_commands.py",
    "test_documented_guides.py",
    "../pipelines/test_meltano.py",
)


def blocks(page: Path) -> list[tuple[int, str, str, str]]:
    """Return line, language, preceding line and text of each fenced block."""
    found, lines, start = [], page.read_text().splitlines(), -1
    for number, line in enumerate(lines):
        if not (fence := FENCE.match(line)):
            continue
        if start < 0:
            start, language = number, fence[1]
        else:
            before = lines[start - 1].strip() if start else ""
            found.append((start + 1, language, before, "\n".join(lines[start + 1 : number])))
            start = -1
    return found


def source_of(name: str) -> str:
    """Return the source of the tests that run all blocks marked as tested of the pages that they name."""
    return (ROOT / "tests/integration/docs" / name).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_block_is_run_or_has_a_reason(page: Path) -> None:
    place = str(page.relative_to(ROOT))
    wrong = []
    for line, language, before, _ in blocks(page):
        if not language or (language in {"json", "yaml"} and not before.startswith("<!--")):
            continue
        mark = MARK.match(before)
        if mark is None:
            wrong.append(f"{place}:{line}: neither tested nor `not run`")
        elif mark["test"]:
            test = ROOT / mark["test"]
            if not test.exists() or (place not in test.read_text()):
                wrong.append(f"{place}:{line}: {mark['test']} does not name the page")
        elif mark[1] == "tested" and not any(
            re.search(rf'"{name}"|/{place}"', source_of(test))
            for test in RUN_AS_THEY_ARE
            for name in (re.escape(place), re.escape(page.stem))
        ):
            wrong.append(f"{place}:{line}: no test runs the blocks of this page")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_are_parsed(page: Path) -> None:
    for line, language, _, text in blocks(page):
        if language in {"json", "yaml"}:
            try:
                if language == "yaml":
                    yaml.safe_load(text)
                else:
                    json.loads(text if text.lstrip().startswith(("{", "[")) else f"{{{text}}}")
            except (ValueError, yaml.YAMLError) as error:
                pytest.fail(f"{page.name}:{line}: {error}")


def test_marks_are_read(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("One.\n\n<!-- not run: needs an account -->\n```sh\nls\n```\n\n  ```json\n  {}\n  ```\n")
    (line, language, before, text), other = blocks(page)
    assert (line, language, text) == (4, "sh", "ls")
    assert (match := MARK.match(before)) is not None
    assert match["reason"] == "needs an account"
    assert other == (8, "json", "", "  {}")
    assert MARK.match("<!-- not run: -->") is None
