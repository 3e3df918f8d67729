"""Pipes in the documentation fail when the tap fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [p for p in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")) if ".venv" not in p.parts]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_pipe_into_a_target_has_pipefail(page: Path) -> None:
    pipes = [block for block in BLOCK.findall(page.read_text()) if "| target-" in block]
    assert [block for block in pipes if "pipefail" not in block] == []
