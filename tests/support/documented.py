"""Commands and settings in the documentation."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from textwrap import dedent

from local_cloud.programs import Programs

ROOT = Path(__file__).parents[2]


def block(text: str, language: str, *, after: str = "") -> str:
    """Return the first fenced block of a language after some text."""
    found = re.search(rf"^ *```{language}\n(.*?)^ *```", text[text.index(after) :], re.MULTILINE | re.DOTALL)
    assert found is not None
    return dedent(found[1])


def run_script(script: str, run: Programs, folder: Path) -> str:
    """Run a script in a folder, fail unless it succeeds, and return what it prints."""
    ran = subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=run.env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout
