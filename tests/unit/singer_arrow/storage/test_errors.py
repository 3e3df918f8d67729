"""Answers of services become our errors by status and code, not by names that occur in them."""

import pytest
from obstore.store import S3Store

from singer_arrow.errors import (
    AccessDeniedError,
    ArchivedError,
    CredentialsError,
    EmptyObjectError,
    ExpiredCredentialsError,
    NotFoundError,
    ObjectChangedError,
    ServiceError,
)
from singer_arrow.storage.errors import translate_errors
from singer_arrow.storage.urls import Url

MISLEADING = (
    "NoSuchBucket/InvalidObjectState/ExpiredToken/AccessDenied.csv",
    "status code: 412 Precondition Failed <Code>NoSuchBucket</Code> InvalidRange",
)


@pytest.mark.parametrize("key", ["plain.csv", *MISLEADING])
@pytest.mark.parametrize(
    ("status", "code", "error", "words"),
    [
        (404, "NoSuchKey", NotFoundError, "plain|NoSuchBucket.* does not exist"),
        (404, "NoSuchBucket", NotFoundError, "^s3://bucket does not exist"),
        (403, "AccessDenied", AccessDeniedError, "access is denied"),
        (403, "InvalidObjectState", ArchivedError, "is archived"),
        (400, "ExpiredToken", ExpiredCredentialsError, "have expired"),
        (400, "AuthorizationHeaderMalformed", CredentialsError, "another region"),
        (412, "PreconditionFailed", ObjectChangedError, "was replaced"),
        (416, "InvalidRange", EmptyObjectError, "holds no byte"),
        (500, "InternalError", ServiceError, "did not answer as it should"),
    ],
)
@pytest.mark.full
def test_the_answer_decides_and_not_the_key(
    answering: tuple[list[tuple[int, str]], S3Store],
    key: str,
    status: int,
    code: str,
    error: type[Exception],
    words: str,
) -> None:
    answers, store = answering
    answers.append((status, f"<Error><Code>{code}</Code><Message>No.</Message><Key>{MISLEADING[0]}</Key></Error>"))
    with pytest.raises(error, match=words) as raised, translate_errors(Url("s3", "bucket", key)):
        store.get(key)
    assert type(raised.value) is error


def test_a_failed_connection_is_no_missing_object() -> None:
    store = S3Store(
        "bucket",
        config={"endpoint": "http://127.0.0.1:1", "region": "r", "skip_signature": True},
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(ServiceError) as raised, translate_errors(Url("s3", "bucket", MISLEADING[0])):
        store.get(MISLEADING[0])
    assert type(raised.value) is ServiceError
