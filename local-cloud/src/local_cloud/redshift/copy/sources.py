"""The files of a COPY: the objects of a manifest or a prefix, all checked before the first is read."""

import functools
import io
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from local_cloud.redshift.copy.command import CopyCommand, Credentials
from local_cloud.redshift.errors import RedshiftError, detailed, spectrum

DENIED = "-denied"  # suffix of roles that may not read
_READERS, _BUFFER = 4, 1 << 20


@dataclass(frozen=True, slots=True)
class File:
    """An object to load."""

    url: str
    size: int


class Objects(Protocol):
    """Access of COPY to S3. Failures are `RedshiftError`; a missing object is None."""

    def listed(self, url: str) -> Iterator[File]:
        """Yield the objects whose keys begin with the URL's."""

    def size(self, url: str) -> int | None:
        """Return the object's size in bytes, or None if it does not exist."""

    def opened(self, url: str) -> io.BufferedIOBase:
        """Return the object's bytes as a stream."""


def find(command: CopyCommand, objects: Objects) -> list[File]:
    """Return the files to load, in order, after checking that each exists with the manifest's length."""
    if command.has("manifest"):
        return _of_manifest(command, objects)
    found = [file for file in objects.listed(command.source) if not file.url.endswith("/")]
    if not found:
        prefix = split(command.source)[1]
        raise RedshiftError(f"The specified S3 prefix '{prefix}' does not exist")
    return found


def split(url: str) -> tuple[str, str]:
    """Return the bucket and key of an s3:// URL."""
    bucket, _, key = url[len("s3://") :].partition("/")
    return bucket, key


def _of_manifest(command: CopyCommand, objects: Objects) -> list[File]:
    if objects.size(command.source) is None:
        raise no_such_key(f"S3 manifest {command.source}")
    with objects.opened(command.source) as stream:
        entries = _entries(stream.read(), command.source)
    if command.format == "parquet":
        for entry in entries:
            if "content_length" not in (entry.get("meta") or {}):
                raise detailed("File entry does not have 'meta' key.", 15003, f"{entry['url']} in {command.source}")
    with ThreadPoolExecutor(_READERS) as pool:
        sizes = list(pool.map(lambda entry: objects.size(entry["url"]), entries))
    found = [file for entry, size in zip(entries, sizes, strict=True) if (file := _checked(entry, size))]
    if not found:
        raise RedshiftError(f"No files were found that the manifest {command.source} lists")
    return found


def _entries(data: bytes, url: str) -> list[dict[str, Any]]:
    try:
        entries = json.loads(data)["entries"]
        if not all(entry["url"].startswith("s3://") and split(entry["url"])[1] for entry in entries):
            raise ValueError("each url is the full s3:// path of an object")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise detailed(f"Invalid manifest file: {error}", 8001, f"S3 manifest {url}") from None
    return list(entries)


def _checked(entry: Mapping[str, Any], size: int | None) -> File | None:
    if size is None:
        if entry.get("mandatory", False):
            raise no_such_key(entry["url"])
        return None
    declared = (entry.get("meta") or {}).get("content_length", size)
    if declared != size:
        raise spectrum(
            15001,
            f"InvalidRange: content_length in the manifest is {declared} bytes, the object has {size}: {entry['url']}",
        )
    return File(entry["url"], size)


def no_such_key(context: str) -> RedshiftError:
    """Return S3's error for a read of an object that does not exist."""
    return service_error("The specified key does not exist.", 404, "NoSuchKey", context)


def service_error(message: str, status: int, code: str, context: str) -> RedshiftError:
    """Return an error of S3 in the form of COPY."""
    text = f"S3ServiceException:{message},Status {status},Error {code},Rid LOCAL,ExtRid LOCAL,CanRetry 1"
    return detailed(text, 8001, context)


class S3Objects:
    """The S3 of an environment (AWS_ENDPOINT_URL, AWS_REGION, the cluster's own keys), with the rights of a COPY."""

    def __init__(self, credentials: Credentials, region: str | None, environ: Mapping[str, str] = os.environ) -> None:
        self._home = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        self._region = region or self._home
        self._roles = credentials.roles
        keys = (credentials.access_key_id, credentials.secret_access_key, credentials.session_token)
        if credentials.roles:
            names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
            keys = tuple(environ.get(name, "") for name in names)  # type: ignore[assignment]
        self._client = _client(environ.get("AWS_ENDPOINT_URL", ""), self._region, *keys)
        self._checked: set[str] = set()

    def listed(self, url: str) -> Iterator[File]:
        """Yield the objects whose keys begin with the URL's."""
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, prefix = split(url)
        self._check(bucket)
        try:
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", []):
                    yield File(f"s3://{bucket}/{item['Key']}", item["Size"])
        except (BotoCoreError, ClientError) as error:
            raise _refused(error, url) from None

    def size(self, url: str) -> int | None:
        """Return the object's size in bytes, or None if it does not exist."""
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = split(url)
        self._check(bucket)
        try:
            return int(self._client.head_object(Bucket=bucket, Key=key)["ContentLength"])
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in ("404", "NoSuchKey"):
                return None
            raise _refused(error, url) from None
        except BotoCoreError as error:
            raise _refused(error, url) from None

    def opened(self, url: str) -> io.BufferedIOBase:
        """Return the object's bytes as a stream."""
        from botocore.exceptions import BotoCoreError, ClientError

        bucket, key = split(url)
        self._check(bucket)
        try:
            return io.BufferedReader(_Body(self._client.get_object(Bucket=bucket, Key=key)["Body"], url), _BUFFER)
        except (BotoCoreError, ClientError) as error:
            raise _refused(error, url) from None

    def _check(self, bucket: str) -> None:
        """Refuse what the credentials may not read, and a bucket in another region."""
        from botocore.exceptions import BotoCoreError, ClientError

        if bucket in self._checked:
            return
        if any(role.endswith(DENIED) for role in self._roles):
            raise service_error("Access Denied", 403, "AccessDenied", f"s3://{bucket}")
        try:
            found = self._client.get_bucket_location(Bucket=bucket)["LocationConstraint"] or "us-east-1"
        except (BotoCoreError, ClientError) as error:
            raise _refused(error, f"s3://{bucket}") from None
        if found != self._region:
            raise service_error(
                "The bucket you are attempting to access must be addressed using the specified endpoint. "
                "Please send all future requests to this endpoint.",
                301,
                "PermanentRedirect",
                f"s3://{bucket} is in {found}, COPY asked in {self._region}",
            )
        self._checked.add(bucket)


class _Body(io.RawIOBase):
    """The body of an object. Errors while reading are `RedshiftError`."""

    def __init__(self, body: Any, url: str) -> None:
        super().__init__()
        self._body, self._url = body, url

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        data = self._read(len(into))
        into[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        return self._read(None)

    def _read(self, size: int | None) -> bytes:
        from botocore.exceptions import BotoCoreError
        from urllib3.exceptions import HTTPError

        try:
            return bytes(self._body.read(size))
        except (BotoCoreError, HTTPError, OSError) as error:
            raise _refused(error, self._url) from None

    def close(self) -> None:
        self._body.close()
        super().close()


def _refused(error: Exception, context: str) -> RedshiftError:
    answer = getattr(error, "response", None)
    if not answer:
        return detailed(f"S3CurlException: {error}", 9001, context)
    details = answer.get("Error", {})
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return service_error(details.get("Message", str(error)), status, details.get("Code", "Unknown"), context)


@functools.lru_cache(maxsize=32)
def _client(endpoint: str, region: str, key: str, secret: str, token: str) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.session.Session()
    return session.client(
        "s3",
        endpoint_url=endpoint or None,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token or None,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 2}),
    )
