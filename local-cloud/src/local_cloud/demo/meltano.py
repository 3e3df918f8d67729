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
_HIDDEN = re.compile(r"METRIC|Parsing|Skipping parse|Meltano SDK|Beginning sync|completed processing|state backend")
# The closing lines: of the target, `Loaded flights: 16 rows ... in 1 load, 2.1 s`; of the tap, `flights: ... 2.1 s`.
_SECONDS = re.compile(r"(?<! of) (?:Loaded )?(?P<stream>\w+): .*, (?P<seconds>[\d.,]+) s\b")
_LINE = re.compile(r"\S+Z \[(?P<level>\w+) *\] (?P<who>[\w-]+) +(?P<text>.*)")


@dataclass(frozen=True)
class Ran:
    """Meltano's exit code, and the connectors' seconds by stream, tap and target together."""

    code: int
    busy: dict[str, float]


def run(
    target: str, options: tuple[str, ...], *, project: Path, batches: str, print_line: Callable[[str], None]
) -> Ran:
    """Run the tap into a target and print its log lines as they arrive.

    `project` is the folder of meltano.yml, where Meltano keeps its STATE and logs. Each pipe needs its own folder
    `batches`, because its plans are kept there too.
    """
    busy: dict[tuple[str, str], float] = {}
    command = ["meltano", "--environment=local", "run", *options, TAP, target]
    own = {
        "MELTANO_PROJECT_ROOT": str(project),
        "NO_COLOR": "1",
        "TAP_S3_FILES_BATCH_CONFIG_STORAGE_ROOT": batches,
        "XDG_STATE_HOME": str(project / "logs"),  # by default ~/.local/state
    }
    with subprocess.Popen(command, env={**os.environ, **own}, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            found, seconds = _LINE.match(line), _SECONDS.search(line)
            if found and seconds:  # each connector counts from its start, so its last line has them all
                busy[seconds["stream"], found["who"]] = float(seconds["seconds"].replace(",", ""))
            if not _HIDDEN.search(line):
                print_line(f"   {found['who']:>15} | {found['text']}" if found else f"   {line.rstrip()}")
    streams = {stream for stream, _ in busy}
    return Ran(process.returncode, {s: sum(n for (stream, _), n in busy.items() if stream == s) for s in streams})
