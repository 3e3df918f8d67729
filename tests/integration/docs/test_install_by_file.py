"""The documented installation takes our wheels, even where an index has newer packages of the same names."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
OURS = ("singer-arrow", "singer-arrow-tap-s3-files", "singer-arrow-target-bigquery", "singer-arrow-target-redshift")
OTHERS = ("0.1.99", "99.0")
"""Versions of others on the index: one that satisfies what our packages require of each other, and a higher one."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def write_wheel(folder: Path, name: str, version: str, requirements: Sequence[str], extras: Sequence[str] = ()) -> Path:
    """Write a wheel without modules and return its path."""
    module = name.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
    lines += [f"Provides-Extra: {extra}" for extra in extras] + [f"Requires-Dist: {line}" for line in requirements]
    files = {
        "METADATA": "\n".join(lines) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        record = ""
        for file, text in files.items():
            place = f"{module}-{version}.dist-info/{file}"
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += f"{place},sha256={digest},{len(text)}\n"
            archive.writestr(place, text)
        archive.writestr(f"{module}-{version}.dist-info/RECORD", f"{record}{module}-{version}.dist-info/RECORD,,\n")
    return path


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """Return a folder that has `dist/`, with wheels of this version that require only each other."""
    folder = tmp_path / "clone/dist"
    folder.mkdir(parents=True)
    for name in OURS:
        metadata = importlib.metadata.metadata(name)
        requirements = [r for r in metadata.get_all("Requires-Dist") or () if r.startswith("singer-arrow")]
        extras = metadata.get_all("Provides-Extra") or ()
        write_wheel(folder, name, metadata["Version"].partition("+")[0], requirements, extras)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Serve a package index on which somebody else has newer packages of our names; yield its address."""
    folder = tmp_path / "index"
    for name in OURS:
        place = folder / "simple" / name
        place.mkdir(parents=True)
        wheels = [write_wheel(place, name, version, []) for version in OTHERS]
        (place / "index.html").write_text("".join(f'<a href="{wheel.name}">{wheel.name}</a>\n' for wheel in wheels))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
        thread.join()


def installed(command: str, folder: Path, index: str) -> dict[str, str]:
    """Return the versions by name that a `pip install` command of the documentation would install."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    pip = bin_folder / "pip"
    pip.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pip --isolated "$@"\n')
    pip.chmod(0o755)
    report = folder / "report.json"
    options = f"--index-url {index} --target {folder}/never --dry-run --quiet --report {report}"
    line = command.replace("pip install", f"pip install {options}", 1)
    env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    ran = subprocess.run(
        ["bash", "-e", "-c", line], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(report.read_text())["install"]
    return {item["metadata"]["name"]: item["metadata"]["version"] for item in found}


def commands() -> list[str]:
    """Return the commands of README.md that install our wheels."""
    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    return re.findall(r"^pip install .*dist.*$", text, re.MULTILINE)


def test_the_documented_command_takes_our_wheels(dist: Path, index: str) -> None:
    assert commands()
    for number, command in enumerate(commands()):
        folder = dist.parent / f"{number}"
        folder.mkdir()
        shutil.copytree(dist, folder / "dist")
        found = installed(command, folder, index)
        assert len(found) >= 3
        assert not set(found.values()) & set(OTHERS), found


def test_an_installation_by_name_takes_those_of_others(dist: Path, index: str) -> None:
    """The test above would notice: by name, pip prefers the higher version of the index."""
    found = installed("pip install --find-links dist singer-arrow-tap-s3-files", dist.parent, index)
    assert found["singer-arrow-tap-s3-files"] == "99.0"
