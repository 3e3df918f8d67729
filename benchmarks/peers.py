"""The tools that cases compare with, each in an environment of its own below `data/peers`.

What is installed is listed in `pins/<name>.txt`, down to the last dependency, so that a comparison can be repeated. An
environment is made on first use and kept; a change of the pins makes another one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import BenchmarkError
from local_cloud.errors import LocalCloudError
from local_cloud.pythons import find_python, find_uv

PINS = Path(__file__).parent / "pins"
LONGEST = 300
"""Characters of an installer's error that are shown."""


@dataclass(frozen=True)
class Peer:
    """A tool to compare with.

    Attributes:
        package: the one among the pins whose version is the peer's.
        python: the minor version that it needs.
    """

    package: str
    python: str


PEERS: Mapping[str, Peer] = {
    "airbyte-source-s3": Peer("airbyte-source-s3", "3.11"),
    "dlt": Peer("dlt", "3.13"),
    "duckdb": Peer("duckdb", "3.13"),
    "meltanolabs-tap-postgres": Peer("meltanolabs-tap-postgres", "3.13"),
    "pipelinewise-tap-s3-csv": Peer("pipelinewise-tap-s3-csv", "3.11"),
    "py-spy": Peer("py-spy", "3.13"),
    "tap-universal-file": Peer("tap-universal-file", "3.11"),
}


@dataclass(frozen=True)
class Installed:
    """A peer that is ready to run.

    Attributes:
        bin: the folder of its executables.
        title: its name with its version and Python's, for tables.
    """

    bin: Path
    title: str


def install(
    name: str, folder: Path, log: Callable[[str], None], *, pins: Path = PINS, peers: Mapping[str, Peer] | None = None
) -> Installed:
    """The environment of a peer below a folder, made if it is not there.

    Args:
        name: one of the peers.
        folder: holds the environments.
        log: takes a line about what is installed.
        pins: the folder with the pins of each peer.
        peers: what can be installed; `PEERS` by default.

    Raises:
        BenchmarkError: it cannot be installed; one line with the reason.
    """
    peer = (PEERS if peers is None else peers)[name]
    requirements = pins / f"{name}.txt"
    key = hashlib.sha256(requirements.read_bytes() + peer.python.encode()).hexdigest()[:12]
    made = folder / f"{name}-{key}"
    title = f"{name} {_version(peer.package, requirements)}, Python {peer.python}"
    if not made.exists():
        log(f"installing {title} (once)")
        for old in folder.glob(f"{name}-*"):
            shutil.rmtree(old)
        try:
            _install(made, peer, requirements)
        except BenchmarkError as error:
            shutil.rmtree(made, ignore_errors=True)
            raise BenchmarkError(f"{name} cannot be installed: {error}") from None
    return Installed(made / "bin", title)


def _install(target: Path, peer: Peer, requirements: Path) -> None:
    """Make an environment in place, for its executables name it; what fails is removed by the caller."""
    if not (uv := find_uv()):
        raise BenchmarkError("uv was not found beside this Python or on PATH")
    try:
        python = find_python(peer.python, purpose=peer.package)
    except LocalCloudError as error:
        raise BenchmarkError(str(error)) from None
    _run([uv, "venv", "--quiet", "--no-project", "--python", python, str(target)])
    # Compiled here, for slow peers run once: no warm-up would do it for them. The pins are complete, and some replace a
    # version that a package declares.
    into = ["--compile-bytecode", "--no-deps", "--python", str(target / "bin" / "python")]
    _run([uv, "pip", "install", "--quiet", *into, "--requirements", str(requirements)])


def _run(command: list[str]) -> None:
    env = {"UV_SYSTEM_CERTS": "1"} | os.environ
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        lines = [line.strip() for line in ran.stderr.splitlines() if not line.lstrip().startswith("hint:")]
        message = " ".join(" ".join(lines).split()) or f"exit code {ran.returncode}"
        # The cause is at the end of uv's output.
        raise BenchmarkError(message if len(message) <= LONGEST else f"... {message[-LONGEST:]}")


def _version(package: str, requirements: Path) -> str:
    for line in requirements.read_text().splitlines():
        name, mark, version = line.partition("==")
        if mark and name == package:
            return version
        name, mark, place = line.partition(" @ ")
        if mark and name.partition("[")[0] == package:
            return place.rpartition("@")[2][:8]
    raise BenchmarkError(f"{requirements.name} does not pin {package}")
