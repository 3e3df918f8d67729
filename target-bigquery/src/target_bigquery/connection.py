"""Settings -> a client of the BigQuery API, with the right credentials."""

from __future__ import annotations

import importlib
from typing import Any
from urllib.parse import urlparse

from singer_arrow.errors import ConfigError, CredentialsError
from target_bigquery.config import Settings

SCOPES = ("https://www.googleapis.com/auth/bigquery", "https://www.googleapis.com/auth/cloud-platform")


def open_client(settings: Settings, credentials: Any) -> Any:
    """A client for one thread."""
    from google.api_core.client_options import ClientOptions
    from google.cloud import bigquery

    options = ClientOptions(api_endpoint=settings.api_endpoint) if settings.api_endpoint else None
    return bigquery.Client(
        project=settings.project,
        credentials=credentials,
        client_options=options,
    )


def find_credentials(settings: Settings) -> Any:
    """The credentials that the settings name, or the application's default ones.

    Raises:
        ConfigError: What the settings name is no file of credentials.
        CredentialsError: There are none.
    """
    credentials = _given(settings) or _anonymous(settings) or _default()
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

    auth: Any = importlib.import_module("google.auth")  # its functions have no types
    try:
        if settings.credentials_path:
            return auth.load_credentials_from_file(settings.credentials_path, scopes=SCOPES)[0]
        if settings.credentials is not None:
            return auth.load_credentials_from_dict(dict(settings.credentials), scopes=SCOPES)[0]
    except (GoogleAuthError, OSError, ValueError, KeyError) as error:
        name = "credentials_path" if settings.credentials_path else "credentials_json"
        msg = f"Setting {name!r} holds no usable Google credentials: {type(error).__name__}; check the key file"
        raise ConfigError(msg) from None
    return None


def _anonymous(settings: Settings) -> Any:
    """Credentials for a server of one's own, which must not get those that Google gave."""
    credentials: Any = importlib.import_module("google.auth.credentials")
    host = urlparse(settings.api_endpoint or "https://bigquery.googleapis.com").hostname or ""
    return None if host == "googleapis.com" or host.endswith(".googleapis.com") else credentials.AnonymousCredentials()


def _default() -> Any:
    from google.auth.exceptions import DefaultCredentialsError

    auth: Any = importlib.import_module("google.auth")
    try:
        return auth.default(scopes=SCOPES)[0]
    except DefaultCredentialsError:
        msg = (
            "No Google credentials were found; set credentials_path or credentials_json, "
            "or run `gcloud auth application-default login`"
        )
        raise CredentialsError(msg) from None
