r"""A backslash before quotes (`\"`) is detected as an escape at the beginning of a file, and nowhere else believed."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singer_arrow.errors import DataError
from singer_arrow.formats import FORMATS
from singer_arrow.read_options import ReadOptions, ReadProgress

ESCAPED = b'id,item\n1,"a \\"b\\", c"\n2,plain\n3,"ends with \\\\"\n'
ITEMS = ['a "b", c', "plain", "ends with \\"]


@pytest.mark.parametrize("block", [1, 13, 4 << 20])
def test_escaped_quotes_are_read(objects: Any, block: int) -> None:
    assert objects.read(ESCAPED, "a.csv", block_bytes=block)["item"].to_pylist() == ITEMS
    semicolons = ESCAPED.replace(b"1,", b"1;").replace(b"2,", b"2;").replace(b"3,", b"3;").replace(b"id,", b"id;")
    assert objects.read(semicolons, "b.csv", block_bytes=block)["item"].to_pylist() == ITEMS


@pytest.mark.parametrize(
    "text",
    [
        b'id,path\n1,"C:\\dir\\"\n2,"D:\\"\n',  # the quote closes the value
        b'id,path\n1,"say ""C:\\"""\n',
        b"id,path\n1,C:\\new\n",
    ],
)
def test_backslashes_are_characters_where_that_reads_well(objects: Any, text: bytes) -> None:
    ours = objects.read(text, "path.csv")["path"].to_pylist()
    assert ours == [row["path"] for row in csv.DictReader(io.StringIO(text.decode()))]


def test_an_escape_may_be_switched_off(objects: Any) -> None:
    with pytest.raises(
        DataError, match='line 2: a quote that opens .*with csv.escape: "\\\\\\\\" each of these rows has 2'
    ):
        objects.infer(ESCAPED, "off.csv", escape="")


def test_a_backslash_before_another_character_is_a_bad_row(objects: Any) -> None:
    filler = b"".join(b'%d,"x \\"y\\""\n' % n for n in range(6000))  # the beginning shows none
    data = b"id,item\n" + filler + b'7000,"C:\\new \\"z\\""\n7001,last\n'
    schema = objects.infer(data, "odd.csv", sample_bytes=1000)
    with pytest.raises(DataError, match="line 6002: it has a backslash before another character than a quote"):
        objects.read(data, "odd.csv", schema)
    progress = ReadProgress()
    reader = objects.reader(data, "odd.csv")
    batches = list(FORMATS["csv"].read(reader, schema, ReadOptions(on_bad_row="skip"), progress))
    items = [item for batch in batches for item in batch["item"].to_pylist()]
    assert (len(items), items[0], items[-1], progress.skipped) == (6001, 'x "y"', "last", 1)


def test_an_open_quote_in_the_header_has_a_hint(objects: Any) -> None:
    with pytest.raises(DataError, match=r"line 1: a quote is opened in the header and never closed. Check csv.quote"):
        objects.infer(b'a,"b\n1,2\n', "open.csv")


ITEM = st.text(st.sampled_from('ab,;"\\\n'), max_size=6)


@given(items=st.lists(ITEM, min_size=1, max_size=8), block=st.sampled_from([1, 9, 999]))
def test_what_is_read_is_what_was_escaped_or_refused(objects: Any, items: list[str], block: int) -> None:
    """A file that a writer made with escapes is read as it was meant, or named: never read in another way."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, doublequote=False, escapechar="\\", quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["id", "item"])
    writer.writerows([n, item] for n, item in enumerate(items))
    text = out.getvalue()
    try:
        found = objects.read(text.encode(), "any.csv", block_bytes=block)
    except DataError:
        return
    plain = [row["item"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    shown = ["" if item is None else str(item) for item in found["item"].to_pylist()]
    if '\\"' in text.replace("\\\\", ""):
        assert shown in (items, plain)
