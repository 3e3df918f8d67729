"""Write the plugins of meltano.yml, and a definition of each for `meltano add --from-ref`, from `--about`.

`python docs/meltano_plugins.py` writes; with `--check` it fails if a file is not as it would be written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from written_files import write_or_check

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "meltano.yml"
BEGIN, END = "# <plugins written by docs/meltano_plugins.py>\n", "# </plugins>\n"
PLUGINS = {"extractors": ["tap-s3-files", "tap-flight-sql"], "loaders": ["target-bigquery", "target-redshift"]}
VARIANT = "singer-arrow"
EXTRAS = {"tap-s3-files": "[excel]"}
SUFFICIENT_SETTINGS = {
    "tap-s3-files": [["streams"]],
    "tap-flight-sql": [["uri", "streams"]],
    "target-bigquery": [["project", "dataset"]],
    "target-redshift": [
        ["host", "dbname", "user", "password"],
        ["dbname", "iam.cluster_identifier", "iam.db_user"],
        ["dbname", "iam.workgroup"],
    ],
}
"""Groups of settings of which one must be complete, as the Hub's `settings_group_validation`."""
KINDS = {"number": "decimal"}
WHOLE = {"stream_maps", "stream_map_config", "faker_config", "defaults"}  # passed on as whole objects


def main() -> int:
    """Write the files, or check them; return the exit status."""
    before, _, rest = PROJECT.read_text().partition(BEGIN)
    files = {PROJECT: before + BEGIN + "".join(_plugins()) + END + rest.partition(END)[2]}
    for kind, names in PLUGINS.items():
        files |= {ROOT / "plugins" / kind / f"{name}.yml": "".join(_definition(name)) for name in names}
    return write_or_check(files)


def _plugins() -> Iterator[str]:
    """Yield the plugins of this repository's project."""
    yield "plugins:\n"
    yield "  # No pip_url: the executables of the workspace's environment are used; plugins/ has some with one.\n"
    for kind, names in PLUGINS.items():
        yield f"  {kind}:\n"
        for name in names:
            first, *others = filter(None, _lines(name))
            yield f"    - {first}"
            yield from (f"      {line}" for line in others)


def _definition(name: str) -> Iterator[str]:
    """Yield the definition of a plugin as Meltano's Hub has it."""
    yield "# Written by docs/meltano_plugins.py from --about.\n"
    yield from _lines(name, variant=f"variant: {VARIANT}\npip_url: singer-arrow-{name}{EXTRAS.get(name, '')}\n")
    yield "settings_group_validation:\n"
    for group in SUFFICIENT_SETTINGS[name]:
        yield f"  - [{', '.join(group)}]\n"


def _lines(name: str, variant: str = "") -> Iterator[str]:
    about = _about(name)
    yield f"name: {name}\n"
    yield f"namespace: {name.replace('-', '_')}\n"
    yield variant
    yield f"executable: {name}\n"
    yield f"label: {json.dumps(about['description'])}\n" if about["description"] else ""
    yield "capabilities:\n"
    yield from (f"  - {c}\n" for c in sorted(about["capabilities"]))
    yield "settings:\n"
    for setting, schema in _settings(about["settings"]):
        yield f"  - name: {setting}\n"
        yield from (f"    {line}\n" for line in _kind(schema))
        yield f"    description: {json.dumps(schema['description'], ensure_ascii=False)}\n"
        if schema.get("secret"):
            yield "    sensitive: true\n"


def _about(name: str) -> dict[str, Any]:
    executable = Path(sys.executable).parent / name
    output = subprocess.run([executable, "--about", "--format=json"], capture_output=True, check=True)
    about: dict[str, Any] = json.loads(output.stdout)
    return about


def _settings(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each setting with its dotted name; objects of known parts are given by their parts."""
    for name, inner in schema["properties"].items():
        if inner.get("properties") and name not in WHOLE:
            yield from _settings(inner, f"{prefix}{name}.")
        else:
            yield prefix + name, inner


def _kind(schema: dict[str, Any]) -> Iterator[str]:
    if words := [word for word in schema.get("enum", ()) if word is not None]:
        yield "kind: options"
        yield "options:"
        yield from (f"  - {{label: {word}, value: {word}}}" for word in words)
        return
    kinds = [k for k in (schema["type"] if isinstance(schema["type"], list) else [schema["type"]]) if k != "null"]
    is_time = schema.get("format") == "date-time"
    is_either = len(kinds) > 1 and "object" in kinds  # of which Meltano's commands take text alone
    yield f"kind: {'date_iso8601' if is_time else 'string' if is_either else KINDS.get(kinds[0], kinds[0])}"


if __name__ == "__main__":
    sys.exit(main())
