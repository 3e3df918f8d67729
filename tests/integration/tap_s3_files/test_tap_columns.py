"""Columns that are renamed, left out, cast, hashed, masked or constant, in records and in batch files."""

from __future__ import annotations

import hashlib
import io
import json
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tap_source import Source, ids_of, state_of

from local_cloud.programs import Programs

COLUMNS = {
    "order_id": {"from": "id"},
    "email": {"hash": True},
    "phone": {"mask": {"keep_last": 2}},
    "amount": {"type": "decimal(10,2)", "null_if": [-1]},
    "amount_text": False,
    "country": {"from": "land", "null_if": ["", "??", "0"]},
    "tenant": {"value": "acme"},
    "shop": {"value": "1"},
    "since": {"value": "2024-05-01", "type": "date"},
    "file": {"from": "_sdc_source_file"},
    **{f"_sdc_source_{name}": False for name in ("bucket", "lineno", "modified_at", "etag")},
}
ENVIRON = {"HASH_SALT": "pepper of the test"}
ROWS = "id,email,phone,amount,amount_text,land,note\n1,a@x,0123456,10.10,ten,de,x\n2,,12,-1,minus,??,\n3,a@x,,7,,,y\n"


def hashed(text: str, salt: str = ENVIRON["HASH_SALT"]) -> str:
    return hashlib.sha256(f"{salt}{text}".encode()).hexdigest()


EXPECTED = [
    {"order_id": 1, "email": hashed("a@x"), "phone": "***56", "amount": "10.10", "country": "de", "note": "x"},
    {"order_id": 2, "email": None, "phone": "***", "amount": None, "country": None, "note": None},
    {"order_id": 3, "email": hashed("a@x"), "phone": None, "amount": "7.00", "country": None, "note": "y"},
]


@pytest.fixture
def source(s3: Any, bucket: str, tap: Programs) -> Source:
    made = Source(s3, bucket, tap)
    made.put("in/a.csv", ROWS)
    return made


def as_text(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with decimals as text of two digits."""
    return [row | {"amount": None if row["amount"] is None else f"{row['amount']:.2f}"} for row in rows]


@pytest.mark.parametrize("form", ["", "parquet", "jsonl"])
@pytest.mark.parametrize("with_catalog", [True, False])
def test_records_and_batch_files_have_the_same_columns(form: str, with_catalog: bool, source: Source) -> None:
    source.put("in/b.csv", ROWS)
    batches = {"batch_config": source.batches(format=form, **({"compression": "gzip"} if form == "jsonl" else {}))}
    stream = {"columns": COLUMNS, "key_properties": ["order_id"]}
    config = source.config(stream=stream, **(batches if form else {}))
    options: dict[str, Any] = {"env": ENVIRON}
    if with_catalog:  # which knows the new names
        options["catalog"] = json.loads(source.run(config, discover=True).stdout)
    ran = source.run(config, **options)
    since = date(2024, 5, 1) if form == "parquet" else "2024-05-01"
    same = {"tenant": "acme", "shop": "1", "since": since}
    made = [row | same | {"file": f"in/{file}.csv"} for file in "ab" for row in EXPECTED]
    assert as_text(source.rows(ran)) == made
    schema = ran.of_type("SCHEMA")[0]
    assert (set(schema["schema"]["properties"]), schema["key_properties"]) == ({*made[0]}, ["order_id"])
    assert ENVIRON["HASH_SALT"] not in ran.stdout + ran.stderr


def test_a_preview_shows_what_is_sent(source: Source) -> None:
    ran = source.run(source.config(stream={"columns": COLUMNS}), preview=10, env=ENVIRON)
    assert hashed("a@x")[:30] in ran.stdout
    assert "order_id" in ran.stdout
    assert "a@x" not in ran.stdout


def parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=2)
    return file.getvalue()


def test_parquet_is_converted_although_passthrough_is_on(source: Source) -> None:
    for name in "ab":
        source.put(f"in/{name}.parquet", parquet(id=[1, 2, 3], price=[1.5, None, 2.5], old=["a", "b", "c"]))
    stream = {
        "path": f"s3://{source.bucket}/in/*.parquet",
        "columns": {"number": {"from": "id"}, "id": True, "key": {"from": "id", "type": "integer"}, "old": False},
    }
    batches = source.batches()
    config = source.config(stream=stream, batch_config=batches, passthrough=True, metadata_columns=False)
    ran = source.run(config)
    rows = [{"number": n, "id": n, "key": n, "price": p} for n, p in ((1, 1.5), (2, None), (3, 2.5))]
    assert source.rows(ran) == rows * 2
    assert "is converted although passthrough is on: the setting columns is an object" in ran.stderr


def test_new_columns_arrive_and_types_widen_under_their_new_names(source: Source) -> None:
    config = source.config(stream={"columns": COLUMNS}, batch_config=source.batches())
    catalog = json.loads(source.run(config, discover=True).stdout)
    source.put("in/e.csv", "id,land,note,more,email,phone,amount\nx9,fr,z,new,b@x,987654,1\n")
    ran = source.run(config, catalog=catalog, env=ENVIRON)
    last = source.rows(ran)[-1]
    assert (last["order_id"], last["more"], last["email"], last["phone"]) == ("x9", "new", hashed("b@x"), "***54")
    assert [str(r["order_id"]) for r in source.rows(ran)] == ["1", "2", "3", "x9"]
    wider = ran.of_type("SCHEMA")[-1]["schema"]["properties"]
    assert "string" in wider["order_id"]["type"]
    assert {"id", "land", "amount_text"}.isdisjoint(wider)


def test_members_and_columns_that_a_catalog_deselects_stay_away_under_their_old_names(source: Source) -> None:
    source.put("in/a.jsonl", '{"id": 1, "who": {"name": "n", "secret": "s"}, "pin": 4}\n')
    columns = {"person": {"from": "who"}, "code": {"from": "pin"}}
    stream = {"path": f"s3://{source.bucket}/in/*.jsonl", "columns": columns}
    config = source.config(stream=stream, metadata_columns=False)
    catalog = json.loads(source.run(config, discover=True).stdout)
    for place in catalog["streams"][0]["metadata"]:
        if place["breadcrumb"] in (["properties", "code"], ["properties", "person", "properties", "secret"]):
            place["metadata"]["selected"] = False
    assert source.rows(source.run(config, catalog=catalog)) == [{"id": 1, "person": {"name": "n"}}]


def test_columns_of_keys_are_sources_too(source: Source) -> None:
    source.put("days/day=2024-05-01/de.csv", "id\n1\n")
    columns = {"on": {"from": "day"}, "land": {"from": "country", "mask": True}}
    stream = {"path": f"s3://{source.bucket}/days/*/{{country:*}}.csv", "partition_columns": True, "columns": columns}
    config = source.config(stream=stream, metadata_columns=False)
    assert source.rows(source.run(config)) == [{"id": 1, "on": "2024-05-01", "land": "***"}]


def test_a_value_that_cannot_be_cast_is_a_bad_row(source: Source) -> None:
    columns = {"number": {"from": "note", "type": "integer"}}
    stream = {"columns": columns, "on_bad_row": "skip"}
    source.put("in/a.csv", "id,note\n1,7\n2,seven\n")
    config = source.config(stream=stream, metadata_columns=False)
    assert source.rows(source.run(config)) == [{"id": 1, "number": 7}]
    ran = source.tap("tap-s3-files", config=source.config(stream=stream | {"on_bad_row": "fail"}))
    assert (ran.code, "line 3, column 'note': 'seven' is not an integer" in ran.stderr) == (1, True)


def test_another_salt_makes_other_files_and_a_line(source: Source) -> None:
    config = source.config(stream={"columns": COLUMNS}, batch_config=source.batches())
    first, same = (source.run(config, env=ENVIRON) for _ in range(2))
    other = source.run(config, env={"HASH_SALT": "another salt"})
    assert (source.rows(first), ids_of(first)) == (source.rows(same), ids_of(other))
    assert {r["email"] for r in source.rows(other)} == {None, hashed("a@x", "another salt")}
    line = "settings that decide about rows have changed"
    assert [line in ran.stderr for ran in (first, same, other)] == [False, False, True]
    source.put("in/new.csv", "id,email\n9,n@x\n")
    assert line in source.run(config, env={"HASH_SALT": "another salt"}, state=state_of(first)).stderr


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        ({"columns": {"x": {"from": "emial"}}}, "names 'emial', which is no column; did you mean 'email'?"),
        ({"columns": {"emial": False}}, "names 'emial', which is no column; did you mean 'email'?"),
        ({"columns": {"id": {"mask": True}}}, "column 'id' in setting 'columns': mask is for text, it is int64; add"),
        ({"columns": {"id": True, "h": {"from": "id", "hash": True}}}, "add 'type: string' to 'id'"),
        ({"columns": {"id": {"null_if": ["n/a"]}}}, "'n/a' is no value of type int64"),
        ({"columns": {"_sdc_source_lineno": {"type": "string"}}}, "is read as string, it is int64"),
        ({"columns": {"id": {"value": 1, "hash": True}}}, "'streams[0].columns.id' has a value, and so only a type"),
        ({"columns": {"id": {"type": "interger"}}}, "did you mean 'integer'?"),
        ({"columns": {"id": {"hsh": True}}}, "did you mean 'hash'?"),
        ({"columns": {"id": {"mask": True}}, "key_properties": ["id"]}, "its mask would merge rows"),
        ({"columns": {"email": {"hash": True}}, "on_bad_row": "rescue"}, "would keep values of rows as they are"),
        ({"columns": {"id": {"type": "string"}}, "schema": {"id": "integer"}}, "read 'id' as integer and as string"),
        ({"columns": {"email": {"hash": True}}}, "variable HASH_SALT, which is not set"),
        ({"columns": {"order_id": {"from": "id"}}, "key_properties": ["id"]}, "'key_properties' names 'id'"),
    ],
)
def test_what_cannot_be_made_is_one_line(stream: dict[str, Any], error: str, source: Source) -> None:
    ran = source.tap("tap-s3-files", config=source.config(stream=stream))
    assert ran.code == 1
    assert error in ran.stderr.splitlines()[-1]
    assert ran.of_type("RECORD") == []


def test_a_catalog_of_before_the_setting_is_refused(source: Source) -> None:
    catalog = json.loads(source.run(source.config(), discover=True).stdout)
    for columns, error in (
        ({"email": False}, "it has 'email', which it leaves out"),
        ({"mail": {"from": "email", "hash": True}}, "it lacks 'mail', which it makes"),
        ({"amount": {"type": "string"}}, "is read as string, it is double"),
    ):
        config = source.config(stream={"columns": columns})
        ran = source.tap("tap-s3-files", config=config, catalog=catalog, env=ENVIRON)
        assert (ran.code, error in ran.stderr.splitlines()[-1]) == (1, True), ran.stderr
        assert "write it anew with --discover" in ran.stderr or "write the catalog anew" in ran.stderr
