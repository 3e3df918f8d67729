"""Protocol messages, translation of PostgreSQL's answers, faults, and the files of UNLOAD."""

import gzip
import io
import json
import socket
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local_cloud.redshift import translate, wire
from local_cloud.redshift.errors import RedshiftError
from local_cloud.redshift.faults import Faults, Statements, masked, parse
from local_cloud.redshift.sql.statement import Unload
from local_cloud.redshift.sql.unload import ResultColumn, files, rows_of


def test_messages_arrive_in_any_pieces() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = wire.Stream(theirs)
        rows = b"".join(wire.data_row([str(number).encode(), None]) for number in range(3))
        whole = rows + wire.message(b"C", wire.text("SELECT 3")) + wire.message(b"Z", b"I")
        for at in range(len(whole)):
            ours.sendall(whole[at : at + 1])
            stream.fill()
            assert stream.held == at + 1
        assert stream.take_run(ord("D")) == rows
        assert stream.take_run(ord("D")) == b""
        assert [stream.read(), stream.take(), stream.take()] == [(b"C", b"SELECT 3\0"), (b"Z", b"I"), None]
        ours.close()
        with pytest.raises(wire.Closed):
            stream.read()


def test_a_run_ends_where_a_message_is_not_complete() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = wire.Stream(theirs)
        row = wire.data_row([b"value"])
        ours.sendall(row * 2 + row[:-1])
        stream.fill()
        assert stream.take_run(ord("D")) == row * 2
        ours.sendall(row[-1:])
        stream.fill()
        assert stream.take_run(ord("D")) == row


def description(*columns: tuple[str, int]) -> bytes:
    parts = [name.encode() + b"\0" + struct.pack("!ihihih", 0, 0, oid, -1, -1, 0) for name, oid in columns]
    return struct.pack("!h", len(columns)) + b"".join(parts)


def test_rows_are_described_with_types_and_names_of_redshift() -> None:
    body = description(("a", 23), ("short", 3802), ("b", 17))
    shown, varbytes = translate.row_description(body, lambda name: name * 2)
    assert shown == description(("aa", 23), ("shortshort", 4000), ("bb", 6551))
    assert varbytes == {2}
    run = wire.data_row([b"1", None, rb"\xff00"]) + wire.data_row([b"2", b"{}", None])
    expected = wire.data_row([b"1", None, b"ff00"]) + wire.data_row([b"2", b"{}", None])
    assert translate.data_rows(run, varbytes) == expected


def test_columns_in_binary_stay_as_they_are() -> None:
    bind = b"portal\0statement\0" + struct.pack("!hhhi3si", 1, 0, 2, 3, b"abc", -1) + struct.pack("!hhh", 2, 0, 1)
    assert translate.result_formats(bind) == [0, 1]
    assert translate.text_varbytes(frozenset({0, 1}), [0, 1]) == {0}
    assert translate.text_varbytes(frozenset({0, 1}), [1]) == set()
    assert translate.text_varbytes(frozenset({0, 1}), []) == {0, 1}


@pytest.mark.parametrize(
    ("code", "words", "shown_code", "shown"),
    [
        ("40001", "could not serialize access due to concurrent update", "XX000", "1023"),
        ("23514", 'new row for relation "t" violates check constraint "bytes_12_0123abcd"', "22001",
         "value too long for type character varying(12)"),
        ("23514", 'new row for relation "t" violates check constraint "own"', "23514",
         'new row for relation "t" violates check constraint "own"'),
        ("42704", 'role "group:g" does not exist', "42704", 'group "g" does not exist'),
        ("42704", 'role "u" does not exist', "42704", 'user "u" does not exist'),
        ("23502", 'null value in column "a" of relation "t" violates not-null constraint', "23502",
         "Cannot insert a NULL value into column a"),
    ],
)  # fmt: skip
def test_errors_are_worded_as_redshifts(code: str, words: str, shown_code: str, shown: str) -> None:
    given = {"S": "ERROR", "C": code, "M": words, "D": "Failing row contains (secret).", "W": "PL/pgSQL", "F": "x.c"}
    found = translate.fields(given, lambda text: text)
    assert (found["C"], found["M"]) == (shown_code, shown)
    assert not set(found) & {"W", "F"}
    if code in ("23502", "40001"):
        assert "secret" not in found.get("D", "")


def test_faults_count_what_they_match() -> None:
    faults = Faults()
    faults.set(parse('[{"match": "^copy", "skip": 1, "times": 2, "action": "error"}, {"match": "copy b"}]'))
    met = [faults.of(text) for text in ("select 1", "COPY a", "copy b", "copy a", "copy a", "copy b")]
    assert [rule and rule.action for rule in met] == [None, None, "error", "error", None, "none"]
    assert met[2] is not None
    assert (met[2].error().message, met[2].error().code) == ("1023", "XX000")


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"at": "never"}]', '[{"action": "explode"}]', '[{"match": "("}]'])
def test_faults_that_make_no_sense(text: str) -> None:
    with pytest.raises(RedshiftError, match="wrong faults"):
        parse(text)


@pytest.mark.parametrize(
    "statement",
    [
        "copy t from 's3://b/k' access_key_id 'SECRET' secret_access_key\n'SECRET' session_token 'SE\\'CRET'",
        "copy t from 's3://b/k' credentials as 'aws_access_key_id=SECRET;aws_secret_access_key=SECRET'",
        "create user u PASSWORD 'SECRET'",
    ],
)
def test_secrets_are_not_kept(statement: str) -> None:
    kept = Statements()
    kept.add(statement)
    assert "CRET" not in kept.all()[0]
    assert masked("select 'password'") == "select 'password'"


COLUMNS = [
    ResultColumn("id", 23, -1),
    ResultColumn("amount", 1700, ((10 << 16) | 2) + 4),
    ResultColumn("name", 1043, -1),
]
ROWS = rows_of(b"1\t1.50\ta|b\n2\t\\N\t\\N\n3\t-1.00\tx\\ty\\\\\n")


def unloaded(**options: str) -> dict[str, bytes]:
    return dict(files(Unload("", "", "s3://b/k/", options), COLUMNS, ROWS, 2))


def test_rows_of_copy_are_read() -> None:
    assert ROWS == [["1", "1.50", "a|b"], ["2", None, None], ["3", "-1.00", "x\ty\\"]]


def test_unload_as_text() -> None:
    assert unloaded() == {"0000_part_00": b"1|1.50|a|b\n", "0001_part_00": b"2||\n3|-1.00|x\ty\\\n"}
    assert unloaded(parallel="off", escape="", null="@")["000"] == b"1|1.50|a\\|b\n2|@|@\n3|-1.00|x\ty\\\\\n"
    csv = gzip.decompress(unloaded(format="csv", header="", gzip="", parallel="off")["000.gz"])
    assert csv == b"id,amount,name\n1,1.50,a|b\n2,,\n3,-1.00,x\ty\\\n"


def test_unload_as_json_and_parquet() -> None:
    lines = unloaded(format="json", parallel="off")["000"].splitlines()
    assert json.loads(lines[1]) == {"id": 2, "amount": None, "name": None}
    table = pq.read_table(io.BytesIO(unloaded(format="parquet", parallel="off")["000.parquet"]))
    assert table.schema.types == [pa.int32(), pa.decimal128(10, 2), pa.string()]
    assert table.column("name").to_pylist() == ["a|b", None, "x\ty\\"]
