"""Peers are installed once, from their pins, into working environments."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from benchmarks import peers
from benchmarks.harness import BenchmarkError
from benchmarks.peers import PEERS, Peer

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write pins of a peer that is a local wheel, and of one that does not exist; no package index is used."""
    folder = tmp_path / "pins"
    folder.mkdir()
    wheel = folder / "tiny_peer-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("tiny_peer.py", "def main(): print('it runs')\n")
        info = "tiny_peer-1.2.dist-info"
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-peer\nVersion: 1.2\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/entry_points.txt", "[console_scripts]\ntiny = tiny_peer:main\n")
        file.writestr(f"{info}/RECORD", "")
    (folder / "tiny.txt").write_text(f"--no-index\n--find-links {folder}\ntiny-peer==1.2\n")
    (folder / "nowhere.txt").write_text("--no-index\nno-such-peer==1\n")
    monkeypatch.setattr(peers, "PEERS", {"tiny": Peer("tiny-peer", PYTHON), "nowhere": Peer("no-such-peer", PYTHON)})
    return folder


def test_a_peer_is_installed_once_and_runs(pins: Path, tmp_path: Path) -> None:
    logged: list[str] = []
    for _ in range(2):
        installed = peers.install("tiny", tmp_path / "peers", logged.append, pins=pins)
        ran = subprocess.run([installed.bin / "tiny"], capture_output=True, text=True, check=True)
        assert ran.stdout == "it runs\n"

    assert installed.title == f"tiny 1.2, Python {PYTHON}"
    assert logged == [f"installing tiny 1.2, Python {PYTHON} (once)"]
    assert len(list((tmp_path / "peers").iterdir())) == 1


def test_other_tools_are_installed_in_the_same_way(pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"tiny": peers.PEERS["tiny"]}
    monkeypatch.setattr(peers, "PEERS", {})

    installed = peers.install("tiny", tmp_path / "others", lambda _: None, pins=pins, peers=other)

    assert (installed.bin / "tiny").exists()


def test_a_peer_that_cannot_be_installed_is_one_line_and_leaves_nothing(pins: Path, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"^nowhere cannot be installed: .*no-such-peer") as raised:
        peers.install("nowhere", tmp_path / "peers", lambda _: None, pins=pins)

    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "peers").glob("*"))


def test_every_peer_has_pins() -> None:
    for name, peer in PEERS.items():
        lines = (peers.PINS / f"{name}.txt").read_text().splitlines()
        assert lines
        assert any(line.startswith(peer.package) for line in lines)
        assert all("==" in line or " @ git+" in line for line in lines)
    assert {path.stem for path in peers.PINS.iterdir()} == set(PEERS)
