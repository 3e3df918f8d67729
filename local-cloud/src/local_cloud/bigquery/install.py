"""The child process that installs: `python -m local_cloud.bigquery.install PYTHON DIRECTORY ENVIRONMENT REQUIREMENTS`.

A process of its own, so that an installer does not go on writing when local-cloud is killed. It says that it is ready
when the environment is complete, and removes DIRECTORY, which holds it until then, when it is not wanted any more.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree
from local_cloud.pythons import find_uv

# What must work; importing it also compiles it.
CHECK = "import duckdb, fastavro, polars, pyarrow.parquet, sqlglot, uvicorn, grpc"


def steps(base: str, target: Path, requirements: Path) -> Iterator[list[str]]:
    """The commands that make an environment, with uv if it is there, else with venv and pip."""
    python = str(target / "bin" / "python")
    if uv := find_uv():
        yield [uv, "venv", "--quiet", "--no-project", "--python", base, str(target)]
        yield [uv, "pip", "install", "--quiet", "--no-deps", "--compile-bytecode",
               "--python", python, "--requirement", str(requirements)]  # fmt: skip
    else:
        yield [base, "-m", "venv", str(target)]
        yield [python, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps",
               "--disable-pip-version-check", "--requirement", str(requirements)]  # fmt: skip
    yield [python, "-c", CHECK]


def main() -> None:
    """Make the environment and say so."""
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
    ready.say({})
    sys.exit(0)


if __name__ == "__main__":
    main()
