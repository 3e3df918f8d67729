"""Write the settings tables of the connectors' READMEs from the output of `--about` of the connectors.

`python docs/settings_tables.py` writes; with `--check` it fails if a README is not as it would be written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- settings: written by docs/settings_tables.py -->\n", "<!-- end of settings -->\n"
CONNECTORS = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift")
OF_THE_SDK = ("stream_maps", "stream_map_config", "faker_config")
"""Documented by the SDK; their parts are not listed here."""


def main() -> int:
    """Write, or check."""
    stale = [name for name in CONNECTORS if _update(name, write="--check" not in sys.argv)]
    if stale and "--check" in sys.argv:
        sys.stderr.write(f"The README of {', '.join(stale)} is not up to date: run make docs\n")
        return 1
    return 0


def _update(name: str, *, write: bool) -> bool:
    """Whether the README was not up to date; if there are no markers in it, there is nothing to be."""
    file = ROOT / name / "README.md"
    text = file.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        return False
    new = before + BEGIN + _table(name) + END + after
    if write:
        file.write_text(new)
    return new != text


def _table(name: str) -> str:
    executable = Path(sys.executable).parent / name
    output = subprocess.run([executable, "--about", "--format=json"], capture_output=True, check=True)
    rows = _rows(json.loads(output.stdout)["settings"], "")
    return "\n".join(["", "| setting | kind | default | what it is |", "|---|---|---|---|", *rows, "", ""])


def _rows(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """A row for each setting, and below it rows for its parts."""
    required = schema.get("required", ())
    for name, setting in schema["properties"].items():
        path = f"{prefix}{name}"
        default = f"`{json.dumps(setting['default'])}`" if setting.get("default") not in (None, "") else ""
        words = " ".join(setting.get("description", "").split()).replace("|", "\\|")
        notes = " (required)" if name in required else " (secret)" if setting.get("secret") else ""
        yield f"| `{path}` | {_kind(setting)} | {default} | {words}{notes} |"
        if path in OF_THE_SDK:
            continue
        items = setting.get("items", {})
        if setting.get("properties"):
            yield from _rows(setting, f"{path}.")
        elif items.get("properties"):
            yield from _rows(items, f"{path}[].")


def _kind(setting: dict[str, Any]) -> str:
    kinds = [k for k in (setting["type"] if isinstance(setting["type"], list) else [setting["type"]]) if k != "null"]
    if "enum" in setting:
        return ", ".join(f"`{v}`" for v in setting["enum"] if v is not None)
    if setting.get("format") == "date-time":
        return "date or time"
    return " or ".join("list" if k == "array" else k for k in kinds)


if __name__ == "__main__":
    sys.exit(main())
