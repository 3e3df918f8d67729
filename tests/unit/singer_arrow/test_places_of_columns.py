"""A reading of a format of columns begins at any place of another, and gives what that gave after it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS, Course, Place, ReadOptions
from singer_arrow.reading.budget import Budget
from singer_arrow.reading.objects import ObjectReader

ROWS = 1000
TABLE = pa.table({
    "n": range(ROWS),
    "t": [f"text {i * 7919}" if i % 5 else None for i in range(ROWS)],
    "s": [{"x": i, "l": [{"y": str(i)}] * (i % 3)} if i % 7 else None for i in range(ROWS)],
})  # fmt: skip


@dataclass(frozen=True)
class Step:
    """What one step of a reading gave, and where it ended."""

    batch: pa.RecordBatch
    place: Place | None


def steps(reader: ObjectReader, kind: str, schema: pa.Schema, place: Place | None = None, **options: Any) -> list[Step]:
    course = Course(place=place or Place())
    found = FORMATS[kind].read(reader, schema, ReadOptions(**options), course)
    return [Step(batch, course.place) for batch in found]


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


FILES = {
    **{f"{rows}.parquet": parquet(TABLE, row_group_size=rows) for rows in (64, 300, ROWS)},
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("batch_rows", [50, 64, 1 << 17])
def test_every_place_gives_the_batches_that_came_after_it(objects: Any, name: str, batch_rows: int) -> None:
    kind = name.rpartition(".")[2]
    first = steps(objects.reader(FILES[name], name), kind, TABLE.schema, batch_rows=batch_rows)
    assert pa.Table.from_batches([s.batch for s in first]).equals(TABLE)
    assert [s.place.rows for s in first if s.place] == [
        sum(s.batch.num_rows for s in first[: i + 1]) for i in range(len(first))
    ]
    for i, step in enumerate(first):
        again = steps(objects.reader(FILES[name], name), kind, TABLE.schema, step.place, batch_rows=batch_rows)
        assert again == first[i + 1 :]


def test_a_place_is_good_for_batches_of_another_size(objects: Any) -> None:
    data = FILES["300.parquet"]
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
    for place in (Place(200_000, 2), Place(230_000, 2, 30_000), Place(400_000, 4)):
        reader = objects.reader(data, "a.parquet", budget=Budget(limit))  # not listed: its end is asked for first
        rest = steps(reader, "parquet", table.schema, place, batch_rows=30_000)
        assert pa.Table.from_batches([s.batch for s in rest], table.schema).equals(table.slice(place.rows))
        begin = metadata.row_group(place.at).column(0).data_page_offset if place.at < 4 else len(data)
        starts = [start for start, _, suffix in objects.storage.asked if suffix is None]
        assert all(start >= begin for start in starts)
        assert bool(starts) == (place.at < 4)


@pytest.mark.parametrize("place", [Place(9, 9), Place(1, 3, 101), Place(1, 4, 1)])
def test_a_place_that_the_file_lacks_is_refused(objects: Any, place: Place) -> None:
    with pytest.raises(DataError, match=r"no row \d+ of row group \d to go on after. Read the file from its start"):
        steps(objects.reader(FILES["300.parquet"], "a.parquet"), "parquet", TABLE.schema, place)
