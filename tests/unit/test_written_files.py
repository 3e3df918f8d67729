"""What is written from the connectors' own words is up to date; `make docs` writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("script", ["meltano_plugins.py", "redshift_sql.py", "settings_tables.py", "type_tables.py"])
def test_is_up_to_date(script: str) -> None:
    ran = subprocess.run([sys.executable, DOCS / script, "--check"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
