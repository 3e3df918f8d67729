"""`make setup`: the Python that it takes, and what it says of a Rust that does not work. uv and cargo are stand-ins."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = """#!/bin/sh
echo "$*" >> "{log}"
case "$1 $2" in
  "python find") for last; do :; done; cat "{found}/$last" 2> /dev/null || exit 2 ;;
  "python install") mkdir -p "{found}"; echo "{python}" > "{found}/3.13" ;;
  "sync "*) mkdir -p .venv/bin; printf '#!/bin/sh\\necho "{found}"\\n' > .venv/bin/python; chmod +x .venv/bin/python ;;
esac
"""
NO_TOOLCHAIN = (
    "error: rustup could not choose a version of cargo to run, because one wasn't specified explicitly, and no default "
    "is configured."
)


@dataclass(frozen=True)
class Machine:
    """A folder with the setup script, a HOME, programs on PATH, and what uv finds."""

    folder: Path

    def program(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def python(self, path: str, *, works: bool = True) -> Path:
        """Put a Python at a path; one that does not work is older, or a shim of a version that is not chosen."""
        return self.program(path, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n' if works else "#!/bin/sh\nexit 1\n")

    def finds(self, version: str, python: Path) -> None:
        """Let uv find a Python for a version."""
        place = self.folder / "found" / version
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"{python}\n")

    def setup(self) -> subprocess.CompletedProcess[str]:
        env = {"HOME": str(self.folder / "home"), "UV": str(self.folder / "bin/uv"), "PATH": f"{self.folder}/bin"}
        return subprocess.run(
            ["bash", str(self.folder / "clone/.ci/setup")], env=env, capture_output=True, text=True, check=False
        )

    @property
    def uv_calls(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()

    def taken(self) -> set[str]:
        """Return the Pythons with which uv was called to install."""
        calls = [call.split() for call in self.uv_calls if call.startswith("sync")]
        return {call[call.index("--python") + 1] for call in calls}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    for name in (".ci/setup", ".python-version"):
        target = tmp_path / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (tmp_path / "clone/singer-arrow-json").mkdir()
    found = tmp_path / "found"
    made.program("bin/uv", UV.format(log=tmp_path / "log", found=found, python=sys.executable))
    for name in (
        "bash",
        "chmod",
        "cat",
        "cmp",
        "cp",
        "cut",
        "dirname",
        "grep",
        "head",
        "id",
        "ln",
        "mkdir",
        "mv",
        "rm",
        "sh",
        "uname",
    ):
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    return made


def test_the_wanted_version_is_taken_before_others(machine: Machine) -> None:
    machine.finds("3.12", machine.python("usr/python3.12"))
    wanted = machine.python("home/.pyenv/versions/3.13.9/bin/python")
    ran = machine.setup()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert machine.taken() == {str(wanted)}


@pytest.mark.parametrize("place", ["home/.pyenv/versions/3.11.7/bin/python", "usr/python3.11"])
def test_another_python_that_is_installed_is_taken_and_none_is_downloaded(machine: Machine, place: str) -> None:
    machine.python("home/.pyenv/versions/3.13.1/bin/python", works=False)
    machine.python("home/.pyenv/versions/3.10.9/bin/python")
    python = machine.python(place)
    if place.startswith("usr"):
        machine.finds(">=3.11", python)
    ran = machine.setup()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert machine.taken() == {str(python)}
    assert not any("install" in call for call in machine.uv_calls)
    assert all("--no-python-downloads" in call for call in machine.uv_calls if call.startswith("python find"))


def test_one_is_downloaded_where_none_fits(machine: Machine) -> None:
    machine.python("home/.pyenv/versions/3.10.9/bin/python")
    ran = machine.setup()
    assert ran.returncode == 0
    assert ran.stderr == "No Python from 3.11 on is installed; downloading 3.13\n"
    assert machine.taken() == {sys.executable}


def test_without_rust_nothing_is_said(machine: Machine) -> None:
    machine.finds("3.13", Path(sys.executable))
    ran = machine.setup()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "cargo" not in ran.stdout


@pytest.mark.parametrize(
    ("errors", "reason"),
    [
        (f"{NO_TOOLCHAIN}\nhelp: run 'rustup default stable'\n", NO_TOOLCHAIN),
        ("warning: x\nerror: linker `cc` not found\n  |\n  = note: No such file\n", "error: linker `cc` not found"),
        ("something else\nand more\n", "something else"),
        ("", "nothing"),
    ],
)
def test_a_cargo_that_fails_is_one_line_and_no_failure(machine: Machine, errors: str, reason: str) -> None:
    machine.finds("3.13", Path(sys.executable))
    (machine.folder / "errors").write_text(errors)
    machine.program("bin/cargo", f'#!/bin/sh\ncat "{machine.folder}/errors" >&2\nexit 101\n')
    ran = machine.setup()
    assert ran.returncode == 0
    lost = "singer-arrow-json is not built, so JSON is read without it, more slowly: cargo says"
    assert ran.stderr == f"{lost} {reason}\n"
