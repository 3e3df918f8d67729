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
ARROW_SUFFIX = "-arrow"
"""End of the names of environments with the SDK of `ARROW_OVERRIDE`."""
ARROW_OVERRIDE = Path(__file__).parent / "pins" / "arrow-override.in"
"""The version of the SDK in those environments: the first with an encoder of Arrow files, a pre-release."""


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
        package = known[name].package
        requirements = [package, *also["all"], *also.get(package, [])]
        python = find_python(known[name].python, purpose=name)
        uv = find_uv() or "uv"
        command = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", python]
        if name.endswith(ARROW_SUFFIX):
            command += ["--override", str(ARROW_OVERRIDE)]
        ran = subprocess.run(
            [*command, "-"],
            input="\n".join(requirements),
            env={"UV_SYSTEM_CERTS": "1"} | os.environ,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        (PINS / f"{name}.txt").write_text(ran.stdout)
