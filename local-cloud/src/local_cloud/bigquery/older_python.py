"""Make the installed local-bigquery importable by Python 3.11: `python older_python.py`, with that Python.

The package declares Python 3.13. On 3.12 it works as it is, on 3.11 but for four lines of newer syntax. Its version is
pinned, so the lines are known; a line that is not found is an error.
"""

import importlib.util
from pathlib import Path

LINES = {
    "catalog/metadata.py": [
        ("import hashlib\n", "from __future__ import annotations\n\nimport hashlib\n"),
        ("def list_[R: Resource](", "def list_("),
        ("def load[R: Resource](", "def load("),
        ("def save[R: Resource](", "def save("),
    ],
    "engine/results.py": [
        (
            """f"THEN error('{message.replace("'", "''")}') ELSE""",
            """"THEN error('" + message.replace("'", "''") + f"') ELSE""",
        )
    ],
}


def main() -> None:
    """Rewrite the lines in the package that this Python finds."""
    spec = importlib.util.find_spec("local_bigquery")
    assert spec is not None
    assert spec.origin is not None
    for name, replacements in LINES.items():
        path = Path(spec.origin).with_name(name.partition("/")[0]) / name.partition("/")[2]
        text = path.read_text(encoding="utf-8")
        for old, new in replacements:
            if text.count(old) != 1:
                raise SystemExit(f"{name} does not have the line {old!r}, which Python 3.11 cannot read")
            text = text.replace(old, new)
        path.unlink()  # it may be a hard link into an installer's cache
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
