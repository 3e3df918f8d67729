"""Write a page of settings and a JSON Schema for each connector, from the output of its `--about`.

`python docs/settings_tables.py` writes; with `--check` it fails if a file is not as it would be written.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from settings_schemas import OF_THE_SDK, editor_schema
from written_files import write_or_check

ROOT = Path(__file__).parent.parent
CONNECTORS = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift")
HEAD = """# Settings of {name}

<!-- written by docs/settings_tables.py -->

Each setting of [{name}](../{name}/README.md), with its own link: `{name}-settings.html#log_format` on the site.
[Giving settings](settings.md) describes files, options, variables and [the schema for editors](schemas/{name}.json).

"""
OF_STREAMS = "streams[]."
GROUPS = {
    "Connection": (
        "project job_project dataset default_target_schema location credentials_path credentials_json "
        "impersonate_service_account api_endpoint reservation bytes_billed_limit kms_key "
        "host port dbname user password iam ssl sslmode query_group "
        "uri username token tls session headers max_message_mb query_timeout_seconds fetch_timeout_seconds"
    ),
    "Sources and tables": (
        "streams defaults streams[].name streams[].path streams[].format streams[].compression streams[].decryption "
        "streams[].archived streams[].as_of streams[].catalog streams[].change_feed streams[].ignore_deletes "
        "streams[].query streams[].table streams[].replication_key streams.NAME.table streams.NAME.key_properties "
        "tables table_prefix partition_by expiration_days require_partition_filter cluster_by keys_stay_in_partition "
        "dist_key sort_keys labels grants"
    ),
    "Text, workbooks and XML": (
        "streams[].csv streams[].date_formats streams[].timestamp_formats streams[].decimal_point "
        "streams[].thousands_separator streams[].true_values streams[].false_values streams[].type_tolerance "
        "streams[].fixed_width streams[].excel streams[].xml"
    ),
    "Columns, types and keys": (
        "streams[].key_properties streams[].schema streams[].columns streams[].partition_columns metadata_columns "
        "nested varchar_max long_text nul_text add_record_metadata schema_sample_files schema_sample_mb"
    ),
    "Bad rows and changed columns": (
        "streams[].on_bad_row streams[].max_bad_rows streams[].on_drift on_bad_row max_bad_rows on_drift "
        "validate_records"
    ),
    "Load methods": (
        "load_method streams[].load_method streams[].replication_method hard_delete replay ledger_keep_days "
        "emit_activate_version_messages process_activate_version_messages streams[].after_load"
    ),
    "New objects": "start_date end_date replication",
    "Loads": (
        "load_format load_via storage_write_endpoint gcs_stage s3_stage copy_role_arn copy_options slices "
        "max_parallel_loads max_batch_age_seconds max_batch_mb batch_size_rows"
    ),
    "Batch files and the plan": "batch_config plan_root passthrough manifest_roots clean_up_batch_files",
    "Access to S3": "aws",
    "Speed, memory, several machines": (
        "max_workers memory_limit_mb object_range_mb shard executor dask_scheduler dask_tls dask_wait_seconds "
        "dask_shared_files"
    ),
    "Maps of the SDK": (
        "stream_maps stream_map_config faker_config flattening_enabled flattening_max_depth "
        "flattening_max_key_length flattening_separator"
    ),
    "Logs, reports and events": "report openlineage log_format log_metrics",
}
"""Sections of the pages, and the settings of each; parts of a setting follow it."""
OTHER = "More"
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}


class Setting(NamedTuple):
    """A setting, as its page shows it; `title` is its path within a stream, or the whole path."""

    path: str
    facts: str
    text: str

    @property
    def title(self) -> str:
        return self.path.removeprefix(OF_STREAMS)

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w-]", "", self.title).lower()


def main() -> int:
    """Write, or check."""
    files: dict[Path, str] = {}
    for name in CONNECTORS:
        about = _about(name)
        files[ROOT / f"docs/{name}-settings.md"] = HEAD.format(name=name) + page(list(_settings(about["settings"], "")))
        files[ROOT / f"docs/schemas/{name}.json"] = json.dumps(editor_schema(about), indent=2) + "\n"
    return write_or_check(files)


def page(settings: Sequence[Setting]) -> str:
    """Return a list of the contents, then a section for each group and in it one for each setting."""
    anchors = [setting.anchor for setting in settings]
    assert len(anchors) == len(set(anchors)), f"settings share an anchor: {sorted(anchors)}"
    of_group: dict[str, list[Setting]] = {group: [] for group in (*GROUPS, OTHER)}
    group = OTHER
    for setting in settings:
        if "." not in setting.title or setting.path in GROUP_OF:
            group = GROUP_OF.get(setting.path, OTHER)
        of_group[group].append(setting)
    shown = {group: found for group, found in of_group.items() if found}
    contents = [
        f"- **[{group}](#{re.sub(r'[^a-z0-9-]', '', group.lower().replace(' ', '-'))})**: "
        + ", ".join(f"[`{s.title}`](#{s.anchor})" for s in found if "." not in s.title or s.path in GROUP_OF)
        for group, found in shown.items()
    ]
    sections = [
        f"## {group}\n\n" + "\n".join(f"### `{s.title}`\n\n{s.facts}\n\n{s.text}\n" for s in found)
        for group, found in shown.items()
    ]
    return "\n".join([*contents, "", *sections])


def _about(name: str) -> dict[str, Any]:
    executable = Path(sys.executable).parent / name
    output = subprocess.run([executable, "--about", "--format=json"], capture_output=True, check=True)
    about: dict[str, Any] = json.loads(output.stdout)
    return about


def _settings(schema: dict[str, Any], prefix: str) -> Iterator[Setting]:
    """Yield each setting, and after it its parts."""
    required, streams = schema.get("required", ()), schema["properties"].get("streams", {})
    of_streams = streams.get("additionalProperties", {}).get("properties", {}) if not prefix else {}
    for name, setting in schema["properties"].items():
        path = f"{prefix}{name}"
        facts = [f"`{path}`: {_kind(setting)}" if path.startswith(OF_STREAMS) else _kind(setting)]
        if setting.get("default") not in (None, ""):
            facts.append(f"default `{json.dumps(setting['default'])}`")
        facts += ["required"] if name in required else ["secret"] if setting.get("secret") else []
        facts += ["also for single streams, in `streams`"] if not prefix and name in of_streams else []
        yield Setting(path, ", ".join(facts), " ".join(setting.get("description", "").split()))
        if path in OF_THE_SDK or path == "defaults":
            continue
        if path == "streams" and of_streams:
            only = {name: part for name, part in of_streams.items() if name not in schema["properties"]}
            yield from _settings({"properties": only}, "streams.NAME.")
        items = setting.get("items", {})
        if setting.get("properties"):
            yield from _settings(setting, f"{path}.")
        elif items.get("properties"):
            yield from _settings(items, f"{path}[].")


def _kind(setting: dict[str, Any]) -> str:
    kinds = [k for k in (setting["type"] if isinstance(setting["type"], list) else [setting["type"]]) if k != "null"]
    if "enum" in setting:
        return " or ".join(f"`{json.dumps(v) if isinstance(v, bool) else v}`" for v in setting["enum"] if v is not None)
    if setting.get("format") == "date-time":
        return "date or time"
    return " or ".join("list" if k == "array" else k for k in kinds)


if __name__ == "__main__":
    sys.exit(main())
