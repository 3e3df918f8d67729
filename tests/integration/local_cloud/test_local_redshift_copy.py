"""COPY over the local Redshift's wire protocol: rows equal those of the files, or Redshift's own error."""

import datetime
import decimal
import gzip
import json
from collections.abc import Callable
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from file_bytes import parquet

Copy = Callable[..., None]
ROLE = "IAM_ROLE 'arn:aws:iam::123456789012:role/reader'"


@pytest.fixture
def table(rs: Any, schema: str) -> str:
    """Create a table with a column of every type."""
    rs.execute(f"CREATE SCHEMA {schema}")
    rs.execute(
        f"""CREATE TABLE {schema}.t (small SMALLINT, number INTEGER, big BIGINT, single REAL, wide DOUBLE PRECISION,
        exact DECIMAL(20, 4), yes BOOLEAN, words VARCHAR(20), day DATE, moment TIMESTAMP, bytes VARBYTE(100),
        tree SUPER)"""
    )
    return f"{schema}.t"


@pytest.fixture
def put(s3: Any, bucket: str) -> Callable[[str, bytes], str]:
    """Puts an object; returns its URL."""

    def _put(key: str, data: bytes) -> str:
        s3.put_object(Bucket=bucket, Key=key, Body=data)
        return f"s3://{bucket}/{key}"

    return _put


@pytest.fixture
def manifest(put: Callable[[str, bytes], str]) -> Callable[..., str]:
    """Puts a manifest of (URL, bytes) pairs; returns its URL."""

    def _manifest(*files: tuple[str, int]) -> str:
        entries = [{"url": url, "mandatory": True, "meta": {"content_length": size}} for url, size in files]
        return put("manifest.json", json.dumps({"entries": entries}).encode())

    return _manifest


def _every_type() -> pa.Table:
    return pa.table(
        {
            "small": pa.array([-32768, None, 5], pa.int16()),
            "number": pa.array([2**31 - 1, None, 5], pa.int32()),
            "big": pa.array([-(2**63), None, 5], pa.int64()),
            "single": pa.array([0.1, None, float("inf")], pa.float32()),
            "wide": pa.array([0.1, None, float("nan")], pa.float64()),
            "exact": pa.array(
                [decimal.Decimal("1234567890123456.7891"), None, decimal.Decimal("-0.0001")], pa.decimal128(20, 4)
            ),
            "yes": pa.array([True, None, False]),
            "words": pa.array(["tab\t\\N \\. \"'\n\\.\né", None, ""]),
            "day": pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
            "moment": pa.array([-62135596800000000, None, 1], pa.timestamp("us", "UTC")),
            "bytes": pa.array([b"\x00\\\xff", None, b""]),
            "tree": pa.array(
                [
                    {"a": [decimal.Decimal("1.10")], "b": 'quote " \\ \n', "m": [("k", 1)]},
                    None,
                    {"a": [], "b": None, "m": []},
                ],
                pa.struct(
                    [("a", pa.list_(pa.decimal128(5, 2))), ("b", pa.string()), ("m", pa.map_(pa.string(), pa.int8()))]
                ),
            ),
        }
    )


def test_parquet_arrives_exactly(rs: Any, table: str, put: Any, manifest: Any) -> None:
    data = parquet(_every_type(), compression="zstd")
    listed = manifest((put("data/1.parquet", data), len(data)), (put("data/2.parquet", data), len(data)))
    rs.execute(f"COPY {table} FROM '{listed}' {ROLE} FORMAT AS PARQUET MANIFEST SERIALIZETOJSON STATUPDATE OFF")
    assert rs.execute("SELECT pg_last_copy_count()").fetchone() == (6,)
    rows = rs.execute(
        f"""SELECT small, number, big, single, wide::varchar, exact, yes, words, day::varchar, moment::varchar,
        to_hex(bytes), json_serialize(tree) FROM {table} ORDER BY small NULLS LAST"""
    ).fetchall()
    assert rows[0][:7] == (
        -32768,
        2**31 - 1,
        -(2**63),
        pytest.approx(0.1),
        "0.1",
        decimal.Decimal("1234567890123456.7891"),
        True,
    )
    assert rows[0][7] == "tab\t\\N \\. \"'\n\\.\né"
    assert rows[0][8:11] == ("0001-01-01", "0001-01-01 00:00:00", "005cff")
    assert json.loads(rows[0][11], parse_float=decimal.Decimal) == {
        "a": [decimal.Decimal("1.10")],
        "b": 'quote " \\ \n',
        "m": {"k": 1},
    }
    assert rows[2][3:8] == (float("inf"), "NaN", decimal.Decimal("-0.0001"), False, "")
    assert rows[2][8:11] == ("9999-12-31", "1970-01-01 00:00:00.000001", "")
    assert rows[4] == (None,) * 12


@pytest.fixture
def small(rs: Any, schema: str) -> str:
    """Create a table of two columns."""
    rs.execute(f"CREATE SCHEMA {schema}")
    rs.execute(f"CREATE TABLE {schema}.small (n INTEGER, s VARCHAR(10))")
    return f"{schema}.small"


def _rows(rs: Any, table: str) -> list[tuple[Any, ...]]:
    return list(rs.execute(f"SELECT n, s FROM {table} ORDER BY n").fetchall())


def test_json_and_text(rs: Any, small: str, put: Any) -> None:
    lines = put("lines.json.gz", gzip.compress(b'{"n":1,"s":"a"}\n{"S":"B","n":2}\n'))
    rs.execute(f"COPY {small} FROM '{lines}' {ROLE} JSON 'auto ignorecase' GZIP COMPUPDATE OFF STATUPDATE OFF")
    rs.execute(f"COPY {small} (s, n) FROM '{put('x.csv', b'c,3')}' {ROLE} CSV")
    rs.execute(f"COPY {small} FROM '{put('x.txt', b'4|d' + bytes([10]))}' {ROLE}")
    assert _rows(rs, small) == [(1, "a"), (2, "B"), (3, "c"), (4, "d")]
    rs.execute("CREATE TEMP TABLE stage (n INTEGER, s VARCHAR(10))")
    rs.execute(f"COPY stage FROM '{lines}' {ROLE} JSON 'auto' GZIP")
    assert _rows(rs, "stage") == [(1, "a"), (2, None)]


def test_through_redshifts_own_driver(cloud: Any, small: str, put: Any) -> None:
    import redshift_connector

    environ = cloud.environ()
    connection = redshift_connector.connect(
        host=environ["TARGET_REDSHIFT_HOST"],
        port=int(environ["TARGET_REDSHIFT_PORT"]),
        user=environ["TARGET_REDSHIFT_USER"],
        password=environ["TARGET_REDSHIFT_PASSWORD"],
        database=environ["TARGET_REDSHIFT_DBNAME"],
        ssl=False,
    )
    with connection.cursor() as cursor:
        cursor.execute(f"COPY {small} FROM '{put('x.csv', b'1,a')}' {ROLE} CSV")
        cursor.execute("SELECT pg_last_copy_count()")
        assert list(cursor.fetchone()) == [1]
        with pytest.raises(redshift_connector.ProgrammingError, match="Load into table 'small' failed"):
            cursor.execute(f"COPY {small} FROM '{put('y.csv', b'x,a')}' {ROLE} CSV")
        connection.rollback()
        cursor.execute(f"SELECT count(*) FROM {small}")
        assert list(cursor.fetchone()) == [0]
    connection.close()


def test_wrong_records_are_in_the_load_errors(rs: Any, small: str, put: Any) -> None:
    url = put("wrong.csv", b"1,a\nx,b\n3,0123456789abc\n4\n5,e\n")
    with pytest.raises(psycopg.Error, match="Load into table 'small' failed"):
        rs.execute(f"COPY {small} FROM '{url}' {ROLE} CSV MAXERROR 2")
    assert _rows(rs, small) == []
    load_errors = rs.execute(
        """SELECT trim(file_name), line_number, trim(column_name), trim(column_type), error_code, trim(error_message)
        FROM sys_load_error_detail WHERE session_id = pg_backend_pid() ORDER BY start_time, line_number"""
    ).fetchall()
    assert [(row[0], row[1], row[2], row[4]) for row in load_errors] == [(url, 2, "n", 1207), (url, 3, "s", 1204)]
    rs.execute(f"COPY {small} FROM '{url}' {ROLE} CSV MAXERROR 4")
    assert _rows(rs, small) == [(1, "a"), (5, "e")]
    assert rs.execute("SELECT pg_last_copy_count()").fetchone() == (2,)
    assert rs.execute(
        "SELECT line_number, trim(colname), err_code FROM stl_load_errors WHERE query = pg_last_copy_id() ORDER BY 1"
    ).fetchall() == [(2, "n", 1207), (3, "s", 1204), (4, "", 1214)]


def test_a_wrong_file_leaves_nothing_of_the_ones_before(rs: Any, small: str, put: Any, manifest: Any) -> None:
    good = parquet(
        pa.table({"n": pa.array(range(100_000), pa.int32()), "s": pa.array(["x"] * 100_000)}), compression="zstd"
    )
    wrong = parquet(pa.table({"n": pa.array([1]), "s": pa.array(["x"])}), compression="zstd")
    listed = manifest((put("1.parquet", good), len(good)), (put("2.parquet", wrong), len(wrong)))
    with pytest.raises(psycopg.Error, match="incompatible Parquet schema"):
        rs.execute(f"COPY {small} FROM '{listed}' {ROLE} FORMAT PARQUET MANIFEST")
    assert _rows(rs, small) == []
    rs.execute("BEGIN")
    rs.execute(f"INSERT INTO {small} VALUES (1, 'x')")
    with pytest.raises(psycopg.Error, match="incompatible Parquet schema"):
        rs.execute(f"COPY {small} FROM '{listed}' {ROLE} FORMAT PARQUET MANIFEST")
    with pytest.raises(psycopg.Error, match="current transaction is aborted"):
        rs.execute("SELECT 1")
    rs.execute("ROLLBACK")
    assert _rows(rs, small) == []


@pytest.mark.parametrize("options", [{"compression": "brotli"}, {"column_encoding": "DELTA_BYTE_ARRAY"}])
def test_parquet_that_redshift_does_not_document_is_refused(
    options: dict[str, str], rs: Any, small: str, put: Any, manifest: Any
) -> None:
    encodings = {"n": "PLAIN", "s": options.get("column_encoding", "PLAIN")}
    rows = pa.table({"n": pa.array([1], pa.int32()), "s": pa.array(["x"])})
    data = parquet(rows, **{**options, "use_dictionary": False, "column_encoding": encodings})
    with pytest.raises(psycopg.Error, match="cannot be read: (BROTLI|DELTA_BYTE_ARRAY) is not supported"):
        rs.execute(
            f"COPY {small} FROM '{manifest((put('1.parquet', data), len(data)))}' {ROLE} FORMAT PARQUET MANIFEST"
        )


def test_missing_files_are_an_error_before_any_file_is_read(
    rs: Any, small: str, put: Any, manifest: Any, bucket: str
) -> None:
    data = parquet(pa.table({"n": pa.array([1], pa.int32()), "s": pa.array(["x"])}), compression="zstd")
    url = put("1.parquet", data)
    with pytest.raises(psycopg.Error, match="NoSuchKey"):
        rs.execute(f"COPY {small} FROM '{manifest((url, len(data)), (url + 'x', 9))}' {ROLE} FORMAT PARQUET MANIFEST")
    with pytest.raises(psycopg.Error, match="content_length"):
        rs.execute(f"COPY {small} FROM '{manifest((url, len(data) + 1))}' {ROLE} FORMAT PARQUET MANIFEST")
    with pytest.raises(psycopg.Error, match="NoSuchKey"):
        rs.execute(f"COPY {small} FROM 's3://{bucket}/nothing' {ROLE} CSV MANIFEST")
    with pytest.raises(psycopg.Error, match="The specified S3 prefix 'nothing' does not exist"):
        rs.execute(f"COPY {small} FROM 's3://{bucket}/nothing' {ROLE} CSV")
    with pytest.raises(psycopg.Error, match="NoSuchBucket"):
        rs.execute(f"COPY {small} FROM 's3://no-such-bucket-{bucket}/x' {ROLE} CSV")
    with pytest.raises(psycopg.Error, match="Error AccessDenied"):
        rs.execute(f"COPY {small} FROM '{url}' IAM_ROLE 'arn:aws:iam::123456789012:role/reader-denied' FORMAT PARQUET")
    assert _rows(rs, small) == []


def test_a_bucket_in_another_region(rs: Any, small: str, s3: Any, bucket: str) -> None:
    away = f"away-{bucket}"
    s3.create_bucket(Bucket=away, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    s3.put_object(Bucket=away, Key="x.csv", Body=b"1,a")
    try:
        with pytest.raises(psycopg.Error, match="Status 301,Error PermanentRedirect"):
            rs.execute(f"COPY {small} FROM 's3://{away}/x.csv' {ROLE} CSV")
        rs.execute(f"COPY {small} FROM 's3://{away}/x.csv' {ROLE} CSV REGION 'eu-west-1'")
        assert _rows(rs, small) == [(1, "a")]
    finally:
        s3.delete_object(Bucket=away, Key="x.csv")
        s3.delete_bucket(Bucket=away)


def test_files_are_spread_over_the_slices(rs: Any, small: str, put: Any, bucket: str) -> None:
    for at in range(4):
        put(f"spread/{at}.csv", f"{at},x\n".encode())
    rs.execute(f"COPY {small} FROM 's3://{bucket}/spread/' {ROLE} CSV")
    slices = rs.execute("SELECT count(*) FROM stv_slices").fetchone()[0]
    found = rs.execute(
        "SELECT slice, count(*) FROM stl_load_commits WHERE query = pg_last_copy_id() GROUP BY slice ORDER BY slice"
    ).fetchall()
    assert [count for _, count in found] == [4 // slices] * slices


def test_a_longer_name_than_postgresqls(rs: Any, schema: str, put: Any) -> None:
    name = "a" * 120
    rs.execute(f"CREATE SCHEMA {schema}")
    rs.execute(f"CREATE TABLE {schema}.long ({name} INTEGER, {name}b INTEGER)")
    rs.execute(f"COPY {schema}.long ({name}b, {name}) FROM '{put('x.csv', b'1,2')}' {ROLE} CSV")
    assert rs.execute(f"SELECT {name}, {name}b FROM {schema}.long").fetchall() == [(2, 1)]
    line = json.dumps({name: 3, f"{name}b": 4}).encode()
    rs.execute(f"COPY {schema}.long FROM '{put('x.json', line)}' {ROLE} JSON 'auto'")
    assert rs.execute(f"SELECT {name}b FROM {schema}.long WHERE {name} = 3").fetchall() == [(4,)]
