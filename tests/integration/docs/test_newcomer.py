"""All commands of the quickstart and of the task pages, in order, in an environment in which nothing is set."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

ROOT = Path(__file__).parents[3]
PAGES = (
    "first-try",
    "getting-started",
    "streams",
    "upsert",
    "replace-daily",
    "partition-and-cluster",
    "columns",
    "backfill",
    "redo-a-day",
    "sqs",
    "secrets",
    "run-a-pipeline",
    "run-anywhere",
    "run-for-ever",
    "monitoring",
    "alerts",
    "clean-up",
)
TESTED = re.compile(r"^( *)<!-- tested -->\n *```(sh|sql)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
RUN_SQL = ROOT / "tests/support/run_sql.py"


def script(page: str) -> str:
    """Return the commands of a page as a script; statements of SQL are sent to BigQuery."""
    blocks = TESTED.findall((ROOT / f"docs/{page}.md").read_text())
    assert blocks, page
    parts = [
        dedent(text) if language == "sh" else f"{sys.executable} {RUN_SQL} <<'SQL'\n{dedent(text)}SQL\n"
        for _, language, text in blocks
    ]
    return "set -e\n" + "".join(parts)


@pytest.mark.timeout(900)
def test_a_newcomer_runs_every_command(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    pipeline = tmp_path / "pipeline"
    shutil.copytree(ROOT / "docs/deploy", pipeline)
    whole = tmp_path / "all.sh"
    lines = ["set -e"]
    for page in PAGES:
        folder = tmp_path / page
        folder.mkdir()
        (folder / "commands.sh").write_text(script(page))
        lines.append(f"echo '== {page} ==' | tee /dev/stderr; cd {folder}; bash commands.sh")
    whole.write_text("\n".join(lines) + "\n")
    tools = Path(sys.executable).parent
    installed = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))  # the local BigQuery, 800 MB
    ran = subprocess.run(
        [tools / "local-cloud", "run", "--seed", "--", "env", "-u", "XDG_CACHE_HOME", "bash", whole],
        cwd=home,
        env={
            "HOME": str(home),
            "PATH": f"{tools}:/usr/bin:/bin",
            "PIPELINE": str(pipeline),
            "XDG_CACHE_HOME": installed,
        },
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-6000:]
    shown = ran.stdout + ran.stderr
    for pattern in (
        r"Loaded weather: 26,115 rows",
        r"Loaded planes: 3,322 rows",
        r"airlines: 16 rows",
        r"replaced",
        r"unique",
        r"equal",
        r"Loaded flights: 1,7\d\d rows",
        r"Loaded orders: 1 row ",
        r"Loaded airlines: 16 rows",
        r"index\.html",
    ):
        assert re.search(pattern, shown), f"{pattern!r} is not in:\n{shown[-6000:]}"
