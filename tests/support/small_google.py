"""Small Google server with the answers needed to log in to BigQuery; it records the requests."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from small_network import Serving

from local_cloud.loopback import LoopbackServer

FOR_AN_HOUR = {"token_type": "Bearer", "expires_in": 3600}


@dataclass(frozen=True)
class Asked:
    """A request: its path, signer and body."""

    path: str
    authorization: str | None
    body: dict[str, Any]


class SmallGoogle(Serving):
    """A server for tokens of OAuth, STS and impersonated service accounts, and one dataset."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._server = LoopbackServer(type("Handler", (_Handler,), {"google": self}))
        self.url = self._server.url
        self.acting_as = f"{self.url}/v1/projects/-/serviceAccounts/{{}}:generateAccessToken"

    def key(self) -> dict[str, Any]:
        """Return a key file of a service account."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return {
            "type": "service_account",
            "client_email": "loader@p.iam.gserviceaccount.com",
            "private_key": key.private_bytes(serialization.Encoding.PEM, form, plain).decode(),
            "token_uri": f"{self.url}/oauth",
        }

    def federated(self, token_file: str, acting_as: str | None = None) -> dict[str, Any]:
        """Return the file that `gcloud iam workload-identity-pools create-cred-config` writes."""
        pool = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/ci"
        made = {
            "type": "external_account",
            "audience": pool,
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{self.url}/sts",
            "credential_source": {"file": token_file},
        }
        if acting_as:
            made["service_account_impersonation_url"] = self.acting_as.format(acting_as)
        return made

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """The bodies of the requests to a path."""
        return [asked.body for asked in self.asked if asked.path == path]

    @property
    def signers(self) -> set[str | None]:
        """The signers of the requests to BigQuery."""
        return {asked.authorization for asked in self.asked if asked.path.startswith("/bigquery/")}


class _Handler(BaseHTTPRequestHandler):
    google: SmallGoogle

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        is_json = "json" in self.headers["Content-Type"]
        body = json.loads(text) if is_json else {k: v[0] for k, v in parse_qs(text).items()}
        self.google.asked.append(Asked(self.path, self.headers.get("Authorization"), body))
        if self.path == "/oauth":
            self._answer({"access_token": "of-oauth", **FOR_AN_HOUR})
        elif self.path == "/sts":
            kind = "urn:ietf:params:oauth:token-type:access_token"
            self._answer({"access_token": "of-sts", "issued_token_type": kind, **FOR_AN_HOUR})
        else:
            account = self.path.rpartition("/")[2].partition(":")[0]
            self._answer({"accessToken": f"of-{account}", "expireTime": "2100-01-01T00:00:00Z"})

    def do_GET(self) -> None:
        self.google.asked.append(Asked(self.path, self.headers.get("Authorization"), {}))
        self._answer({"datasetReference": {"projectId": "p", "datasetId": "d"}, "location": "EU"})

    def _answer(self, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Log nothing."""
