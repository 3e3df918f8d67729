"""Reading of columnar formats can resume at any place of an earlier reading, with the same rows."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_bytes import avro, ipc, orc, parquet

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS, detect_format
from singer_arrow.read_options import ReadOptions, ReadProgress, ResumePoint
from singer_arrow.reading.objects import ObjectReader
from singer_arrow.reading.parallel import Budget

ROWS = 1000
TABLE = pa.table({
    "n": range(ROWS),
    "t": [f"text {i * 7919}" if i % 5 else None for i in range(ROWS)],
    "s": [{"x": i, "l": [{"y": str(i)}] * (i % 3)} if i % 7 else None for i in range(ROWS)],
})  # fmt: skip


@dataclass(frozen=True)
class Step:
    """The result of one step of a reading, and the place where it ended."""

    batch: pa.RecordBatch
    place: ResumePoint | None


def steps(
    reader: ObjectReader, kind: str, schema: pa.Schema, place: ResumePoint | None = None, **options: Any
) -> list[Step]:
    progress = ReadProgress(resume_point=place or ResumePoint())
    found = FORMATS[kind].read(reader, schema, ReadOptions(**options), progress)
    return [Step(batch, progress.resume_point) for batch in found]


FLAT = TABLE.select(["n", "t"])
FILES = {
    **{f"{rows}.parquet": (TABLE, parquet(TABLE, row_group_size=rows)) for rows in (64, 300, ROWS)},
    "a.arrow": (TABLE, ipc(TABLE, 300)),
    "a.arrows": (TABLE, ipc(TABLE, 64, pa.ipc.new_stream)),
    "a.avro": (TABLE, avro(TABLE, sync_interval=700)),
    "flat.avro": (FLAT, avro(FLAT, "deflate", sync_interval=700)),
    "a.avro.gz": (FLAT, gzip.compress(avro(FLAT, sync_interval=700))),
    "a.orc": (TABLE, orc(TABLE, batch_size=64, stripe_size=1000)),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("batch_rows", [50, 1 << 17])
def test_every_place_gives_the_batches_that_came_after_it(
    objects: Any, monkeypatch: Any, name: str, batch_rows: int
) -> None:
    monkeypatch.setattr("singer_arrow.formats.avro.GROUP_BYTES", 2000)
    kind, (table, data) = detect_format(name) or "", FILES[name]
    first = steps(objects.reader(data, name), kind, table.schema, batch_rows=batch_rows)
    assert pa.Table.from_batches([s.batch for s in first]).equals(table)
    ends = list(accumulate(s.batch.num_rows for s in first))
    assert [s.place.rows for s in first if s.place] == ends
    for i, step in enumerate(first):
        again = steps(objects.reader(data, name), kind, table.schema, step.place, batch_rows=batch_rows)
        assert again == first[i + 1 :]


def test_a_place_is_good_for_batches_of_another_size(objects: Any) -> None:
    data = FILES["300.parquet"][1]
    first = steps(objects.reader(data, "a.parquet"), "parquet", TABLE.schema, batch_rows=70)
    for step in first:
        assert step.place is not None
        rest = steps(objects.reader(data, "a.parquet"), "parquet", TABLE.schema, step.place, batch_rows=41)
        assert pa.Table.from_batches([s.batch for s in rest], TABLE.schema).equals(TABLE.slice(step.place.rows))


@pytest.mark.parametrize("limit", [1 << 30, 1 << 20], ids=["held", "through windows"])
def test_row_groups_before_the_place_are_not_fetched(objects: Any, limit: int) -> None:
    table = pa.table({"n": range(400_000)})
    data = parquet(table, row_group_size=100_000, compression="none", use_dictionary=False)
    metadata = pq.read_metadata(io.BytesIO(data))
    for place in (ResumePoint(200_000, 2), ResumePoint(230_000, 2, 30_000), ResumePoint(400_000, 4)):
        reader = objects.reader(data, "a.parquet", budget=Budget(limit))  # not listed: its end is asked for first
        rest = steps(reader, "parquet", table.schema, place, batch_rows=30_000)
        assert pa.Table.from_batches([s.batch for s in rest], table.schema).equals(table.slice(place.rows))
        begin = metadata.row_group(place.at).column(0).data_page_offset if place.at < 4 else len(data)
        starts = [start for start, _, suffix in objects.storage.asked if suffix is None]
        assert all(start >= begin for start in starts)
        assert bool(starts) == (place.at < 4)


def test_blocks_before_the_place_are_not_fetched(objects: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("singer_arrow.formats.avro.GROUP_BYTES", 500_000)
    monkeypatch.setattr("singer_arrow.reading.objects.SMALL_OBJECT", 100_000)
    table = pa.table({"t": [f"{i * 7919:0100}" for i in range(40_000)]})
    data = avro(table, sync_interval=20_000)
    first = steps(objects.reader(data, "a.avro", listed=True), "avro", table.schema)
    place = first[3].place
    assert place is not None
    rest = steps(objects.reader(data, "a.avro", listed=True), "avro", table.schema, place)
    assert rest == first[4:]
    head, *others = sorted((start, end) for start, end, _ in objects.storage.asked)
    assert head == (0, 256 << 10)
    assert others[0][0] == place.at


PLACES = [
    *(("300.parquet", place) for place in (ResumePoint(9, 9), ResumePoint(1, 3, 101), ResumePoint(1, 4, 1))),
    *(("a.arrow", place) for place in (ResumePoint(9, 9), ResumePoint(1, 3, 101), ResumePoint(1, 4, 1))),
    ("a.orc", ResumePoint(1, 0, ROWS + 1)),
    ("a.avro", ResumePoint(1, len(FILES["a.avro"][1]), 1)),
    ("a.avro", ResumePoint(1, 10_000, 0)),
    ("a.avro", ResumePoint(1, 1 << 30, 0)),
    ("a.avro.gz", ResumePoint(1, 1 << 30, 0)),
]


@pytest.mark.parametrize(("name", "place"), PLACES, ids=range(len(PLACES)))
def test_a_place_that_the_file_lacks_is_refused(objects: Any, name: str, place: ResumePoint) -> None:
    table, data = FILES[name]
    with pytest.raises(DataError, match=r"no row begins at byte or part|a block .* is damaged"):
        steps(objects.reader(data, name), detect_format(name) or "", table.schema, place)
