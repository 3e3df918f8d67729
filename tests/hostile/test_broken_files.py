"""Corrupted files give the rows that other readers find, or a one-line error with the file's name.

There is no traceback and no hang.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_bytes import avro, ipc, orc, parquet
from forked_tap import LONGEST_S, ForkedTap, forked_tap
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from pyarrow import orc as pa_orc
from pysequoia import encrypt
from workbooks import xlsx

MEMORY_MB, MORE_MB = 100, 250
PASSPHRASE = "of an encrypted object"
ROWS = [
    {"id": n, "name": f"näme {n % 7}", "at": date(2024, 1, 1 + n % 28), "price": Decimal(n) / 100, "tags": ["a", "é"]}
    for n in range(300)
]
TABLE = pa.Table.from_pylist(ROWS)
FLAT = [{k: v for k, v in row.items() if k != "tags"} for row in ROWS]
CSV = "id,name,at,price\n" + "".join(",".join(map(str, row.values())) + "\n" for row in FLAT)
JSONL = "".join(json.dumps(row, default=str) + "\n" for row in ROWS)


def zipped(name: str, data: bytes) -> bytes:
    """Return a zip archive of one file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


XML = "".join(f"<row>{''.join(f'<{k}>{v}</{k}>' for k, v in row.items())}</row>\n" for row in FLAT)
FILES: dict[str, bytes] = {
    "a.csv": CSV.encode(),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.csv.bz2": bz2.compress(CSV.encode()),
    "a.jsonl": JSONL.encode(),
    "a.jsonl.xz": lzma.compress(JSONL.encode()),
    "a.json": json.dumps(ROWS, default=str).encode(),
    "a.xml": f"<rows kind='all'>\n{XML}</rows>".encode(),
    "a.csv.gpg": encrypt(CSV.encode(), passwords=[PASSPHRASE], armor=False),
    "csv.zip": zipped("a.csv", CSV.encode()),
    "plain.parquet": parquet(TABLE, compression="none", row_group_size=100, use_dictionary=False),
    "snappy.parquet": parquet(TABLE, compression="snappy", row_group_size=100, write_page_checksum=True),
    "zstd.parquet": parquet(TABLE, compression="zstd", data_page_version="2.0", data_page_size=500),
    "brotli.parquet": parquet(TABLE, compression="brotli", write_page_index=True, store_schema=False),
    "file.arrow": ipc(TABLE, 100, compression="lz4"),
    "stream.arrow": ipc(TABLE, 100, pa.ipc.new_stream),
    "a.avro": avro(TABLE, "deflate", sync_interval=1000),
    "a.orc": orc(TABLE, compression="zstd"),
    "a.xlsx": xlsx({"rows": [list(FLAT[0]), *([n, f"n{n}", float(n)] for n in range(50))]}),
}
READERS: dict[str, Callable[[bytes], int]] = {
    "parquet": lambda data: int(pq.read_table(io.BytesIO(data)).num_rows),
    "orc": lambda data: int(pa_orc.read_table(io.BytesIO(data)).num_rows),
    "avro": lambda data: sum(1 for _ in fastavro.reader(io.BytesIO(data))),
    "gpg": lambda data: len(ROWS) if data else 0,  # one that was changed is not read
    "xml": lambda data: len(etree.fromstring(data).findall("*")),
}
"""Functions that count the rows with other libraries."""


@st.composite
def broken(draw: st.DrawFn, data: bytes) -> bytes:
    """Return a file with bits flipped, bytes cut out, repeated, or replaced by extreme lengths."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        if not found:
            break
        anywhere = st.integers(0, len(found) - 1)
        at_an_end = st.integers(0, min(60, len(found) - 1)).flatmap(lambda n: st.sampled_from([n, len(found) - 1 - n]))
        at = draw(st.one_of(anywhere, at_an_end))
        size = draw(st.integers(1, 12))
        match draw(st.sampled_from(["flip", "cut", "remove", "repeat", "replace"])):
            case "flip":
                found[at] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del found[at:]
            case "remove":
                del found[at : at + size]
            case "repeat":
                found[at:at] = found[at : at + size * 20]
            case _:
                found[at : at + size] = draw(st.sampled_from([b"\xff", b"\x00", b"\x7f", b"\x80", b"\xfe"])) * size
    return bytes(found)


@pytest.fixture(scope="module")
def tap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedTap]:
    with forked_tap(tmp_path_factory.mktemp("runs")) as running:
        yield running


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=settings.default.max_examples // 3)
@given(data=st.data())
def test_a_broken_file_is_read_or_named(
    tap: ForkedTap, tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    content = data.draw(broken(FILES[name]))
    on_bad_row = data.draw(st.sampled_from(["fail", "skip", "rescue"]))
    path = tmp_path_factory.getbasetemp() / "broken" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    ended = tap.run(_config(path, on_bad_row))
    assert ended.seconds < LONGEST_S
    assert ended.megabytes < MEMORY_MB + MORE_MB
    assert "Traceback" not in ended.log, ended.log
    assert ended.code in (0, 1), ended.log
    if ended.code == 1:
        errors = [line for line in ended.log.splitlines() if name in line]
        assert errors, ended.log
    elif (count := READERS.get(path.suffix[1:])) is not None and on_bad_row == "fail":
        try:
            others = count(content)
        except Exception:  # noqa: BLE001 - any reader may fail in any way
            return
        assert sum(m["type"] == "RECORD" for m in ended.messages) == others


def _config(path: Path, on_bad_row: str) -> dict[str, Any]:
    return {
        "streams": [
            {"name": "rows", "path": str(path), "on_bad_row": on_bad_row, "decryption": {"passphrase": PASSPHRASE}}
        ],
        "metadata_columns": False,
        "memory_limit_mb": MEMORY_MB,
    }
