"""What `Cloud` asks of the local Flight SQL server, besides queries."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self


class FlightSql:
    """A running local Flight SQL server; `token` replaces the password, `endpoints` are process ids at the start."""

    def __init__(
        self, uri: str, username: str, token: str, certificates: str, endpoints: Sequence[int], *, is_mutual: bool
    ) -> None:
        self.uri, self.username, self.token = uri, username, token
        self.certificates, self.endpoints = Path(certificates), list(endpoints)
        self.is_mutual = is_mutual

    @classmethod
    def from_environment(cls) -> Self:
        """Return the server that the environment of `local-cloud run` names."""
        import pyarrow.flight as fl

        uri, username, password = (os.environ[f"TAP_FLIGHT_SQL_{n}"] for n in ("URI", "USERNAME", "PASSWORD"))
        with fl.connect(uri) as client:
            _, header = client.authenticate_basic_token(username, password)
        return cls(uri, username, header.decode().removeprefix("Bearer "), "", (), is_mutual=False)

    def execute(self, statement: str) -> Any:
        """Run a statement in DuckDB, and return its rows as a table."""
        import pyarrow as pa

        return pa.ipc.open_stream(self._act("execute", statement)).read_all()

    def fail(self, *rules: dict[str, Any]) -> list[dict[str, Any]]:
        """Replace the faults; return the former ones with their counts (`fired`). See `faults.Rule` for the keys."""
        before: list[dict[str, Any]] = json.loads(self._act("faults", json.dumps(rules)))
        return before

    def statements(self) -> list[str]:
        """Return the queries that clients sent since the last call."""
        found: list[str] = json.loads(self._act("statements", ""))
        return found

    def _act(self, what: str, body: str) -> bytes:
        import pyarrow.flight as fl

        options: dict[str, Any] = {}
        if self.uri.startswith("grpc+tls"):
            options["tls_root_certs"] = (self.certificates / "ca.pem").read_bytes()
        if self.is_mutual:
            options["cert_chain"] = (self.certificates / "client.pem").read_bytes()
            options["private_key"] = (self.certificates / "client.key").read_bytes()
        with fl.connect(self.uri, **options) as client:
            call = fl.FlightCallOptions(timeout=60, headers=[(b"authorization", f"Bearer {self.token}".encode())])
            action = fl.Action(f"local-cloud-{what}", body.encode())
            (answer,) = client.do_action(action, call)
            data: bytes = answer.body.to_pybytes()
        return data
