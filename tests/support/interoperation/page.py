"""Generate docs/interoperation.md: the tested public taps and targets, with the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interoperation import environments
from interoperation.captures import Capture, captures
from interoperation.loading import SAME
from interoperation.targets import TARGETS
from interoperation.things import THINGS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "interoperation.md"
FOUND = ROOT / "tests" / "integration" / "captures" / "found.json"
"""Results of the last run: by capture and warehouse, and by target and kind of messages."""

LEFT_OUT: Mapping[str, str] = {
    "tap-postgres 0.2.1": "needs psycopg2 2.7.4, which compiles on no current Python",
    "target-parquet 0.0.1": "needs pandas 0.24.2, whose metadata installers refuse",
    "target-universal-file 0.0.1": "fails on any date (`Object of type date is not JSON serializable`) and on Parquet",
}
"""Public taps and targets that cannot be run, with the reason."""

_TEXT = """# Interoperation

Written by `make interoperation`, which installs public taps and targets, each in an environment of its own with pinned
versions, runs them on the local cloud, and compares values. `make test-all` loads what the taps wrote, which is kept
below `tests/integration/captures`, into both warehouses again and compares this page with what it finds.

All sources hold the same {rows} rows: texts with quotes, commas, line breaks and characters beyond ASCII, decimals,
64-bit integers, floats, booleans, dates, times with microseconds, and nulls. PostgreSQL also has `numeric(38,10)`,
times of the day, JSON, arrays, bytes and UUIDs; files of JSON also have lists and objects. "{same}" means that each
value that the tap gives is in the table: decimals and integers exactly, floats as the same float, timestamps as the
same moment.

## Public taps into target-bigquery and target-redshift

{taps}

Column names are in lower case in Redshift, and a list that is null is an empty one in BigQuery. The columns that taps
add are loaded and not compared.

## tap-s3-files into public targets

{targets}

Decimals are compared exactly in meltanolabs-target-postgres and target-jsonl, and as floats in the others, which keep
no decimals.

## Batch files in Arrow IPC

The rows "BATCH, Arrow" are `encoding: {{"format": "arrow"}}`:

- `ArrowBatcher` of meltano/sdk is in no final release yet. It is in singer-sdk 0.55.0a5, a pre-release, which writes
  the files of the taps that are "made with" it above, in place of the version that those taps require.
- meltanolabs-tap-snowflake has an encoder of its own, and meltanolabs-target-snowflake reads such files into Parquet
  files. Snowflake is not part of the local cloud, so the encoder gets rows made in
  `tests/support/interoperation/snowflake_tap.py`, and what is compared is the target's Parquet files.
- meltanolabs-tap-postgres 0.10.0 has no encoder of its own, and writes Arrow with that SDK.
- pipelinewise-tap-mysql 1.6.0, its newest release, writes no BATCH messages. Meltano's target-bigquery, which reads
  Arrow since 1.1, is not in the Python Package Index; the package of that name is another project (both on
  23 November 2026).

The same rows by Parquet, RECORD and Arrow give the same tables: `tests/integration/targets/test_arrow_batches.py`, also
for IPC streams with lz4. `pyarrow.ipc.open_file` reads the files of tap-s3-files:
`tests/unit/singer_arrow/formats/arrow/test_writer.py`.

When Arrow files pay: [Batch files in Arrow IPC](batch-files.md#batch-files-in-arrow-ipc).

## Tried and left out

{left_out}
"""


def text() -> str:
    """Return the page."""
    found = read_found()
    return _TEXT.format(
        rows=len(THINGS),
        same=SAME,
        taps=_table(
            ("tap", "version", "made with", "messages", "rows", "target-bigquery", "target-redshift", "notes"),
            (_of_capture(capture, found["taps"].get(capture.name, {})) for capture in captures()),
        ),
        targets=_table(
            ("target", "version", "made with", "messages", "rows", "result", "notes"),
            (
                _of_target(name, kind, result)
                for name, kinds in found["targets"].items()
                for kind, result in kinds.items()
            ),
        ),
        left_out="\n".join(f"- {name}: {why}." for name, why in LEFT_OUT.items()),
    )


def _of_capture(capture: Capture, results: Mapping[str, str]) -> Sequence[str]:
    facts = capture.facts
    # the advice in an error message is left out
    arrived = (results.get(name, "not run").partition(". ")[0] for name in ("bigquery", "redshift"))
    return (facts.tap, facts.version, facts.library, facts.kind, str(facts.rows), *arrived, facts.note)


def _of_target(name: str, kind: str, result: str) -> Sequence[str]:
    version = environments.versions(name)[TARGETS[name].peer.package]
    note = TARGETS[name].note
    return (name, version, environments.library(name), kind, str(len(THINGS)), result, note)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def read_found() -> dict[str, Any]:
    """Return the results of the last run."""
    return json.loads(FOUND.read_text()) if FOUND.exists() else {"taps": {}, "targets": {}}


def write_found(found: Mapping[str, Any]) -> None:
    """Store the results, and write the page."""
    FOUND.write_text(json.dumps(found, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
    PAGE.write_text(text())
