"""The connection to BigQuery: credentials, a client for each thread, and retries.

Retries are made here and not by Google's library, so that every kind of call is treated alike.
"""

from __future__ import annotations

import importlib
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlparse

from singer_arrow.errors import ConfigError, CredentialsError, ServiceError, SingerArrowError
from singer_arrow.runtime import process
from singer_arrow.runtime.threads import Waiting, pauses
from singer_arrow.sdk.settings import object_file
from target_bigquery import resources, sql
from target_bigquery.settings import Settings

if TYPE_CHECKING:
    from requests import Session

T = TypeVar("T")
logger = logging.getLogger("target-bigquery")
DEADLINE_SECONDS = 300.0
"""How long a call is tried again, and how long after its beginning a job that failed of something passing, whose own
calls may then take as long: after half a second, then after twice as long as before, up to 32 seconds; each pause is
shortened by chance by up to a half."""
REQUEST_SECONDS = 120.0
ONCE: dict[str, Any] = {"retry": None, "timeout": REQUEST_SECONDS}
_STORAGE_API = "google.cloud.bigquery_storage_v1"
SCOPES = ("https://www.googleapis.com/auth/bigquery", "https://www.googleapis.com/auth/cloud-platform")


def open_client(settings: Settings, credentials: Any) -> Any:
    from google.api_core.client_options import ClientOptions

    # without the client of the Storage API, whose import takes a quarter of the time of all
    is_first = "google.cloud.bigquery" not in sys.modules and _STORAGE_API not in sys.modules
    if is_first:
        sys.modules[_STORAGE_API] = None  # type: ignore[assignment]  # which means that there is none
    try:
        from google.cloud import bigquery
    finally:
        if is_first:
            del sys.modules[_STORAGE_API]

    options = ClientOptions(api_endpoint=settings.api_endpoint) if settings.api_endpoint else None
    client = bigquery.Client(project=settings.project, credentials=credentials, client_options=options)
    _end_dead_connections(client._http)  # Google's library takes no option of sockets
    return client


def _end_dead_connections(session: Session) -> None:
    """Have connections end whose peer is gone; a session with its own adapter, for mutual TLS, is unchanged."""
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection

    options = [*HTTPConnection.default_socket_options, *process.user_timeout()]

    class Adapter(HTTPAdapter):
        """Opens connections with these options, directly and through a proxy."""

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, socket_options=options, **kwargs)

        def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
            return super().proxy_manager_for(*args, socket_options=options, **kwargs)

    for prefix, adapter in list(session.adapters.items()):
        if type(adapter) is HTTPAdapter:
            session.mount(prefix, Adapter())


def find_credentials(settings: Settings) -> Any:
    """Return the credentials that the settings name, or the application's default ones."""
    from google.auth.exceptions import DefaultCredentialsError

    auth: Any = importlib.import_module("google.auth")  # its functions have no types
    credentials = _given(settings)
    if not credentials and not _is_google(settings.api_endpoint):  # which must not get Google's credentials
        credentials = importlib.import_module("google.auth.credentials").AnonymousCredentials()
    if not credentials:
        try:
            credentials = auth.default(scopes=SCOPES)[0]
        except DefaultCredentialsError:
            raise CredentialsError(
                "No Google credentials were found; set credentials_path or credentials_json, "
                "or run `gcloud auth application-default login`"
            ) from None
    if settings.impersonate_service_account:
        impersonated: Any = importlib.import_module("google.auth.impersonated_credentials")
        return impersonated.Credentials(
            source_credentials=credentials,
            target_principal=settings.impersonate_service_account,
            target_scopes=list(SCOPES),
        )
    return credentials


def _given(settings: Settings) -> Any:
    from google.auth.exceptions import GoogleAuthError

    name = "credentials_path" if settings.credentials_path else "credentials_json"
    path = settings.credentials_path
    given = object_file(path, f"Setting 'credentials_path': {path}") if path else settings.credentials
    if given is None:
        return None
    auth: Any = importlib.import_module("google.auth")  # its functions have no types
    try:
        with warnings.catch_warnings():  # it warns of key files of strangers; this one is the user's own
            warnings.simplefilter("ignore", DeprecationWarning)
            if given.get("type") == "external_account":
                # of a workload; Google's own loader would ask for a token at once, and then for the pool's project
                is_aws = given.get("subject_token_type") == "urn:ietf:params:aws:token-type:aws4_request"
                is_program = not is_aws and given["credential_source"].get("executable") is not None
                kind = "aws" if is_aws else "pluggable" if is_program else "identity_pool"
                module: Any = importlib.import_module(f"google.auth.{kind}")
                return module.Credentials.from_info(dict(given), scopes=SCOPES)
            return auth.load_credentials_from_dict(dict(given), scopes=SCOPES)[0]
    except (GoogleAuthError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        # the last three: Google's library takes for granted what a key file holds
        msg = f"Setting {name!r} holds no usable Google credentials: {type(error).__name__}; check the key file"
        raise ConfigError(msg) from None


def storage_token(settings: Settings) -> Callable[[], dict[str, Any]] | None:
    """Return a source of tokens for Google Cloud Storage from BigQuery's credentials; see `stores.GoogleToken`.

    None for an own `api_endpoint` without credentials; the storage then uses the credentials of the environment.
    """
    if not _is_google(settings.api_endpoint) and not (settings.credentials_path or settings.credentials):
        return None
    lock, found = threading.Lock(), list[Any]()

    def token() -> dict[str, Any]:
        requests: Any = importlib.import_module("google.auth.transport.requests")
        with lock:
            if not found:
                found.append(find_credentials(settings))
            (credentials,) = found
            if not credentials.valid:
                try:
                    credentials.refresh(requests.Request())
                except Exception as error:  # noqa: BLE001 - all of the vendor's errors pass this boundary
                    raise resources.translate_error(error, "Getting a token for Google Cloud Storage") from None
            expiry = credentials.expiry
            return {"token": credentials.token, "expires_at": expiry.replace(tzinfo=UTC) if expiry else None}

    return token


def _is_google(endpoint: str | None) -> bool:
    host = urlparse(endpoint or "https://bigquery.googleapis.com").hostname or ""
    return host == "googleapis.com" or host.endswith(".googleapis.com")


class Connection:
    """One project and dataset; safe to use from any thread, and opened on first use."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.location = settings.location
        self._threads = threading.local()
        self._clients: list[Any] = []
        self._lock = threading.Lock()

    @cached_property
    def credentials(self) -> Any:
        return find_credentials(self.settings)

    def credentials_for(self, host: str) -> Any:
        """Return the credentials for another server than that of `api_endpoint`; the setting documents which."""
        if _is_google(f"https://{host}") or self.settings.credentials_path or self.settings.credentials:
            return self.credentials
        credentials: Any = importlib.import_module("google.auth.credentials")
        return credentials.AnonymousCredentials()

    @property
    def client(self) -> Any:
        """Google's client, one for each thread."""
        client = getattr(self._threads, "client", None)
        if client is None:
            with self._lock:
                client = open_client(self.settings, self.credentials)
                self._clients.append(client)
            self._threads.client = client
        return client

    def close(self) -> None:
        with self._lock:
            for client in self._clients:
                client.close()
            self._clients.clear()

    def path(self, table: str) -> str:
        """Return `project.dataset.table`."""
        return f"{self.settings.project}.{self.settings.dataset}.{table}"

    def quoted(self, table: str) -> str:
        return sql.quoted(self.settings.project, self.settings.dataset, table)

    def call(self, what: str, function: Callable[[], T]) -> T:
        """Call Google's library, translate its errors, and retry transient ones."""
        waiting = Waiting(logger)
        for pause in pauses(DEADLINE_SECONDS):
            try:
                return self.call_once(what, function)
            except ServiceError as error:
                if pause is None:
                    raise ServiceError(f"{error}; all retries failed; run again later") from None
                waiting.before_again(pause, error)
        raise AssertionError

    def call_once(self, what: str, function: Callable[[], T]) -> T:
        """Call Google's library once and translate its errors."""
        try:
            return function()
        except SingerArrowError:
            raise
        except Exception as error:  # noqa: BLE001 - all of the vendor's errors pass this boundary
            raise resources.translate_error(error, what) from None
