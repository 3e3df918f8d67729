"""Runs killed any number of times, with any STATE and new files in between: every row is loaded once.

The target is a model of the guarantees of ours: batches are identified by their ids, and rows are those of the files.
"""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_arrow.storage.urls import Url
from tap_s3_files import plan_model as plan
from tap_s3_files.settings import StreamSettings
from tap_s3_files.tap import TapS3Files


class KilledError(BaseException):
    """Raised where the process is killed."""


class Pipe(io.StringIO):
    """Accepts a number of lines, then kills the writing process."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self.most, self.lines = most, list[dict[str, Any]]()

    def write(self, text: str) -> int:
        for line in text.splitlines():
            if self.most is not None and len(self.lines) >= self.most:
                raise KilledError
            self.lines.append(json.loads(line))
        return len(text)


class Target:
    """A warehouse that skips batches that it has loaded."""

    def __init__(self) -> None:
        self.batches: dict[str, list[dict[str, Any]]] = {}
        self.schemas: list[dict[str, Any]] = []

    def take(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            if message["type"] == "SCHEMA":
                self.schemas.append(message["schema"])
            elif message["type"] == "BATCH" and message["batch_id"] not in self.batches:
                columns = set(self.schemas[-1]["properties"])
                rows = [
                    row for url in message["manifest"] for row in pq.read_table(Url.parse(url).local_path()).to_pylist()
                ]
                assert all(set(row) <= columns for row in rows)
                assert len(rows) == message["row_count"]
                self.batches[message["batch_id"]] = rows

    def rows(self) -> Counter[tuple[tuple[str, Any], ...]]:
        rows = (row for batch in self.batches.values() for row in batch)
        return Counter(tuple(sorted((k, str(v)) for k, v in row.items() if v is not None)) for row in rows)


class Source:
    """A folder of files, and the rows that they contain."""

    def __init__(self, path: Path) -> None:
        self.path, self.every = path, list[dict[str, Any]]()
        (path / "in").mkdir()

    def csv(self, name: str, columns: list[str], rows: int, *, text: bool) -> None:
        found = [{c: f"{'x' * (text and c == 'a')}{len(self.every) + n}" for c in columns} for n in range(rows)]
        lines = [",".join(columns), *(",".join(row.values()) for row in found)]
        (self.path / "in" / name).write_text("\n".join(lines) + "\n")
        self.every += found

    def parquet(self, name: str, columns: list[str], rows: int, *, text: bool) -> None:
        made = [len(self.every) + n for n in range(rows)]
        found = [{c: f"x{n}" if text and c == "a" else n for c in columns} for n in made]
        table = pa.table({c: [r[c] for r in found] for c in columns})
        pq.write_table(table, self.path / "in" / name, row_group_size=40)
        self.every += [{c: str(v) for c, v in r.items()} for r in found]

    def jsonl(self, name: str, columns: list[str], rows: int, *, text: bool) -> None:
        """Return JSON Lines with further columns from the middle on."""
        made = [len(self.every) + n for n in range(rows)]
        found = [
            {c: f"x{n}" if text and c == "a" else n for c in columns[: None if at >= rows // 2 else 1]}
            for at, n in enumerate(made)
        ]
        (self.path / "in" / name).write_text("".join(json.dumps(row) + "\n" for row in found))
        self.every += [{c: str(v) for c, v in r.items()} for r in found]

    def rows(self) -> Counter[tuple[tuple[str, Any], ...]]:
        return Counter(tuple(sorted(row.items())) for row in self.every)

    def run(
        self, state: dict[str, Any] | None = None, *, most: int | None = None, passthrough: bool = False
    ) -> list[dict[str, Any]]:
        """Return the messages of a run that is killed after that many of them."""
        out = str(self.path / "out")
        batches = {
            "encoding": {"format": "parquet"},
            "storage": {"root": f"file://{out}"},
            "target_file_mb": 0.0003,
        }
        config = {
            "streams": [{"name": "rows", "path": str(self.path / "in" / "*")}],
            "batch_config": batches,
            "metadata_columns": False,
            "schema_sample_files": 1,
            "passthrough": passthrough,
        }
        pipe = Pipe(most)
        with redirect_stdout(pipe), suppress(KilledError):
            TapS3Files(config=config, state=state).sync_all()
        return pipe.lines


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make segments of few objects and files of few rows."""
    monkeypatch.setattr(plan, "SEGMENT_OBJECTS", 5)
    monkeypatch.setattr(plan, "BUNDLE_OBJECTS", 2)
    monkeypatch.setattr(plan, "SMALL_OBJECT", 600)
    read = StreamSettings.__dataclass_fields__["read"]
    monkeypatch.setattr(read, "default", replace(read.default, block_bytes=150, batch_rows=16))


def states(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [m["value"] for m in messages if m["type"] == "STATE"]


COLUMNS = (["id"], ["id", "a"], ["a", "id"], ["id", "b"], ["id", "a", "b", "c"])


@settings(max_examples=settings.default.max_examples // 4)
@given(st.integers(0, 2**32), st.sampled_from(["csv", "parquet", "jsonl", "all"]))
@pytest.mark.full
def test_every_row_is_loaded_once(tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str) -> None:
    chance = random.Random(seed)
    source, target = Source(tmp_path_factory.mktemp("source")), Target()
    make = {"csv": source.csv, "parquet": source.parquet, "jsonl": source.jsonl}
    state: dict[str, Any] | None = None
    number = 0
    for _ in range(chance.randint(1, 5)):
        for _ in range(chance.randint(0, 4) + (number == 0)):
            number += 1
            form = chance.choice(list(make)) if kind == "all" else kind
            rows, text = chance.choice([1, 3, 30, 200, 400]), chance.random() < 0.2
            make[form](f"{number:03d}.{form}", chance.choice(COLUMNS), rows, text=text)
        most = chance.choice([None, *[chance.randint(1, 30)] * 3])
        messages = source.run(state, most=most, passthrough=chance.random() < 0.3)
        target.take(messages)
        state = chance.choice([state, *states(messages)])  # the messages that reached the target
    for _ in range(2):
        messages = source.run(state)
        target.take(messages)
        state = (states(messages) or [state])[-1]
    assert target.rows() == source.rows()
    assert [m["type"] for m in source.run(state) if m["type"] == "BATCH"] == []
