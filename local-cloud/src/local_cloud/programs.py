"""Programs run as a user runs them: real processes, with the environment of the local cloud."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Option = str | Path | Mapping[str, Any] | bool


@dataclass(frozen=True)
class Ran:
    """The result of a program: exit code and output."""

    code: int
    stdout: str
    stderr: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Return its standard output as Singer messages, and fail if a line is not JSON."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def of_type(self, *types: str) -> list[dict[str, Any]]:
        """Return the messages of some types: SCHEMA, RECORD, BATCH, STATE, ACTIVATE_VERSION."""
        return [message for message in self.messages if message["type"] in types]

    def check(self) -> "Ran":
        """Return this result if the exit code is 0, else raise an AssertionError with the program's output."""
        assert self.code == 0, f"exit code {self.code}\n{self.stderr[-8000:]}"
        return self


class Programs:
    """The executables beside this Python, run with the environment `env` and with settings as dictionaries.

    `programs("tap-s3-files", config={...}, state={...}, discover=True)` runs
    `tap-s3-files --config FILE --state FILE --discover`: a mapping is written to a file in `folder` and its path is
    passed; True is a flag; the values of a list are passed one after the other (`config=["ENV", {...}]`).
    """

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        binaries = Path(sys.executable).parent
        self.env = dict(env) | {"PATH": f"{binaries}:{env.get('PATH', '/usr/bin:/bin')}"}
        self._binaries = binaries
        self._folder = folder

    def command(self, program: str, *arguments: str | Path, **options: Option | list[Option]) -> list[str]:
        """Return the command line of a program with its options."""
        beside = self._binaries / program
        line = [str(beside if beside.exists() else program), *map(str, arguments)]
        for name, given in options.items():
            values = given if isinstance(given, list) else [given]
            for value in values:
                if value is True:
                    line.append(f"--{name}")
                elif value is not False and value is not None:
                    line += [f"--{name}", self._text(name, value)]
        return line

    def __call__(
        self,
        program: str,
        *arguments: str | Path,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,  # in addition to the usual ones
        timeout: float = 120.0,
        **options: Option | list[Option],
    ) -> Ran:
        """Run a program to its end; after `timeout` seconds kill it and raise subprocess.TimeoutExpired."""
        ran = subprocess.run(
            self.command(program, *arguments, **options),
            input=(stdin.encode() if isinstance(stdin, str) else stdin) or b"",
            capture_output=True,
            env=self.env | dict(env or {}),
            timeout=timeout,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode(errors="replace"))

    def start(
        self,
        program: str,
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        **options: Option | list[Option],
    ) -> subprocess.Popen[bytes]:
        """Start a program with pipes for its three streams and return without waiting for it."""
        return subprocess.Popen(
            self.command(program, *arguments, **options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.env | dict(env or {}),
        )

    def _text(self, name: str, value: Option) -> str:
        if not isinstance(value, Mapping):
            return str(value)
        with tempfile.NamedTemporaryFile(
            "w", prefix=f"{name}-", suffix=".json", dir=self._folder, delete=False
        ) as file:
            json.dump(value, file)
        return file.name
