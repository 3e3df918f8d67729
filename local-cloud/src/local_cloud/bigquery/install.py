"""The child process that installs: `python -m local_cloud.bigquery.install PYTHON DIRECTORY ENVIRONMENT REQUIREMENTS`.

It is a separate process so that no installer continues to write after local-cloud is killed. It reports ready when the
environment is complete. When its parent ends, it removes DIRECTORY, which contains the incomplete environment.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree
from local_cloud.pythons import find_uv

# These imports must succeed. They also compile what the server needs, in a fraction of the time for all packages.
CHECK = "import duckdb, fastavro, polars, pyarrow.parquet, sqlglot, uvicorn, grpc; import local_bigquery.app"
PACKAGE = "local-bigquery"
"""The only package that declares a newer Python than it needs, 3.13. It is installed apart from the others."""


def steps(base: str, target: Path, requirements: Path) -> Iterator[list[str]]:
    """Return the commands that create an environment, with uv if it is installed, else with venv and pip."""
    python = str(target / "bin" / "python")
    lines = requirements.read_text().splitlines()
    others = target.parent / "requirements.txt"
    others.write_text("\n".join(line for line in lines if not line.startswith(f"{PACKAGE}==")))
    package = [line for line in lines if line.startswith(f"{PACKAGE}==")]
    if uv := find_uv():
        yield [uv, "venv", "--quiet", "--no-project", "--python", base, str(target)]
        install = [uv, "pip", "install", "--quiet", "--no-deps", "--python", python]
        yield [*install, "--requirement", str(others)]
        yield [*install, "--python-version", "3.13", *package]
    else:
        yield [base, "-m", "venv", str(target)]
        install = [python, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--disable-pip-version-check"]
        yield [*install, "--requirement", str(others)]
        yield [*install, "--ignore-requires-python", *package]
    if sys.version_info < (3, 12):
        yield [python, "-I", str(Path(__file__).with_name("older_python.py"))]
    yield [python, "-I", "-c", CHECK]


def main() -> None:
    """Create the environment and report ready."""
    ready = Ready()
    base, directory, target, requirements = sys.argv[1], *map(Path, sys.argv[2:])
    running: list[subprocess.Popen[bytes]] = []

    def last_act() -> None:
        for process in running:
            process.kill()
            process.wait()
        remove_tree(directory)

    end_with_parent(last_act)
    for command in steps(base, target, requirements):
        running[:] = [subprocess.Popen(command, env=os.environ | {"UV_SYSTEM_CERTS": "1"}, stdin=subprocess.DEVNULL)]
        if code := running[0].wait():
            sys.stderr.write(f"{' '.join(command)} ended with {code}\n")
            sys.exit(1)
    target.rename(target.parent.parent / target.name)
    ready.report({})
    sys.exit(0)


if __name__ == "__main__":
    main()
