"""Commands in the documentation run as they are, in the shell of a local cloud with its sample data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTED = re.compile(r"^<!-- tested -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PRINTED = re.findall(r"^```\n\n```\n(.*?)\n\n", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
HIGHEST = re.findall(r"^faa .*?rows\)$", (ROOT / "docs/first-try.md").read_text(), re.MULTILINE | re.DOTALL)[0]
ORIGINS = re.findall(r"^origin .*?rows\)$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[0]
"""What README.md and first-try.md show that their commands print on standard output."""


def commands(page: str) -> str:
    """Return the tested commands of a page, in order."""
    return "".join(TESTED.findall((ROOT / page).read_text()))


@pytest.mark.parametrize(
    ("page", "services", "shown"),
    [
        (
            "README.md",
            "s3,bigquery",
            [re.escape(PRINTED), r"Loaded flights: 336,776 rows \(5\.4 MB\)", re.escape(ORIGINS)],
        ),
        (
            "docs/first-try.md",
            "s3,bigquery",
            [
                r"airports: 1 object, 5 rows shown, of s3://source/airports/",
                r"faa +name +lat +lon",
                re.escape(HIGHEST),
                r"airports +1 +104,296 +1 +1 +csv +\? ",
                r"table +load jobs \(at least\) +bytes +of 1,500 a day",
                r"table +COPYs \(at least\) +bytes",
                r"tap-s3-files.yml: 5 streams: airlines, airports, flights, planes, weather",
                r"meltano.yml: 5 streams: airlines, airports, flights, planes, weather",
            ],
        ),
        (
            "docs/run-a-pipeline.md",
            "s3,bigquery",
            [
                r"(?m)^flights +365 +",
                r"table +load jobs \(at least\)",
                r"(?m)^airports: 1,458 rows$",
                r"(?m)^flights: 336,776 rows$",
                r"Stream 'flights': nothing was loaded, because earlier runs loaded all of its batches",
                r"(?m)^airports 0$",
            ],
        ),
        (
            "docs/alerts.md",
            "s3,bigquery",
            [
                r"(?m)^airports: 1,458 rows$",
                r'singer_run_rows{pipeline="airports",stream="airports"} 1458',
                r"(?m)^reports/index.html$|^file://.*/reports/index.html$",
            ],
        ),
        (
            "docs/shards.md",
            "s3,bigquery",
            [
                r"(?m)^flights +0/2 +[1-9]\d*",
                r"the largest shard reads 1\.\d\d times",
                r"1 segments are new",
                r"Loaded flights: [1-9][\d,]+ rows",
                r"Loaded flights: 0 rows",
            ],
        ),
        (
            "docs/query-local.md",
            "s3,bigquery,redshift",
            [
                r"(?m)^TEX  .*  9078\n",
                r"(?m)^    1458\n\(1 row\)",
                r"(?m)^TEX\t.*\t9078\n(.*\n){2}",
                r"(?m)^airports$",
                r"(?m)^_sdc_batches$",
                r"(?m)^faa\tcharacter varying$",
            ],
        ),
        ("docs/stable.md", "s3", [r"tap-s3-files v?\d", r"target-bigquery v?\d"]),
        (
            "docs/flight-sql.md",
            "s3,bigquery,redshift,flightsql",
            [r'(?s)bigquery.jsonl.*"window": ?1.*redshift.jsonl.*"window": ?1', r"2026-01-02T03:46:39"],
        ),
    ],
)
def test_commands_run_as_they_are(page: str, services: str, shown: list[str], tmp_path: Path) -> None:
    script = tmp_path / "commands.sh"
    script.write_text(f"set -e\n{commands(page)}")
    tools = Path(sys.executable).parent
    ran = subprocess.run(
        [tools / "local-cloud", "run", "--service", services, "--seed", "--", "bash", script],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "MELTANO_SEND_ANONYMOUS_USAGE_STATS": "false"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-6000:]
    for pattern in shown:
        assert re.search(pattern, ran.stdout + ran.stderr), f"{pattern!r} is not in:\n{ran.stdout[-6000:]}"
