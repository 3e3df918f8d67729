"""Run a pipe as a user does, by Meltano or by a shell, and collect the connectors' log lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TAP = "tap-s3-files"
Print = Callable[[str], None]

# Lines of Meltano and the SDK at each start, and metrics, which repeat the connectors' own lines.
_HIDDEN = re.compile(
    r"METRIC|[Pp]arsing|Skipping parse|Meltano SDK|Beginning sync|completed processing|state backend|"
    r"is left out; to load it again|nothing was loaded, because|Block run completed|"
    r"Incremental state has been updated|Reading state from"
)
# The closing lines: of the target, `Loaded flights: 16 rows ... in 1 load, 2.1 s`; of the tap, `flights: ... 2.1 s`.
_SECONDS = re.compile(r"(?<! of) (?:Loaded |Read )?(?P<stream>\w+): .*, (?P<seconds>[\d.,]+) s\b")
_MELTANO_LINE = re.compile(r"\S+Z \[\w+ *\] (?P<who>[\w-]+) +(?P<text>.*)")
_CONNECTOR_LINE = re.compile(r"\S+ \S+ \| \w+ *\| (?P<who>[\w-]+)\S* *\| (?P<text>.*)")


@dataclass(frozen=True)
class Ran:
    """A pipe's exit code, and the connectors' seconds by stream, tap and target together."""

    code: int
    busy: dict[str, float]


def by_meltano(target: str, options: Sequence[str], *, project: Path, batches: str, print_line: Print) -> Ran:
    """Run the tap into a target by Meltano and print its log lines as they arrive.

    `project` is the folder of meltano.yml, where Meltano keeps its STATE and logs. Each pipe needs its own folder
    `batches`, because its plans are kept there too.
    """
    own = {
        "MELTANO_PROJECT_ROOT": str(project),
        "NO_COLOR": "1",
        "TAP_S3_FILES_BATCH_CONFIG_STORAGE_ROOT": batches,
        "XDG_STATE_HOME": str(project / "logs"),  # by default ~/.local/state
    }
    print_line(f"$ meltano run {' '.join((*options, TAP, target))}")
    return _run(["meltano", "--environment=local", "run", *options, TAP, target], own, print_line)


def by_shell(
    target: str, schema: str, tap: str, settings: Mapping[str, Any], *, folder: Path, print_line: Print
) -> Ran:
    """Run a tap into a target by a shell, without STATE, and print its log lines as they arrive.

    The tap's messages are kept in `folder` for `again`.
    """
    for name, config in (("tap", settings), ("target", {"default_target_schema": schema})):
        (folder / f"{name}.json").write_text(json.dumps(config))
    print_line(f"$ {tap} --config tap.json | tee messages.jsonl | {target} --config=ENV")
    pipe = f"{tap} --config=ENV --config tap.json | tee messages.jsonl | {_load(target)}"
    return _run(["bash", "-o", "pipefail", "-c", pipe], {}, print_line, folder)


def again(target: str, *, folder: Path, print_line: Print) -> Ran:
    """Send the messages that `by_shell` has kept to the target again, as after a crash before STATE was written."""
    print_line(f"$ {target} --config=ENV < messages.jsonl")
    return _run(["bash", "-c", f"{_load(target)} < messages.jsonl"], {}, print_line, folder)


def _load(target: str) -> str:
    return f"{target} --config=ENV --config target.json > /dev/null"


def _run(command: Sequence[str], env: Mapping[str, str], print_line: Print, folder: Path | None = None) -> Ran:
    busy: dict[tuple[str, str], float] = {}
    with subprocess.Popen(command, cwd=folder, env={**os.environ, **env}, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            found = _MELTANO_LINE.match(line) or _CONNECTOR_LINE.match(line)
            seconds = _SECONDS.search(line)
            if found and seconds:  # each connector counts from its start, so its last line has them all
                busy[seconds["stream"], found["who"]] = float(seconds["seconds"].replace(",", ""))
            if not _HIDDEN.search(line):
                print_line(f"{found['who']:>15} | {found['text']}" if found else line.rstrip())
    streams = {stream for stream, _ in busy}
    return Ran(process.returncode, {s: sum(n for (stream, _), n in busy.items() if stream == s) for s in streams})


def local_streams(project: Path) -> dict[str, Any]:
    """Return the tap's settings of the environment `local` in meltano.yml, with the values of its variables."""
    import yaml

    environments = yaml.safe_load((project / "meltano.yml").read_text())["environments"]
    (local,) = (found for found in environments if found["name"] == "local")
    (tap,) = (found for found in local["config"]["plugins"]["extractors"] if found["name"] == TAP)
    settings: dict[str, Any] = json.loads(os.path.expandvars(json.dumps(tap["config"])))
    return settings
