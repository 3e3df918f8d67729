"""The public API of singer_arrow is complete, costs nothing to import, and the README's connector works."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import singer_arrow

ROOT = Path(__file__).parents[3]
README = ROOT / "singer-arrow/README.md"
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINES = '{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n'


def typed_names() -> dict[str, str]:
    """Return the names that type checkers see, with their modules."""
    tree = ast.parse(Path(singer_arrow.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def test_every_public_name_is_what_type_checkers_see() -> None:
    names = typed_names()
    assert sorted(names) == sorted(singer_arrow.__all__) == sorted(dir(singer_arrow))
    for name, module in names.items():
        assert getattr(singer_arrow, name) is getattr(import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'singer_arrow' has no attribute 'Unknown'"):
        singer_arrow.Unknown  # noqa: B018


@pytest.mark.full
def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import singer_arrow\n"
        "print([m for m in set(sys.modules) - before if m.startswith('singer') or m.startswith('pyarrow')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['singer_arrow']"


@pytest.mark.parametrize("batches", [False, True])
@pytest.mark.full
def test_the_connector_of_the_readme_runs(tmp_path: Path, *, batches: bool) -> None:
    program = tmp_path / "tap_file.py"
    program.write_text(CODE.findall(README.read_text())[1])
    (tmp_path / "rows.jsonl").write_text(LINES)
    config = {"file": str(tmp_path / "rows.jsonl")} | ({"batches": str(tmp_path)} if batches else {})
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, program, "--config", tmp_path / "config.json"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    data = [m for m in messages if m["type"] in ("RECORD", "BATCH")]
    if batches:
        import pyarrow.parquet as pq

        assert [m["row_count"] for m in data] == [2]
        rows = pq.read_table(data[0]["manifest"][0].removeprefix("file://")).to_pylist()
    else:
        rows = [m["record"] for m in data]
    assert rows == [json.loads(line) for line in LINES.splitlines()]


def test_the_first_example_of_the_readme_reads_a_file(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(LINES)
    code = CODE.findall(README.read_text())[0]
    code = re.sub(r"^url = .*$", f"url = {str(tmp_path / 'events.jsonl')!r}", code, flags=re.MULTILINE)
    found: dict[str, object] = {}
    exec(code.replace("    ...", "    rows = batch.num_rows"), found)
    assert found["rows"] == 2
