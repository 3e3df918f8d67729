"""Recorded output of public taps: a folder each, with messages, batch files and expected rows."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from interoperation.values import Row, from_json, to_json

FOLDER = Path(__file__).parents[2] / "integration" / "captures"
_PLACE = "file:///captured/"
"""Placeholder in messages for the folder of the batch files."""


@dataclass(frozen=True)
class Facts:
    """Metadata of a capture.

    Attributes:
        tap: Name of the tap's package.
        version: Version of the tap.
        library: The Singer library that the tap uses, with its version.
        python: The minor version of Python that ran the tap.
        kind: The kind of messages.
        rows: Number of rows in the source.
        table: The table that a target creates for the stream.
        key: The column that identifies rows.
        note: Values that the tap changes.
    """

    tap: str
    version: str
    library: str
    python: str
    kind: str
    rows: int
    table: str
    key: str
    note: str


@dataclass(frozen=True)
class Capture:
    """A capture on disk."""

    folder: Path
    facts: Facts

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.name

    def expected(self) -> list[Row]:
        """Return the rows of the source as the table must contain them."""
        return from_json(json.loads((self.folder / "expected.json").read_text()))

    def messages(self, folder: Path) -> bytes:
        """Return the tap's messages, with the batch files copied to a folder and their URLs adapted."""
        for file in (self.folder / "batches").glob("*"):
            shutil.copy(file, folder)
        with gzip.open(self.folder / "messages.jsonl.gz") as file:
            return file.read().replace(_PLACE.encode(), f"{folder.as_uri()}/".encode())


def captures(folder: Path = FOLDER) -> list[Capture]:
    """Return all captures, in order of their names."""
    found = sorted(folder.glob("*/facts.json"))
    return [Capture(path.parent, Facts(**json.loads(path.read_text()))) for path in found]


def write(folder: Path, facts: Facts, messages: bytes, batches: Path, expected: Sequence[Row]) -> None:
    """Write a capture, in place of an older one.

    Args:
        folder: Folder of the capture.
        facts: Its metadata.
        messages: Output of the tap.
        batches: The folder of the batch files that the messages name.
        expected: The rows that the table must contain.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if files := sorted(batches.glob("*")):
        (folder / "batches").mkdir()
        for file in files:
            shutil.copy(file, folder / "batches")
    kept = messages.replace(f"{batches.as_uri()}/".encode(), _PLACE.encode())
    (folder / "messages.jsonl.gz").write_bytes(gzip.compress(kept, mtime=0))
    _write_json(folder / "expected.json", to_json(list(expected)))
    _write_json(folder / "facts.json", asdict(facts))


def _write_json(path: Path, value: Any) -> None:
    if isinstance(value, list):
        rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in value)
        path.write_text(f"[\n{rows}\n]\n")
    else:
        path.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
