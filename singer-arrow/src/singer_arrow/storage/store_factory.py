"""Opens obstore's stores: where a bucket is, how it is reached, and with which credentials."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from singer_arrow.errors import ConfigError
from singer_arrow.storage import aws
from singer_arrow.storage import s3_client as s3
from singer_arrow.storage.aws import AwsOptions
from singer_arrow.storage.aws_env import Plain, plain
from singer_arrow.storage.urls import Url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# `read_timeout` ends a stalled body; `timeout` bounds a whole one, so obstore's default of 30 s would end slow ones.
_CLIENT = {"connect_timeout": "10s", "read_timeout": "20s", "timeout": "600s"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bucket of S3 is; no `credentials` for one that is read anonymously."""

    region: str
    endpoint: str | None
    credentials: Callable[[], dict[str, Any]] | None


class Reach:
    """How the buckets of one run are reached; not for several threads at once.

    botocore is loaded where it is needed: for what settings and environment do not tell, and for its own clients.
    """

    def __init__(self, options: AwsOptions) -> None:
        self._options = options
        self._clients: dict[tuple[str, str | None], Any] = {}

    def place(self, bucket: str) -> Place:
        """Find out where a bucket is, and credentials for it.

        Raises:
            ConfigError: The profile does not exist, or a file of certificate authorities.
            CredentialsError: There are none.
        """
        options, endpoint = self._options, self._endpoint
        region = options.region or (self._usual_region if endpoint else None)
        if region is None:
            anonymous = options.anonymous
            region = aws.DEFAULT_REGION if endpoint else aws.bucket_region(self._boto, bucket, anonymous=anonymous)
        return Place(region, endpoint, self._credentials)

    def client(self, place: Place) -> Any:
        """botocore's client of S3 for the buckets of a place."""
        key = (place.region, place.endpoint)
        if key not in self._clients:
            self._clients[key] = s3.client(self._boto, self._options, region=place.region, endpoint=place.endpoint)
        return self._clients[key]

    @cached_property
    def _plain(self) -> Plain | None:
        return plain(self._options)

    @cached_property
    def _boto(self) -> aws.Session:
        return aws.session(self._options)

    @cached_property
    def _endpoint(self) -> str | None:
        if self._options.endpoint_url or self._plain:
            return self._options.endpoint_url or (self._plain.endpoint if self._plain else None)
        return aws.s3_endpoint(self._boto)

    @cached_property
    def _usual_region(self) -> str | None:
        return self._plain.region if self._plain else self._boto.region_name or None

    @cached_property
    def _credentials(self) -> Callable[[], dict[str, Any]] | None:
        if self._options.anonymous:
            return None
        return self._plain.credentials if self._plain else aws.credential_provider(self._boto)


GoogleToken = Callable[[], dict[str, Any]]
"""Gives `token` and `expires_at`, as obstore asks for them."""
EMULATOR = "STORAGE_EMULATOR_HOST"
"""Where Google's own libraries look for another Google Cloud Storage than Google's."""


def open_store(
    url: Url,
    options: AwsOptions,
    place: Place | None,
    *,
    keyed: bool,
    persistent: bool = True,
    google: GoogleToken | None = None,
    day: date | None = None,
) -> ObjectStore:
    """A store for what is at the URL's scheme and bucket.

    Args:
        url: Of any object in it.
        options: How S3 is reached.
        place: Where a bucket of S3 is.
        keyed: Whether objects are decrypted with the customer's key.
        persistent: Whether it asks again itself for what fails in passing.
        google: Credentials for Google Cloud Storage; None: those of the environment.
        day: What is written to Google Cloud Storage gets it as its custom time.

    Raises:
        ConfigError: There is none for the scheme.
    """
    from obstore import store

    if place is not None:
        return _open_s3(url.bucket, options, place, keyed=keyed, persistent=persistent)
    if url.scheme == "file":
        return store.LocalStore()
    if url.scheme == "gs":
        return _open_gcs(url.bucket, google, day, persistent=persistent)
    if url.scheme == "az":
        return store.AzureStore(url.bucket, client_options=_client(), **_tries(persistent=persistent))
    msg = f"{url}: the scheme {url.scheme!r} can only be read one object at a time; use s3, gs, az or file"
    raise ConfigError(msg)


def _open_s3(bucket: str, options: AwsOptions, place: Place, *, keyed: bool, persistent: bool) -> ObjectStore:
    from obstore.store import S3Store

    # No certificate is for a name with a dot in it below Amazon's.
    virtual = place.endpoint is None and "." not in bucket
    config: dict[str, Any] = {"region": place.region, "virtual_hosted_style_request": virtual}
    if place.endpoint:
        config["endpoint"] = place.endpoint
    if options.requester_pays:
        config["request_payer"] = True
    if keyed:
        config |= {"server_side_encryption": "sse-c", "sse_customer_key_base64": options.sse_customer_key}
    client = _client(allow_http=bool(place.endpoint and place.endpoint.startswith("http://")))
    more = {"client_options": client, **_tries(persistent=persistent)}
    if place.credentials is None:
        return S3Store(bucket, config=cast("Any", {**config, "skip_signature": True}), **more)
    return S3Store(bucket, config=cast("Any", config), credential_provider=cast("Any", place.credentials), **more)


def _open_gcs(bucket: str, google: GoogleToken | None, day: date | None, *, persistent: bool) -> ObjectStore:
    from obstore.store import GCSStore

    config: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if host := os.environ.get(EMULATOR):
        config["base_url"] = host if "://" in host else f"http://{host}"
        google = _no_token
    if day is not None:
        begun = datetime.combine(day, time(), UTC)
        more["default_headers"] = {"x-goog-custom-time": f"{begun:%Y-%m-%dT%H:%M:%SZ}"}
    client = _client(allow_http=config.get("base_url", "").startswith("http://"), **more)
    options = {"client_options": client, **_tries(persistent=persistent)}
    if google is not None:
        options["credential_provider"] = google
    return GCSStore(bucket, config=cast("Any", config), **options)


def _no_token() -> dict[str, Any]:
    """An emulator takes any token; without one obstore would look for credentials."""
    return {"token": "none", "expires_at": None}


def _tries(*, persistent: bool) -> dict[str, Any]:
    return {} if persistent else {"retry_config": {"max_retries": 0}}


def _client(**more: Any) -> Any:
    """Options of obstore's client, which follows the proxies and SSL_CERT_FILE of the environment by itself."""
    bundle = aws.ca_bundle()
    if bundle and bundle != os.environ.get("SSL_CERT_FILE"):
        more["root_certificate"] = Path(bundle).read_bytes()
    return {**_CLIENT, **more}
