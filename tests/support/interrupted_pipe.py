"""Run `tap-... | target-...`, and optionally kill the tap at a given message."""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE
from typing import IO, Any

from local_cloud.programs import Programs


@dataclass(frozen=True)
class Cut:
    """The point at which the tap is killed.

    Args:
        kind: Type of the message.
        number: Number of the message among those of its type, from 1.
        share: The part of its line that reaches the target.
    """

    kind: str
    number: int = 1
    share: float = 1.0


@dataclass(frozen=True)
class Piped:
    """Exit codes and output of both programs.

    Args:
        tap: The tap's exit code.
        target: The target's exit code.
        states: The STATEs that the target wrote.
        log: The target's log.
    """

    tap: int
    target: int
    states: list[dict[str, Any]]
    log: str


def pipe(
    run: Programs,
    tap: dict[str, Any],
    program: str,
    target: dict[str, Any],
    cut: Cut | None = None,
    *,
    tap_program: str = "tap-s3-files",
) -> Piped:
    """Run both programs, and kill the tap if `cut` is set.

    Args:
        run: Runs the programs.
        tap: Options of the tap: config, state, catalog.
        program: The target.
        target: Settings of the target in addition to those of the environment.
        cut: The point at which the tap is killed; None: it is not killed.
        tap_program: The tap.
    """
    with ExitStack() as files:
        tap_log, out, log = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        reader = subprocess.Popen(
            run.command(tap_program, **tap), stdin=DEVNULL, stdout=PIPE, stderr=tap_log, env=run.env
        )
        files.enter_context(reader)
        writer = subprocess.Popen(
            run.command(program, config=["ENV", target]),
            stdin=PIPE if cut else reader.stdout,
            stdout=out,
            stderr=log,
            env=run.env,
        )
        files.enter_context(writer)
        assert reader.stdout is not None
        if cut is not None:
            assert writer.stdin is not None
            _forward(reader, writer.stdin, cut)
        reader.stdout.close()
        codes = reader.wait(120), writer.wait(120)
        out.seek(0)
        log.seek(0)
        return Piped(*codes, [json.loads(line) for line in out], log.read().decode())


def _forward(reader: subprocess.Popen[bytes], target: IO[bytes], cut: Cut) -> None:
    """Copy the tap's output to the target, up to the cut."""
    seen = 0
    assert reader.stdout is not None
    for line in reader.stdout:
        seen += json.loads(line)["type"] == cut.kind
        if seen == cut.number:
            reader.kill()
            target.write(line[: round(len(line) * cut.share)])
            break
        target.write(line)
    target.close()
