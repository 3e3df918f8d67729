"""No setting duplicates a row: an object is cut where the first run cut it, for all later settings."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from convert_folder import Folder
from file_bytes import avro, ipc, parquet
from hypothesis import given, settings
from hypothesis import strategies as st

from singer_arrow.batch.message import Batch
from singer_arrow.errors import DataError
from singer_arrow.read_options import RESCUED, ReadOptions
from singer_arrow.schema.arrow_schema import json_field
from singer_arrow.storage.urls import Url
from tap_s3_files import plan_model as plan
from tap_s3_files.convert import Step
from tap_s3_files.discover import METADATA
from tap_s3_files.plan_model import Cuts, Position, Task
from tap_s3_files.run import StreamJob

ROWS = 600
BAD = {n for n in range(ROWS) if n % 97 == 60 or 200 <= n < 210}
TEXTS = [f"text {n * 7919}" * (n % 4) for n in range(ROWS)]
NUMBERS = [1 << 40 if n in BAD else n for n in range(ROWS)]
TABLE = pa.table({"id": range(ROWS), "n": NUMBERS, "t": TEXTS, "u": [f"{n}" * 5 for n in range(ROWS)]})
LINES = b"".join(json.dumps(row).encode() + b"\n" for row in TABLE.to_pylist())
CSV = "id,n,t,u\n" + "".join(f"{r['id']},{r['n']},{r['t']},{r['u']}\n" for r in TABLE.to_pylist())
OBJECTS = {
    "a.csv": CSV.encode(),
    "a.csv.gz": gzip.compress(CSV.encode(), mtime=0),
    "a.jsonl": LINES,
    "a.jsonl.gz": gzip.compress(LINES, mtime=0),
    "a.parquet": parquet(TABLE, row_group_size=130),
    "b.parquet": parquet(TABLE.select(["id", "t"]), row_group_size=ROWS),
    "a.avro": avro(TABLE, sync_interval=700),
    "a.arrow": ipc(TABLE, 130),
}
WIDE, NARROW = pa.int64(), pa.int32()
ENCODINGS = [("parquet", "zstd"), ("parquet", "none"), ("jsonl", "gzip"), ("jsonl", "none")]


@st.composite
def jobs(draw: st.DrawFn, *, on_bad_row: str | None = None) -> tuple[StreamJob, dict[str, Any], int]:
    """Generate the settings of a run: the job, its batch files, and their target size."""
    kind = draw(st.sampled_from(ENCODINGS))
    on_bad_row = on_bad_row or draw(st.sampled_from(["fail", "skip", "rescue"]))
    columns = [pa.field("id", WIDE)]
    columns += [pa.field("n", draw(st.sampled_from([WIDE, NARROW])))] if draw(st.booleans()) else []
    columns += [pa.field(name, pa.string()) for name in ("t", "u") if draw(st.booleans())]
    columns += [json_field(RESCUED)] if on_bad_row == "rescue" else []
    metadata = draw(st.booleans())
    job = StreamJob(
        "orders",
        pa.schema([*columns, *(METADATA if metadata else ())]),
        metadata,
        "auto",
        ReadOptions(on_bad_row=on_bad_row, block_bytes=1 << 11, batch_rows=draw(st.sampled_from([37, 1 << 17]))),
        passthrough=kind[0] if draw(st.booleans()) else "",
        settings=f"{draw(st.integers(0, 1))}",
    )
    return job, {"format": kind[0], "compression": kind[1]}, draw(st.sampled_from([300, 1000, 1 << 20]))


def ids_of(batch: Batch) -> list[int]:
    """Return the ids of a batch; every choice of settings sends this column."""
    found: list[int] = []
    for url in batch.manifest:
        path = Url.parse(url).local_path()
        if path.suffix == ".parquet":
            found += pq.read_table(path).column("id").to_pylist()
        else:
            data = path.read_bytes()
            data = gzip.decompress(data) if path.suffix == ".gz" else data
            found += [json.loads(line)["id"] for line in data.splitlines()]
    return [n for n in found if n not in BAD]


@pytest.mark.parametrize("name", OBJECTS)
@settings(max_examples=settings.default.max_examples // 5)
@given(data=st.data())
@pytest.mark.full
def test_whatever_the_settings_of_runs_are_each_row_is_sent_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "SMALL_OBJECT", 0)
        patch.setattr("singer_arrow.formats.avro.GROUP_BYTES", 2000)
        path = tmp_path_factory.mktemp("settings")
        folder = Folder(path)
        task = Task((folder.write(name, OBJECTS[name]),))
        loaded: dict[str, list[int]] = {}
        after: Position | None = None

        def run(found: tuple[StreamJob, dict[str, Any], int], start: Position | None) -> Iterator[Step]:
            job, encoding, size = found
            cuts = Cuts(folder.storage, Url.parse(str(path / "cuts")), "x")
            return folder.steps(task, job=job, target_bytes=size, start=start, cuts=cuts, **encoding)

        for _ in range(data.draw(st.integers(1, 3), "runs")):
            start = data.draw(st.sampled_from([None, after]), "STATE")
            steps = run(data.draw(jobs(), "settings"), start)
            with suppress(DataError):
                for step in islice(steps, data.draw(st.none() | st.integers(1, 9), "killed after")):
                    if step.batch is not None and data.draw(st.integers(0, 9), "lost") < 9:
                        loaded.setdefault(step.batch.batch_id, ids_of(step.batch))
                        if step.after is not None:
                            after = Position(0, step.after.rows, None)
                    elif step.batch is not None:
                        break
        start = data.draw(st.sampled_from([None, after]), "STATE")
        for step in run(data.draw(jobs(on_bad_row="skip"), "settings"), start):
            if step.batch is not None:
                loaded.setdefault(step.batch.batch_id, ids_of(step.batch))
        counts = Counter(n for some in loaded.values() for n in some)
        assert {n: c for n, c in counts.items() if c > 1} == {}
        # A file that a run marked as the last, up to the object's end, completes the object.
        assert sorted(counts) == sorted(set(range(ROWS)) - BAD)
