"""The installation folder of the local BigQuery, and the error when it cannot be installed."""

import sys
from pathlib import Path

import pytest

from local_cloud import LocalCloudError
from local_cloud.bigquery import installation
from local_cloud.pythons import find_python


@pytest.fixture
def nothing_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulate a machine without uv, pyenv, and programs on PATH."""
    for name in ("HOME", "PATH", "PYENV_ROOT", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))


def test_the_running_python_will_do() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_python(version, purpose="this test") == sys.executable


@pytest.mark.usefixtures("nothing_found")
def test_a_python_that_is_not_installed() -> None:
    with pytest.raises(LocalCloudError, match=r"this test needs Python 3\.99, and none was found .*uv python install"):
        find_python("3.99", purpose="this test")


@pytest.mark.usefixtures("nothing_found")
def test_packages_that_cannot_be_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("no such requirement ===\n")
    monkeypatch.setattr(installation, "REQUIREMENTS", wrong)
    with pytest.raises(LocalCloudError, match="(?s)local BigQuery installation ended at once .*no such requirement"):
        installation.ensure()
    assert [path.suffix for path in (tmp_path / "local-cloud").iterdir()] == [".lock"]


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert installation.cache_dir() == tmp_path / ".cache" / "local-cloud"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert installation.cache_dir() == tmp_path / "cache" / "local-cloud"


def test_another_pin_is_another_installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = installation.key()
    assert installation.key() == before
    changed = tmp_path / "requirements.txt"
    changed.write_text(installation.REQUIREMENTS.read_text() + "more==1\n")
    monkeypatch.setattr(installation, "REQUIREMENTS", changed)
    assert installation.key() != before


def test_another_python_is_another_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    before = installation.key()
    monkeypatch.setattr(installation, "PYTHON", "3.99")
    assert installation.key() != before
