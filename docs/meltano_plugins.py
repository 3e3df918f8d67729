"""Write the plugins of meltano.yml from the output of `--about` of the connectors, between its markers.

`python docs/meltano_plugins.py` writes; with `--check` it fails if the file is not as it would be written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "meltano.yml"
BEGIN, END = "# <plugins written by docs/meltano_plugins.py>\n", "# </plugins>\n"
PLUGINS = {"extractors": ["tap-s3-files", "tap-flight-sql"], "loaders": ["target-bigquery", "target-redshift"]}
KINDS = {"number": "decimal"}
BUILT_IN = {"stream_maps", "stream_map_config", "faker_config"}  # Meltano passes these on as whole objects


def main() -> int:
    """Write, or check."""
    before, _, rest = FILE.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    new = "".join(_plugins())
    if "--check" in sys.argv:
        if old != new:
            sys.stderr.write(f"{FILE.name} is not up to date: run make docs\n")
        return int(old != new)
    FILE.write_text(before + BEGIN + new + END + after)
    return 0


def _plugins() -> Iterator[str]:
    yield "plugins:\n"
    yield "  # No pip_url: the executables of the workspace's own environment are used. Elsewhere, give each one.\n"
    for kind, names in PLUGINS.items():
        yield f"  {kind}:\n"
        for name in names:
            about = _about(name)
            yield f"    - name: {name}\n"
            yield f"      namespace: {name.replace('-', '_')}\n"
            yield f"      executable: {name}\n"
            yield f"      label: {json.dumps(about['description'])}\n" if about["description"] else ""
            yield "      capabilities:\n"
            yield from (f"        - {c}\n" for c in sorted(about["capabilities"]))
            yield "      settings:\n"
            for setting, schema in _settings(about["settings"]):
                yield f"        - name: {setting}\n"
                yield f"          kind: {_kind(schema)}\n"
                yield f"          description: {json.dumps(schema['description'], ensure_ascii=False)}\n"
                if schema.get("secret"):
                    yield "          sensitive: true\n"


def _about(name: str) -> dict[str, Any]:
    executable = Path(sys.executable).parent / name
    output = subprocess.run([executable, "--about", "--format=json"], capture_output=True, check=True)
    about: dict[str, Any] = json.loads(output.stdout)
    return about


def _settings(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each setting with its dotted name; objects of known parts are given by their parts."""
    for name, inner in schema["properties"].items():
        if inner.get("properties") and name not in BUILT_IN:
            yield from _settings(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner


def _kind(schema: dict[str, Any]) -> str:
    kinds = [k for k in (schema["type"] if isinstance(schema["type"], list) else [schema["type"]]) if k != "null"]
    if schema.get("format") == "date-time":
        return "date_iso8601"
    return KINDS.get(kinds[0], kinds[0])


if __name__ == "__main__":
    sys.exit(main())
