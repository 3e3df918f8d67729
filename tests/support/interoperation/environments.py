"""Virtual environments of public taps and targets, below `benchmarks/data`; `pins/` lists their packages."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks import peers
from benchmarks.peers import Installed, Peer

from local_cloud.pythons import find_python, find_uv

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = ROOT / "benchmarks" / "data" / "interoperation"
PINS = Path(__file__).parent / "pins"
ALSO = Path(__file__).parent / "pins" / "also.toml"
"""Undeclared dependencies of some packages."""


def install(known: Mapping[str, Peer], name: str) -> Installed:
    """Return the environment of a package, created on first use.

    Raises:
        BenchmarkError: The package cannot be installed.
    """
    return peers.install(name, ENVIRONMENTS, print, pins=PINS, peers=known)


def versions(name: str) -> dict[str, str]:
    """Return the version of each package in an environment."""
    lines = (PINS / f"{name}.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def library(name: str) -> str:
    """Return name and version of the Singer library that a tap or target uses."""
    found = versions(name)
    for package in ("singer-sdk", "pipelinewise-singer-python", "singer-python"):
        if package in found:
            return f"{package} {found[package]}"
    return "none"


def write_pins(known: Mapping[str, Peer], names: Iterable[str]) -> None:
    """Write the pins of packages: the newest release of each, with all dependencies.

    Raises:
        subprocess.CalledProcessError: The dependencies cannot be resolved; the reason is on standard error.
    """
    also = tomllib.loads(ALSO.read_text())
    for name in names:
        requirements = [known[name].package, *also["all"], *also.get(name, [])]
        python = find_python(known[name].python, purpose=name)
        uv = find_uv() or "uv"
        command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", python]
        ran = subprocess.run(
            [*command, "-"],
            input="\n".join(requirements),
            env={"UV_SYSTEM_CERTS": "1"} | os.environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        (PINS / f"{name}.txt").write_text(ran.stdout)
