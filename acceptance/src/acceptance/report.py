"""The report of a run, as Markdown and JSON."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from acceptance.scenario import HELD, NOT_HELD, NOT_RUN, Result

PACKAGES = ("singer-arrow", "singer-arrow-tap-s3-files", "singer-arrow-target-bigquery", "singer-arrow-target-redshift")
# Names of the account, which a reader of the report does not need.
_NAMES: tuple[str, ...] = (
    "TARGET_BIGQUERY_PROJECT",
    "TARGET_REDSHIFT_HOST",
    "TARGET_REDSHIFT_USER",
    "TARGET_REDSHIFT_PASSWORD",
)
_NAMES = (*_NAMES, "ACCEPTANCE_BUCKET", "ACCEPTANCE_GCS_BUCKET", "ACCEPTANCE_QUEUE_URL", "AWS_ACCESS_KEY_ID")
_NAMES = (*_NAMES, "ACCEPTANCE_AWS_KMS_KEY", "ACCEPTANCE_GCP_KMS_KEY", "TARGET_REDSHIFT_COPY_ROLE_ARN")


def write(path: Path, results: Sequence[Result], *, name: str, left: Sequence[str]) -> tuple[Path, Path]:
    """Write both files, beside each other, and return their paths."""
    facts = {
        "name": name,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "services": "local" if "LOCAL_CLOUD_SOURCE_BUCKET" in os.environ else "real",
        "python": f"{platform.python_version()}, {platform.system()}",
        "versions": {package: version(package) for package in PACKAGES},
        "totals": dict(Counter(result.outcome for result in results)),
        "left": list(left),
    }
    markdown, data = path.with_suffix(".md"), path.with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    markdown.write_text(_without_names(_markdown(facts, results)))
    whole = facts | {"scenarios": [dict(result) for result in results]}
    data.write_text(_without_names(json.dumps(whole, indent=1, default=str)) + "\n")
    return markdown, data


def _without_names(text: str) -> str:
    local = os.environ.get("LOCAL_CLOUD_SOURCE_BUCKET")
    for name in () if local else _NAMES:
        if value := os.environ.get(name):
            text = text.replace(value, f"<{name}>")
    return text


def _markdown(facts: Mapping[str, Any], results: Sequence[Result]) -> str:
    totals = ", ".join(f"{facts['totals'].get(outcome, 0)} {outcome}" for outcome in (HELD, NOT_HELD, NOT_RUN))
    lines = [
        f"# Acceptance on {facts['services']} services: {totals}",
        "",
        f"{facts['name']}, {facts['written_at']}, Python {facts['python']}, "
        + ", ".join(f"{package} {number}" for package, number in facts["versions"].items()),
        "",
        *(f"- **Left behind** {what}" for what in facts["left"]),
        *([""] if facts["left"] else []),
        "| scenario | outcome | s | rows | what it shows | measured |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        notes = ", ".join(f"{name}: {value}" for name, value in result.notes.items())
        cells = (result.name, result.outcome, result.seconds, result.rows, result.description, notes)
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    for outcome, title in (
        (NOT_HELD, "Not held: these differ from the local services, on which all hold"),
        (NOT_RUN, "Not run"),
        (HELD, "Errors as expected, in the words of the services"),
    ):
        found = [r for r in results if r.outcome == outcome and (r.words or outcome != HELD)]
        lines += ["", f"## {title}", ""] if found else []
        for result in found:
            lines.append(f"- `{result.name}`" + (f": {result.reason}" if result.reason else ""))
            lines += ["", *(f"      {line}" for line in result.words.splitlines()), ""] if result.words else []
    return "\n".join(lines) + "\n"
