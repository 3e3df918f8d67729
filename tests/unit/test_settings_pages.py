"""Pages of connectors are short, and their JSON Schemas accept what the connectors accept."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from singer_arrow.sdk.settings import yaml_object

ROOT = Path(__file__).parents[2]
CONNECTORS = ("tap-s3-files", "tap-flight-sql", "target-bigquery", "target-redshift")
BLOCK = re.compile(r"^```(json|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
WORDS = 1200


def validator(name: str) -> Draft202012Validator:
    """Return a validator with the published schema of a connector."""
    schema = json.loads((ROOT / f"docs/schemas/{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def documented() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield connector, page and configuration for each whole configuration in the pages."""
    for page in (*ROOT.glob("*/README.md"), *ROOT.glob("docs/*.md")):
        for kind, text in BLOCK.findall(page.read_text()):
            try:
                given = json.loads(text) if kind == "json" else yaml_object(text.encode(), page.name)
            except ValueError:  # a part of a configuration, such as one member
                continue
            if not isinstance(given, dict):
                continue
            for name, required in (
                ("target-bigquery", {"project"}),
                ("target-redshift", {"host", "dbname"}),
                ("tap-flight-sql", {"uri", "streams"}),
                ("tap-s3-files", {"streams"}),
            ):
                if required <= given.keys():
                    yield name, page.name, given
                    break


@pytest.mark.parametrize("name", CONNECTORS)
def test_a_readme_is_one_page(name: str) -> None:
    assert len((ROOT / name / "README.md").read_text().split()) <= WORDS


def test_schemas_accept_the_configurations_of_the_pages() -> None:
    seen = set()
    for name, page, given in documented():
        found = [f"{page}: {error.json_path}: {error.message}" for error in validator(name).iter_errors(given)]
        assert found == []
        seen.add(name)
    assert seen == set(CONNECTORS)


def test_the_tap_takes_a_file_that_names_its_schema(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders/a.csv").write_text("id,day\n1,2024-01-31\n")
    run("init", str(tmp_path), "--output", "tap.yml", cwd=tmp_path)
    given = yaml_object((tmp_path / "tap.yml").read_bytes(), "tap.yml")
    assert validator("tap-s3-files").is_valid(given)
    (tmp_path / "tap.json").write_text(json.dumps({"$schema": "tap-s3-files.json", **given}))
    assert json.loads(run("--config", "tap.json", "--discover", cwd=tmp_path))["streams"]


def run(*options: str, cwd: Path) -> str:
    """Run the tap and return its standard output."""
    tap = Path(sys.executable).parent / "tap-s3-files"
    return subprocess.run([tap, *options], cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("tap-s3-files", {"streams": [{"name": "a", "path": "/a", "formt": "csv"}]}),
        ("tap-s3-files", {"streams": [{"name": "a", "path": "/a", "format": "cvs"}]}),
        ("tap-flight-sql", {"streams": []}),
        ("target-bigquery", {"project": "p", "dataset": "d", "load_method": "append"}),
        ("target-redshift", {"port": "5439x"}),
    ],
)
def test_schemas_reject_mistakes(name: str, wrong: dict[str, Any]) -> None:
    assert not validator(name).is_valid(wrong)


@pytest.mark.parametrize("name", CONNECTORS)
def test_schemas_know_secrets_and_their_own_name(name: str) -> None:
    schema = json.loads((ROOT / f"docs/schemas/{name}.json").read_text())
    assert schema["title"] == name
    found = re.findall(
        r"^### `(.+)`\n\n(?:`(.+)`: )?.*, secret", (ROOT / f"docs/{name}-settings.md").read_text(), re.MULTILINE
    )
    secrets = {path or title for title, path in found}
    of_streams = {path for path in write_only(schema, "") if path.startswith("defaults.")}
    assert secrets == set(write_only(schema, "")) - of_streams
    assert {path.replace("defaults.", "streams[].") for path in of_streams} <= secrets


def write_only(schema: dict[str, Any], prefix: str) -> Iterator[str]:
    """Yield the paths of settings that are secret."""
    for name, part in schema.get("properties", {}).items():
        if part.get("writeOnly"):
            yield f"{prefix}{name}"
        yield from write_only(part, f"{prefix}{name}.")
        yield from write_only(part.get("items") or {}, f"{prefix}{name}[].")
