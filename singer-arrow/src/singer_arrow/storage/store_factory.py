"""Opening of obstore's stores: region, endpoint and credentials of a bucket."""

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
from singer_arrow.storage.aws_options import AwsOptions, StaticAccess, static_access
from singer_arrow.storage.urls import Url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

# `read_timeout` ends a stalled body. `timeout` bounds the whole body, so obstore's default of 30 s is too short.
CLIENT_TIMEOUTS = {"connect_timeout": "10s", "read_timeout": "20s", "timeout": "600s"}


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """Region, endpoint and credentials of an S3 bucket; `credentials` is None for anonymous access."""

    region: str
    endpoint: str | None
    credentials: Callable[[], dict[str, Any]] | None


class S3Connections:
    """Locations and botocore clients of the S3 buckets of a run. Not thread-safe.

    Loads botocore only if settings and environment do not suffice, or for `client`.
    """

    def __init__(self, options: AwsOptions) -> None:
        self._options = options
        self._clients: dict[tuple[str, str | None], Any] = {}

    def location(self, bucket: str) -> BucketLocation:
        """Find the region, endpoint and credentials of a bucket; CredentialsError if there are none."""
        endpoint, anonymous = self._access.endpoint, self._options.anonymous
        region = self._options.region or (self._access.region if endpoint else None)
        if region is None:
            region = aws.DEFAULT_REGION if endpoint else aws.bucket_region(self._boto, bucket, anonymous=anonymous)
        return BucketLocation(region, endpoint, self._access.credentials)

    def client(self, location: BucketLocation) -> Any:
        """Return botocore's S3 client for a location."""
        key = (location.region, location.endpoint)
        if key not in self._clients:
            self._clients[key] = s3.client(
                self._boto, self._options, region=location.region, endpoint=location.endpoint
            )
        return self._clients[key]

    @cached_property
    def _boto(self) -> aws.AwsSession:
        return aws.session(self._options)

    @cached_property
    def _access(self) -> StaticAccess:
        """The usual region, the endpoint and the credentials, from settings and environment or by botocore."""
        if (known := static_access(self._options)) is not None:
            return known
        endpoint = self._options.endpoint_url or aws.s3_endpoint(self._boto)
        credentials = None if self._options.anonymous else aws.credential_provider(self._boto)
        return StaticAccess(self._boto.region_name or None, endpoint, credentials)


GoogleToken = Callable[[], dict[str, Any]]
"""Returns `token` and `expires_at` in obstore's form."""
EMULATOR = "STORAGE_EMULATOR_HOST"
"""Environment variable with the endpoint of an emulator, also read by Google's libraries."""


def open_store(
    url: Url,
    options: AwsOptions,
    location: BucketLocation | None,
    *,
    keyed: bool,
    persistent: bool = True,
    google: GoogleToken | None = None,
    day: date | None = None,
) -> ObjectStore:
    """Return a store for the bucket of a URL; ConfigError if the scheme is not supported.

    `keyed`: objects are decrypted with the customer's key. `persistent`: obstore retries transient errors. `google`:
    credentials, by default those of the environment. `day`: custom time of objects written to Google Cloud Storage.
    """
    from obstore import store

    if location is not None:
        return _open_s3(url.bucket, options, location, keyed=keyed, persistent=persistent)
    if url.scheme == "file":
        return store.LocalStore()
    if url.scheme == "gs":
        return _open_gcs(url.bucket, google, day, persistent=persistent)
    if url.scheme == "az":
        return store.AzureStore(url.bucket, client_options=_client(), **retry_options(persistent=persistent))
    raise ConfigError(f"{url}: the scheme {url.scheme!r} can only be read one object at a time; use s3, gs, az or file")


def _open_s3(
    bucket: str, options: AwsOptions, location: BucketLocation, *, keyed: bool, persistent: bool
) -> ObjectStore:
    from obstore.store import S3Store

    # Amazon's certificates do not cover bucket names with a dot.
    virtual = location.endpoint is None and "." not in bucket
    config: dict[str, Any] = {"region": location.region, "virtual_hosted_style_request": virtual}
    if location.endpoint:
        config["endpoint"] = location.endpoint
    if options.requester_pays:
        config["request_payer"] = True
    if keyed:
        config |= {"server_side_encryption": "sse-c", "sse_customer_key_base64": options.sse_customer_key}
    client = _client(allow_http=bool(location.endpoint and location.endpoint.startswith("http://")))
    more = {"client_options": client, **retry_options(persistent=persistent)}
    if location.credentials is None:
        return S3Store(bucket, config=cast("Any", {**config, "skip_signature": True}), **more)
    return S3Store(bucket, config=cast("Any", config), credential_provider=cast("Any", location.credentials), **more)


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
    options = {"client_options": client, **retry_options(persistent=persistent)}
    if google is not None:
        options["credential_provider"] = google
    return GCSStore(bucket, config=cast("Any", config), **options)


def _no_token() -> dict[str, Any]:
    """Return a token for an emulator; without one obstore would look for credentials."""
    return {"token": "none", "expires_at": None}


def retry_options(*, persistent: bool) -> dict[str, Any]:
    """Return the options for retries of a store: obstore's own, or none."""
    return {} if persistent else {"retry_config": {"max_retries": 0}}


def _client(**more: Any) -> Any:
    """Return obstore's client options; it reads proxies and SSL_CERT_FILE from the environment itself."""
    bundle = aws.ca_bundle()
    if bundle and bundle != os.environ.get("SSL_CERT_FILE"):
        more["root_certificate"] = Path(bundle).read_bytes()
    return {**CLIENT_TIMEOUTS, **more}
