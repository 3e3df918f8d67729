"""Small objects fetched and parsed together give the same rows as each alone."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singer_arrow.errors import ObjectChangedError, SingerArrowError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress
from singer_arrow.reading.objects import SMALL_OBJECT, ObjectReader, prefetch_groups
from singer_arrow.reading.parallel import Budget

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
PLAIN = ReadOptions(on_drift="raise", known_columns=frozenset(["id", "name", "at"]))
CSV = [
    b"id,name,at\n1,a,2024-05-01T00:00:00Z\n2,b,\n",
    b'id,name,at\r\n3,"x, ""y""\nz",\r\n',
    b"id,name,at\n\n4,,2024-05-01\n\n5,e,",
    b"\xef\xbb\xbfid,name,at\n6,f,\n",
    b"id,name,at\n",
    gzip.compress(b"id,name,at\n7,g,\n"),
]
ODD_CSV = [
    b'id,name,at\n1,"open,\n',
    b'id,name,at\n1,a"b,\n',
    b'"closed""",\n',
    b"name,id,at\nq,8,\n",
    b"id;name;at\n1;a;\n",
    b"id,name,at\nx,a,\n",
    b"id,name,at\n1,a,,,\n",
    b"id,name,at,more\n1,a,,1\n",
    b"id,name,at\n1,\xff,\n",
]
JSON = [
    b'{"id":1,"name":"a","at":"2024-05-01T00:00:00Z"}\n{"id":2}\n',
    b'{"name":"x\\ny","id":3}',
    b'{"id":4.0}\n{"id":5,"at":"2024-05-01 00:00:00"}\n',
    gzip.compress(b'{"id":6}\n'),
]
ODD_JSON = [
    b'[{"id":7}]',
    b'\n{"id":1}\n',
    b'{"id":1}\n\n{"id":2}\n',
    b'{"id":1} {"id":2}\n',
    b'{"id":"x"}\n',
    b'{"id":1}\nnull\n',
    b'{"id":1,"more":2}\n',
    b'{"id":1,"name":"\xff"}\n',
    b'{"id":1',
]


def _write(objects: Any, bodies: list[bytes], name: str) -> list[Any]:
    return [objects.storage.head(objects.write(body, f"{i}-{name}")) for i, body in enumerate(bodies)]


def _alone(objects: Any, info: Any, kind: Any, options: ReadOptions) -> list[dict[str, Any]] | str:
    progress = ReadProgress()
    try:
        found = list(kind.read(ObjectReader(objects.storage, info.url, info=info), SCHEMA, options, progress))
    except SingerArrowError as error:
        return str(error)
    if progress.skipped or progress.rescued:
        return "counts"
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.parametrize(("name", "bodies"), [("a.csv", CSV), ("a.jsonl", JSON)])
def test_plain_files_are_parsed_together(objects: Any, name: str, bodies: list[bytes]) -> None:
    kind, infos = FORMATS[name[2:]], _write(objects, bodies, name)
    readers = [ObjectReader(objects.storage, info.url, info=info) for info in infos]
    found = kind.join(readers, SCHEMA, PLAIN)
    assert found is not None
    assert [b.to_pylist() for b in found] == [_alone(objects, info, kind, PLAIN) for info in infos]
    assert all(b.schema.equals(SCHEMA) for b in found)


@settings(
    deadline=None,
    max_examples=settings.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    picked=st.lists(st.integers(0, 14), min_size=2, max_size=5),
    csv=st.booleans(),
    policy=st.sampled_from([("fail", "raise"), ("skip", "raise"), ("rescue", "rescue"), ("fail", "ignore")]),
)
def test_odd_files_are_left_to_themselves(objects: Any, picked: list[int], csv: bool, policy: tuple[str, str]) -> None:
    bodies, name = (CSV + ODD_CSV, "b.csv") if csv else (JSON + ODD_JSON, "b.jsonl")
    kind, infos = FORMATS[name[2:]], _write(objects, [bodies[i % len(bodies)] for i in picked], name)
    options = replace(PLAIN, on_bad_row=policy[0], on_drift=policy[1])
    readers = [ObjectReader(objects.storage, info.url, info=info) for info in infos]
    found = kind.join(readers, SCHEMA, options)
    if found is not None:
        assert [b.to_pylist() for b in found] == [_alone(objects, info, kind, options) for info in infos]


@pytest.mark.parametrize(
    "bodies",
    [
        [b'{"id":\n4}\n', b'{"id":5}{"id":6}\n'],
        [b'{"id":4,"of":\n{"id":7}}\n', b'{"id":5}{"id":6}\n'],
        [b'{"id":4,"of":{"id":7}\n}\n', b'{"id":5}{"id":6}\n'],
        [b'{"id":4,"of":\n', b'{"id":5}}\n'],
        [b'{"id":4,"of":[{"id":1},\n', b'{"id":5}]}\n'],
        [b'{"id":4}{"id":5}\n', b"\n", b'{"id":6}\n'],
        [b'{"id":4}{"id":5}\n', b'{"id":6}\n{\n', b"}\n"],
        [b'{"id":4} null\n', b'{"id":5}\n'],
        [b'{"id":4}{"id":5}\x00 }\n', b'{"id":6}\n'],
    ],
)
def test_files_that_make_up_for_one_another_are_not_parsed_together(objects: Any, bodies: list[bytes]) -> None:
    infos = _write(objects, bodies, "f.jsonl")
    readers = [ObjectReader(objects.storage, info.url, info=info) for info in infos]
    kind: Any = FORMATS["jsonl"]
    assert kind.join(readers, SCHEMA, ReadOptions()) is None


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl", "c.parquet"])
def test_many_files_are_read_in_order(objects: Any, name: str) -> None:
    kind: Any = FORMATS[name[2:]]
    bodies = [_file(name[2:], objects, list(range(i, i + 3))) for i in range(300)]
    infos, budget = _write(objects, bodies, name), Budget(1 << 20)
    schema = pa.schema([("id", pa.int64())])
    objects.storage.asked.clear()
    found = list(_read_all(kind, objects.storage, infos, schema, ReadOptions(), budget))
    assert [(r.url, row["id"]) for r, b in found for row in b.to_pylist()] == [
        (info.url, n) for i, info in enumerate(infos) for n in range(i, i + 3)
    ]
    assert len(objects.storage.asked) == 300
    assert budget.fetched.used == 0
    assert budget.fetched.peak <= 1 << 20


def _read_all(kind: Any, storage: Any, infos: Any, schema: pa.Schema, options: ReadOptions, budget: Budget) -> Any:
    """Yield each batch with the reader of its file."""
    for readers in prefetch_groups(storage, infos, budget):
        batches = kind.join(readers, schema, options) if len(readers) > 1 else None
        if batches is not None:
            yield from zip(readers, batches, strict=True)
            continue
        for reader in readers:
            yield from ((reader, batch) for batch in kind.read(reader, schema, options))


def _file(kind: Any, objects: Any, values: list[int]) -> bytes:
    if kind == "csv":
        return b"id\n" + b"".join(b"%d\n" % v for v in values)
    if kind == "jsonl":
        return b"".join(b'{"id":%d}\n' % v for v in values)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": values}), sink)
    return bytes(sink.getvalue())


def test_a_deleted_file_is_an_error_after_the_files_before_it(objects: Any) -> None:
    infos = _write(objects, [b'{"id":1}\n', b'{"id":2}\n', b'{"id":3}\n'], "d.jsonl")
    objects.storage.delete([infos[1].url])
    read, budget = list[int](), Budget()
    batches = _read_all(FORMATS["jsonl"], objects.storage, infos, SCHEMA, PLAIN, budget)
    with pytest.raises(ObjectChangedError, match="1-d.jsonl"):
        read.extend(n for _, batch in batches for n in batch.column("id").to_pylist())
    assert read == [1]
    assert budget.fetched.used == 0


def test_large_objects_are_not_fetched_ahead(objects: Any) -> None:
    infos = _write(objects, [b"x" * 10, b"y" * (SMALL_OBJECT + 1), b"z" * 10, b""], "e.bin")
    objects.storage.asked.clear()
    budget = Budget()
    seen = []
    for group in prefetch_groups(objects.storage, infos, budget):
        seen.append([reader.size for reader in group])
        assert budget.fetched.used == sum(r.size for r in group if r.is_small)
    assert seen == [[10], [SMALL_OBJECT + 1], [10], [0]]
    assert budget.fetched.used == 0
