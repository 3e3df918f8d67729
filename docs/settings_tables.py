"""Write a page of settings and a JSON Schema for each connector, from the output of its `--about`.

`python docs/settings_tables.py` writes; with `--check` it fails if a file is not as it would be written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from settings_schemas import OF_THE_SDK, editor_schema
from written_files import write_or_check

ROOT = Path(__file__).parent.parent
CONNECTORS = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift")
HEAD = """# Settings of {name}

<!-- written by docs/settings_tables.py -->

Each setting of [{name}](../{name}/README.md). [Giving settings](settings.md) describes files, options, variables
and [the schema for editors](schemas/{name}.json).

| setting | kind | default | what it is |
|---|---|---|---|
"""


def main() -> int:
    """Write, or check."""
    files: dict[Path, str] = {}
    for name in CONNECTORS:
        about = _about(name)
        rows = "".join(f"{row}\n" for row in _rows(about["settings"], ""))
        files[ROOT / f"docs/{name}-settings.md"] = HEAD.format(name=name) + rows
        files[ROOT / f"docs/schemas/{name}.json"] = json.dumps(editor_schema(about), indent=2) + "\n"
    return write_or_check(files)


def _about(name: str) -> dict[str, Any]:
    executable = Path(sys.executable).parent / name
    output = subprocess.run([executable, "--about", "--format=json"], capture_output=True, check=True)
    about: dict[str, Any] = json.loads(output.stdout)
    return about


def _rows(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """A row for each setting, and below it rows for its parts."""
    required, streams = schema.get("required", ()), schema["properties"].get("streams", {})
    of_streams = streams.get("additionalProperties", {}).get("properties", {}) if not prefix else {}
    for name, setting in schema["properties"].items():
        path = f"{prefix}{name}"
        default = f"`{json.dumps(setting['default'])}`" if setting.get("default") not in (None, "") else ""
        words = " ".join(setting.get("description", "").split()).replace("|", "\\|")
        notes = " (required)" if name in required else " (secret)" if setting.get("secret") else ""
        notes += " (also in `streams`)" if not prefix and name in of_streams else ""
        yield f"| `{path}` | {_kind(setting)} | {default} | {words}{notes} |"
        if path in OF_THE_SDK or path == "defaults":
            continue
        if path == "streams" and of_streams:
            only = {name: part for name, part in of_streams.items() if name not in schema["properties"]}
            yield from _rows({"properties": only}, "streams.NAME.")
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
