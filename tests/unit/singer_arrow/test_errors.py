"""Error messages are one line, without the secrets of a URL."""

from __future__ import annotations

import pytest

from singer_arrow.errors import DataError, NotFoundError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://u:PW@h/x.parquet", "https://***@h/x.parquet"),
        ("sftp://u:P@PW@h:22/x", "sftp://***@h:22/x"),
        ("az://c/x?sv=1&sig=PW%2F&sp=r", "az://c/x?sv=1&sig=***&sp=r"),
        (
            "https://h/x?X-Amz-Signature=PW&X-Amz-Security-Token=PW",
            "https://h/x?X-Amz-Signature=***&X-Amz-Security-Token=***",
        ),
        ("s3://b/day=1/a@b:c?.csv", "s3://b/day=1/a@b:c?.csv"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("az://container@account/x", "az://container@account/x"),
        ("s3://b/line\nbreak", "s3://b/line\\nbreak"),
    ],
)
def test_an_error_shows_no_password(url: str, expected: str) -> None:
    assert str(NotFoundError(f"{url} does not exist")) == f"{expected} does not exist"
    if "\n" not in url:
        assert str(DataError("it is empty", url=url, hint="Run again")) == f"{expected}: it is empty. Run again"
