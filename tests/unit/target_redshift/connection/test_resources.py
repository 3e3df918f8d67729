"""Errors of the driver, the server and AWS, as messages of the target."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from redshift_connector.error import InterfaceError, OperationalError, ProgrammingError

from singer_arrow.errors import (
    AccessDeniedError,
    ConfigError,
    CredentialsError,
    LoadError,
    NotFoundError,
    RetriableError,
    ServiceError,
    SingerArrowError,
)
from target_redshift import sql
from target_redshift.copy import with_load_errors
from target_redshift.resources import (
    AlreadyExistsError,
    LoadErrorRow,
    RefusedDataError,
    SessionLostError,
    columns_from_catalog,
    translate_error,
)
from target_redshift.types import ddl_type

S3_DETAIL = """
  -----------------------------------------------
  error:  S3ServiceException:Access Denied,Status 403,Error AccessDenied,Rid 0123,ExtRid abc=,CanRetry 1
  code:      8001
  context:   Listing bucket=stage prefix=redshift/1.manifest
  query:     4711
  location:  s3_utility.cpp:720
  process:   padbmaster [pid=1]
  -----------------------------------------------
"""


def server(code: str, message: str, **more: str) -> ProgrammingError:
    return ProgrammingError({"S": "ERROR", "C": code, "M": message, **more})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (server("XX000", "1023", D="Serializable isolation violation on table - 108"), ServiceError),
        (server("40001", "could not serialize access"), ServiceError),
        (server("40P01", "deadlock detected"), ServiceError),
        (server("XX000", "could not complete because of conflict with concurrent transaction"), ServiceError),
        (server("XX000", "Data modification is not possible during a cluster resize"), ServiceError),
        (server("XX000", "S3ServiceException:Please reduce your request rate,Status 503,Error SlowDown"), ServiceError),
        (server("57P01", "terminating connection due to administrator command"), SessionLostError),
        (server("57P03", "the database system is starting up"), SessionLostError),
        (server("53300", 'connection limit "500" exceeded'), SessionLostError),
        (server("08006", "connection failure"), SessionLostError),
        (server("42501", "permission denied for schema sales"), AccessDeniedError),
        (server("XX000", "S3ServiceException", D=S3_DETAIL), AccessDeniedError),
        (server("XX000", "User arn:aws:redshift:x is not authorized to assume IAM Role y"), AccessDeniedError),
        (
            InterfaceError({"S": "FATAL", "C": "28000", "M": "password authentication failed for user"}),
            CredentialsError,
        ),
        (server("3D000", 'database "zzz" does not exist'), NotFoundError),
        (server("42P01", 'relation "x" does not exist'), NotFoundError),
        (server("XX000", "The specified S3 prefix 'x' does not exist"), NotFoundError),
        (server("42P07", 'Relation "x" already exists'), AlreadyExistsError),
        (server("42701", 'column "x" of relation "y" already exists'), AlreadyExistsError),
        (server("22001", "value too long for type character varying(256)"), RefusedDataError),
        (server("42601", "syntax error"), LoadError),
        (InterfaceError("BrokenPipe: server socket closed. Please check that client side ..."), SessionLostError),
        (InterfaceError("connection is closed"), SessionLostError),
        (
            InterfaceError("communication error", ConnectionResetError(104, "Connection reset by peer")),
            SessionLostError,
        ),
        (OperationalError("connection time out", TimeoutError("timed out")), SessionLostError),
        (ConnectionResetError(104, "Connection reset by peer"), SessionLostError),
        (BrokenPipeError(32, "Broken pipe"), SessionLostError),
        (struct.error("unpack requires a buffer of 5 bytes"), SessionLostError),
        (InterfaceError("communication error", socket.gaierror(-2, "Name or service not known")), ServiceError),
        (
            InterfaceError("communication error", ssl.SSLCertVerificationError(1, "self-signed certificate")),
            ConfigError,
        ),
        (ssl.SSLCertVerificationError(1, "self-signed certificate"), ConfigError),
        (InterfaceError("Server refuses SSL"), ConfigError),
        (InterfaceError("server requesting password authentication, but no password was provided"), CredentialsError),
        (NoCredentialsError(), CredentialsError),
        (KeyError("x"), LoadError),
    ],
)
def test_each_error_has_its_class(error: Exception, kind: type[SingerArrowError]) -> None:
    ours = translate_error(error, "Loading into table s.t")
    assert type(ours) is kind
    assert str(ours).startswith("Loading into table s.t: ")
    assert "\n" not in str(ours)
    assert isinstance(ours, RetriableError) == issubclass(kind, ServiceError)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("must be owner of relation events", "owner of the table"),
        ('permission denied to create temporary tables in database "dev"', "GRANT TEMP ON DATABASE"),
        ("permission denied for schema raw", "USAGE and CREATE on the schema"),
        ("permission denied for relation events", "INSERT, UPDATE and DELETE on the table"),
        ("permission denied for database dev", "CREATE on the database"),
    ],
)
def test_the_missing_right_is_named(text: str, right: str) -> None:
    assert right in str(translate_error(server("42501", text), "Loading into table s.t"))


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetClusterCredentials")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDenied", 403, CredentialsError),
        ("ExpiredToken", 403, CredentialsError),
        ("ClusterNotFound", 404, NotFoundError),
        ("ResourceNotFoundException", 400, NotFoundError),
        ("ThrottlingException", 400, ServiceError),
        ("InternalFailure", 500, ServiceError),
    ],
)
def test_errors_of_aws_at_log_in(code: str, status: int, kind: type[Exception]) -> None:
    assert type(translate_error(aws_error(code, status), "Connecting")) is kind


def test_a_role_without_access_is_an_error_of_one_line() -> None:
    server_message = str(translate_error(server("XX000", "S3ServiceException", D=S3_DETAIL), "Loading"))
    assert "Access Denied,Status 403" in server_message
    assert "prefix=redshift/1.manifest" in server_message
    assert "the credentials in aws read the bucket" in server_message
    assert "padbmaster" not in server_message
    role = "arn:aws:iam::123456789012:role/copy"
    text = sql.copy_parquet('"t"', "s3://b/m", sql.Access(role=role))
    assert f"let role {role} read the bucket" in str(
        translate_error(server("XX000", "S3ServiceException", D=S3_DETAIL), "L", text)
    )


def test_a_bucket_of_another_region_is_an_error_with_a_hint() -> None:
    server_message = str(translate_error(server("XX000", "S3ServiceException:PermanentRedirect,Status 301"), "Loading"))
    assert "region of the cluster" in server_message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("S3ServiceException:The specified key does not exist.,Status 404,Error NoSuchKey", "keep its batch storage"),
        ("S3ServiceException:The specified bucket does not exist,Status 404,Error NoSuchBucket", "create the bucket"),
        ("Spectrum Scan Error. InvalidRange: the requested range is not satisfiable", "the file was replaced"),
    ],
)
def test_errors_of_copy_have_a_hint(text: str, hint: str) -> None:
    assert hint in str(translate_error(server("XX000", text), "Loading"))


def test_secrets_are_not_repeated() -> None:
    text = "syntax error in COPY t FROM 's3://b' CREDENTIALS 'aws_secret_access_key=hush'"
    assert "hush" not in str(translate_error(server("42601", text), "Loading"))


class TestLoadErrors:
    def test_load_errors_have_all_known_parts(self) -> None:
        bad = LoadErrorRow.of(("s3://b/f.gz  ", 7, "price ", "12,5", "Invalid digit "))
        assert bad == LoadErrorRow("s3://b/f.gz", 7, "price", "12,5", "Invalid digit")
        assert str(bad) == "s3://b/f.gz, line 7, column 'price': Invalid digit (value '12,5')"

    def test_what_is_not_known_is_left_out(self) -> None:
        assert str(LoadErrorRow.of((None, None, None, None, "Broken"))) == "Broken"
        assert str(LoadErrorRow.of(("f", 0, "", "", "Broken"))) == "f: Broken"

    def test_they_take_the_place_of_the_servers_words(self) -> None:
        error = LoadError("Loading into table s.t: Load into table 't' failed. Check 'sys_load_error_detail'")
        bad = [LoadErrorRow("f", 1, "c", None, "Broken")] * 2
        assert str(with_load_errors(error, bad)).startswith(
            "Loading into table s.t: f, line 1, column 'c': Broken (and 1 more)"
        )
        assert with_load_errors(error, []) is error


def test_columns_of_the_catalog() -> None:
    identity = ("id", "bigint", None, 64, 0, "NO", "\"identity\"(1, 0, '1,1'::text)")
    column, text = columns_from_catalog([identity, ("c", "character varying", 300, None, None, "YES", None)], {})
    assert (column.nullable, column.is_filled, ddl_type(column)) == (False, True, "BIGINT")
    assert text.nullable
