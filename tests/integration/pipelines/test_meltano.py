"""Meltano in an empty folder installs the connectors from their wheels and runs them, as docs/meltano.md shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("singer-arrow", "tap-s3-files", "target-bigquery", "target-redshift")
COMMANDS = re.compile(r"^<!-- tested -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.soak
def test_the_commands_of_the_page_run_as_they_are(tmp_path: Path) -> None:
    uv = shutil.which("uv") or ROOT / ".uv/bin/uv"
    for package in PACKAGES:
        subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", ROOT / package], check=True)
    script = tmp_path / "commands.sh"
    script.write_text("set -ex\n" + "".join(COMMANDS.findall((ROOT / "docs/meltano.md").read_text())))
    tools = Path(sys.executable).parent
    variables = {
        "PATH": f"{tools}:{Path(uv).parent}:{os.environ['PATH']}",
        "PLUGINS": str(ROOT / "plugins"),
        "UV_FIND_LINKS": str(tmp_path / "dist"),
        "PIP_FIND_LINKS": str(tmp_path / "dist"),
    }
    ran = subprocess.run(
        [tools / "local-cloud", "run", "--service", "s3,bigquery,redshift", "--seed", "--", "bash", script],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    loads = re.findall(r"Loaded airports: ([\d,]+) rows", ran.stdout + ran.stderr)
    assert loads == ["1,458", "0", "1,458", "0"], loads
    assert '"watermark"' in ran.stdout
