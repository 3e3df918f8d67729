"""A reading may end at a place of another one: the parts of a file together give all of its rows."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from file_bytes import avro, ipc, parquet

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import FixedColumn, ReadOptions, ReadProgress, ResumePoint

ROWS = 150
BAD = {n for n in range(ROWS) if n % 37 == 20 or 60 <= n < 72}
TABLE = pa.table({
    "id": range(ROWS),
    "n": [1 << 40 if n in BAD else n for n in range(ROWS)],
    "t": ["x" * (n % 90) for n in range(ROWS)],
})  # fmt: skip
CSV = "id,n,t\n" + "".join(f"{r['id']},{r['n']},{r['t']}\n" for r in TABLE.to_pylist())
JSONL = "".join(json.dumps(r) + "\n" for r in TABLE.to_pylist())
FIXED = "".join(f"{r['id']:8}{r['n']:16}{r['t']:90}\n" for r in TABLE.to_pylist())
FILES = {
    "csv": CSV.encode(),
    "csv gzip": gzip.compress(CSV.encode()),
    "jsonl": JSONL.encode(),
    "jsonl gzip": gzip.compress(JSONL.encode()),
    "fixed_width": FIXED.encode(),
    "parquet": parquet(TABLE, row_group_size=70),
    "parquet whole": parquet(TABLE, row_group_size=ROWS),
    "avro": avro(TABLE, sync_interval=500),
    "arrow": ipc(TABLE, 70),
}
HOW = {"block_bytes": 300, "fixed_width": (FixedColumn("id", 1, 8), FixedColumn("n", 9, 16), FixedColumn("t", 25, 90))}
SCHEMAS = {
    "all": pa.schema([("id", pa.int64()), ("n", pa.int64()), ("t", pa.string())]),
    "narrow": pa.schema([("id", pa.int64()), ("n", pa.int32()), ("t", pa.string())]),
    "id": pa.schema([("id", pa.int64())]),
    "n": pa.schema([("n", pa.int32()), ("id", pa.int64())]),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks and batches of Parquet small; the latter depend on the columns that are read."""
    monkeypatch.setattr("singer_arrow.formats.avro.GROUP_BYTES", 2000)


def read(
    objects: Any,
    name: str,
    schema: str,
    begin: ResumePoint | None = None,
    end: ResumePoint | None = None,
    **options: Any,
) -> tuple[list[int], list[ResumePoint]]:
    """Return the ids of the rows between two places, and the places after each batch."""
    kind, _, codec = name.partition(" ")
    how = ReadOptions(**{**HOW, "compression": codec if codec == "gzip" else "none", **options})
    progress, ids, places = ReadProgress(begin or ResumePoint(), end=end), list[int](), list[ResumePoint]()
    for batch in FORMATS[kind].read(objects.reader(FILES[name], "a"), SCHEMAS[schema], how, progress):
        ids += batch.column("id").to_pylist()
        assert progress.resume_point is not None
        places.append(progress.resume_point)
    return ids, places


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("first", ["all", "narrow", "id"])
def test_parts_between_places_make_the_whole(objects: Any, name: str, schema: str, first: str) -> None:
    """The first reading gives the places, and may skip other rows than the parts do."""
    how = {"on_bad_row": "skip", "batch_rows": 23}
    expected, places = read(objects, name, first, **how)
    assert len(places) > 2
    assert read(objects, name, first, None, places[-1], **how)[0] == expected
    every = set(range(ROWS)) - (BAD if schema in ("narrow", "n") else set())
    cuts = [ResumePoint(), *places]
    found = [read(objects, name, schema, a, b, on_bad_row="skip", batch_rows=41)[0] for a, b in pairwise(cuts)]
    rest, _ = read(objects, name, schema, places[-1], on_bad_row="skip")
    assert [n for some in (*found, rest) for n in some] == sorted(every)
    counts = [b.rows - a.rows for a, b in pairwise(cuts)]
    theirs = [expected[a.rows : b.rows] for a, b in pairwise(cuts)]
    assert [len(ids) for ids in theirs] == counts
    for ours, other in zip(found, theirs, strict=True):  # the good rows of each part
        assert [n for n in ours if n not in BAD] == [n for n in other if n not in BAD]


@pytest.mark.parametrize("name", FILES)
def test_any_two_places_have_the_rows_between_them(objects: Any, name: str) -> None:
    expected, places = read(objects, name, "all", batch_rows=31)
    cuts = [ResumePoint(), *places]
    step = max(1, len(cuts) // 8)
    for i in range(0, len(cuts), step):
        for j in range(i + 1, len(cuts), step):
            ids, _ = read(objects, name, "id", cuts[i], cuts[j])
            assert ids == expected[cuts[i].rows : cuts[j].rows]


@pytest.mark.parametrize("name", ["csv", "jsonl", "fixed_width"])
def test_an_end_that_no_row_has_is_refused(objects: Any, name: str) -> None:
    _, places = read(objects, name, "all")
    wrong = ResumePoint(places[1].rows, places[1].at + 1, places[1].lines)
    with pytest.raises(DataError, match=r"no row begins at byte or part .*, where an earlier run ended") as caught:
        read(objects, name, "all", None, wrong)
    assert "\n" not in str(caught.value)


def test_nothing_is_read_behind_an_end(objects: Any) -> None:
    """Damage after the end of a part does not affect it."""
    _, places = read(objects, "csv", "all", batch_rows=10)
    data = FILES["csv"]
    progress = ReadProgress(end=places[2])
    broken = objects.reader(data[: places[2].at + 500] + b'"' + b"a" * 999, "a")
    options = ReadOptions(**{**HOW, "compression": "none"})
    given = list(FORMATS["csv"].read(broken, SCHEMAS["all"], options, progress))
    assert sum(b.num_rows for b in given) == places[2].rows
