"""Parsing of COPY statements, and refusal of those that Redshift refuses."""

import pytest

from local_cloud.redshift.copy import Credentials, RedshiftError, parse

ROLE = "IAM_ROLE 'arn:aws:iam::123456789012:role/reader'"


def _error(sql: str) -> str:
    with pytest.raises(RedshiftError) as caught:
        parse(sql)
    return f"{caught.value.code} {caught.value.message}"


def test_parquet_with_a_manifest() -> None:
    command = parse(
        f"""copy "S"."t" ("A b", c) from 's3://b/m.json' -- a comment
        {ROLE} format as parquet manifest serializetojson statupdate off;"""
    )
    assert (command.table, command.columns, command.source) == ('"S"."t"', ("a b", "c"), "s3://b/m.json")
    assert command.format == "parquet"
    assert command.has("manifest")
    assert command.has("serializetojson")
    assert command.max_errors == 1


def test_json_options() -> None:
    command = parse(
        f"COPY #tmp FROM 's3://b/k' {ROLE} FORMAT JSON 'auto ignorecase' GZIP COMPUPDATE OFF STATUPDATE OFF "
        "TIMEFORMAT 'auto' DATEFORMAT AS 'auto' MAXERROR 7 TRUNCATECOLUMNS ACCEPTINVCHARS AS '^' REGION 'eu-west-1'"
    )
    assert (command.table, command.format, command.json) == ("#tmp", "json", "auto ignorecase")
    assert (command.compression, command.max_errors, command.invalid) == ("gzip", 7, "^")
    assert (command.time_format, command.date_format, command.region) == ("auto", "auto", "eu-west-1")
    assert command.null_text is None


@pytest.mark.parametrize(
    ("options", "delimiter", "quote", "null"),
    [
        ("", "|", '"', "\\N"),
        ("CSV", ",", '"', "\\N"),
        ("CSV QUOTE AS '%' DELIMITER ';' NULL AS ''", ";", "%", ""),
        ("DELIMITER '\\t' NULL '\\000'", "\t", '"', "\0"),
        ("DELIMITER '\\001' ESCAPE", "\x01", '"', "\\N"),
        ("DELIMITER AS '~|~'", "~|~", '"', "\\N"),
        ("DELIMITER '\\\\t' NULL AS '\\N'", "\t", '"', "\\N"),
        ("NULL AS '\\\\N'", "|", '"', "\\N"),
    ],
)
def test_text_options(options: str, delimiter: str, quote: str, null: str) -> None:
    command = parse(f"COPY t FROM 's3://b/k' {ROLE} {options}")
    assert (command.delimiter, command.quote, command.null_text) == (delimiter, quote, null)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("IAM_ROLE default", Credentials(roles=("default",))),
        (
            "IAM_ROLE 'arn:aws:iam::123456789012:role/a,arn:aws:iam::210987654321:role/x/b'",
            Credentials(roles=("arn:aws:iam::123456789012:role/a", "arn:aws:iam::210987654321:role/x/b")),
        ),
        ("CREDENTIALS 'aws_access_key_id=K;aws_secret_access_key=S=;token=T'", Credentials((), "K", "S=", "T")),
        (
            "CREDENTIALS AS 'aws_iam_role=arn:aws:iam::123456789012:role/a'",
            Credentials(roles=("arn:aws:iam::123456789012:role/a",)),
        ),
        ("ACCESS_KEY_ID 'K' SECRET_ACCESS_KEY 'S' SESSION_TOKEN 'T'", Credentials((), "K", "S", "T")),
    ],
)
def test_credentials(given: str, expected: Credentials) -> None:
    found = parse(f"COPY t FROM 's3://b/k' {given} FORMAT PARQUET").credentials
    assert found == expected
    assert "'S" not in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"{ROLE} FORMAT PARQUET REGION 'eu-west-1'", "0A000 REGION argument is not supported for PARQUET"),
        (f"{ROLE} FORMAT PARQUET COMPUPDATE OFF", "0A000 COMPUPDATE argument is not supported for PARQUET"),
        (f"{ROLE} FORMAT PARQUET MAXERROR 3", "0A000 MAXERROR argument is not supported for PARQUET"),
        (f"{ROLE} FORMAT PARQUET GZIP", "0A000 GZIP argument is not supported for PARQUET"),
        (f"{ROLE} FORMAT PARQUET TRUNCATECOLUMNS", "0A000 TRUNCATECOLUMNS argument is not supported"),
        (f"{ROLE} FORMAT PARQUET TIMEFORMAT 'auto'", "0A000 TIMEFORMAT argument is not supported"),
        (f"{ROLE} CSV ESCAPE", "0A000 ESCAPE argument is not supported for COPY with format CSV"),
        (f"{ROLE} JSON 'auto' DELIMITER ','", "0A000 DELIMITER argument is not supported for COPY with format JSON"),
        (f"{ROLE} CSV JSON 'auto'", "42601 COPY format CSV cannot be used with JSON"),
        (f"{ROLE} GZIP ZSTD", "42601 GZIP cannot be used with ZSTD"),
        (f"{ROLE} CSV GZIP GZIP", "42601 conflicting or redundant options: GZIP"),
        (f"{ROLE} JSON 'AUTO'", "42601 Invalid JSON option 'AUTO'"),
        (f"{ROLE} JSON 'mine.json'", "42601 Invalid JSONPath format"),
        (f"{ROLE} MAXERROR 100001", "22023 MAXERROR"),
        (f"{ROLE} LZOP", "0A000 the local Redshift cannot do this: COPY with LZOP"),
        (f"{ROLE} FORMAT AVRO 'auto'", "0A000 the local Redshift cannot do this: COPY with AVRO"),
        (f"{ROLE} CSV ENCODING UTF16", "0A000 the local Redshift cannot do this: COPY with ENCODING UTF16"),
        (f"{ROLE} WITH CSV", '42601 syntax error at or near "WITH"'),
        (f"{ROLE} MAXERROR", "42601 syntax error at end of input"),
        (f"{ROLE} CREDENTIALS 'aws_iam_role=x'", "42601 Invalid credentials"),
        ("CSV", "42601 No credentials"),
        ("ACCESS_KEY_ID 'x' CSV", "42601 ACCESS_KEY_ID needs SECRET_ACCESS_KEY"),
        ("CREDENTIALS 'nonsense' CSV", "XX000 Invalid credentials"),
        ("IAM_ROLE 'reader' CSV", "XX000 Invalid IAM_ROLE"),
    ],
)
def test_refused_options(options: str, message: str) -> None:
    assert _error(f"COPY t FROM 's3://b/k' {options}").startswith(message)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("COPY t FROM STDIN", '42601 syntax error at or near "STDIN"'),
        (f"COPY t FROM $1 {ROLE}", '42601 syntax error at or near "$1"'),
        (f"COPY t TO 's3://b/k' {ROLE}", '42601 syntax error at or near "TO"'),
        (f"COPY t FROM 'dynamodb://x' {ROLE}", "0A000 the local Redshift cannot do this: COPY from dynamodb://"),
        (f"COPY t FROM 's3://bucket' {ROLE}", "XX000 The S3 path 's3://bucket' names no bucket and key"),
        ("COPY t", "42601 syntax error at end of input"),
        (f"COPY t () FROM 's3://b/k' {ROLE}", '42601 syntax error at or near ")"'),
    ],
)
def test_refused_statements(sql: str, message: str) -> None:
    assert _error(sql).startswith(message)


def test_a_switched_off_option_is_not_there() -> None:
    command = parse(f"COPY t FROM 's3://b/k' {ROLE} CSV STATUPDATE OFF COMPUPDATE PRESET")
    assert not command.has("statupdate")
    assert command.has("compupdate")


def test_backslashes_are_escapes() -> None:
    command = parse(r"COPY t FROM 's3://b/a\\b''c\'d' CREDENTIALS 'aws_access_key_id=K;aws_secret_access_key=S\\' CSV")
    assert command.source == "s3://b/a\\b'c'd"
    assert command.credentials.secret_access_key == "S\\"
