"""Generated documentation is up to date; `make docs` writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    "script",
    [
        "api_page.py",
        "comparison_sources.py",
        "meltano_plugins.py",
        "pictures.py",
        "redshift_sql.py",
        "settings_tables.py",
        "type_tables.py",
    ],
)
def test_is_up_to_date(script: str) -> None:
    ran = subprocess.run([sys.executable, DOCS / script, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_figures_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` writes page, charts and the README's table from benchmarks/results."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import page

    texts = page.files(ROOT, page.RESULTS)
    assert page.stale(ROOT, texts) == []


def test_meltano_gets_the_same_plugins_from_the_project_and_from_definitions() -> None:
    project = yaml.safe_load((ROOT / "meltano.yml").read_text())["plugins"]
    for kind, plugins in project.items():
        for plugin in plugins:
            definition = yaml.safe_load((ROOT / "plugins" / kind / f"{plugin['name']}.yml").read_text())
            assert definition.pop("variant") == "singer-arrow"
            extra = "[excel]" if plugin["name"] == "tap-s3-files" else ""
            assert definition.pop("pip_url") == f"singer-arrow-{plugin['name']}{extra}"
            settings = {setting["name"] for setting in plugin["settings"]}
            assert settings.issuperset(name for group in definition.pop("settings_group_validation") for name in group)
            assert definition == plugin
