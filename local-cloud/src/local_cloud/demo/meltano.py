"""Run a pipe by Meltano, as a user does, and collect the connectors' log lines."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TAP = "tap-s3-files"

# Lines of Meltano and the SDK at each start, and metrics, which repeat the connectors' own lines.
_CHATTER = re.compile(r"METRIC|Parsing|Skipping parse|Meltano SDK|Beginning sync|completed processing|state backend")
_SECONDS = re.compile(
    r" (?:Loaded: )?(?P<stream>\w+): .*?(?:seconds=|batch files, )(?P<seconds>[\d.]+)"
)  # of the connectors' last lines
_LINE = re.compile(r"\S+Z \[(?P<level>\w+) *\] (?P<who>[\w-]+) +(?P<said>.*)")


@dataclass(frozen=True)
class Ran:
    """The result of a run.

    Attributes:
        code: Meltano's exit code.
        busy: the connectors' seconds by stream, tap and target together.
    """

    code: int
    busy: dict[str, float]


def run(target: str, options: tuple[str, ...], *, project: Path, batches: str, say: Callable[[str], None]) -> Ran:
    """Run the tap into a target and print its log lines as they arrive.

    Args:
        project: the folder of meltano.yml, where Meltano keeps its STATE.
        batches: folder of this pipe's batch files. Each pipe needs its own, because its plans are kept there too.
    """
    busy: dict[str, float] = {}
    command = ["meltano", "--environment=local", "run", *options, TAP, target]
    own = {"MELTANO_PROJECT_ROOT": str(project), "NO_COLOR": "1", "TAP_S3_FILES_BATCH_CONFIG_STORAGE_ROOT": batches}
    with subprocess.Popen(command, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            found, seconds = _LINE.match(line), _SECONDS.search(line)
            if seconds:
                busy[seconds["stream"]] = busy.get(seconds["stream"], 0) + float(seconds["seconds"])
            if not _CHATTER.search(line):
                say(f"   {found['who']:>15} | {found['said']}" if found else f"   {line.rstrip()}")
    return Ran(process.returncode, busy)
