"""The fault proxy as a child process: start it, set its rules, read its report."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local_cloud.errors import LocalCloudError
from local_cloud.faults.proxy import CONTROL
from local_cloud.faults.rules import RuleError, parse
from local_cloud.process import Service

# The proxies that the environment names are for the network outside.
open_directly = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

RuleDict = Mapping[str, Any]


def load_rules(path: Path) -> list[RuleDict]:
    """Return the rules of a file, checked."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        parse(document)
    except OSError as error:
        raise LocalCloudError(f"cannot read the faults {path}: {error.strerror}") from None
    except (json.JSONDecodeError, RuleError, TypeError) as error:
        raise LocalCloudError(f"cannot understand the faults {path}: {error}") from None
    listed: list[RuleDict] = document["rules"] if isinstance(document, dict) else document
    return listed


class FaultProxy:
    """A running proxy in front of `upstream`. It ends with `stop` or with this process."""

    def __init__(self, upstream: str, *, log: Path) -> None:
        self.service = Service(
            "fault proxy", [sys.executable, "-P", "-m", "local_cloud.faults.proxy", urlsplit(upstream).netloc], log=log
        )
        self.url = str(self.service.facts["url"])

    def set(self, *rules: RuleDict, seed: int = 0) -> None:
        """Replace the rules and reset all counts. `rules.Rule` documents the keys of a rule."""
        self._ask("PUT", {"seed": seed, "rules": list(rules)})

    def clear(self) -> None:
        """Remove all rules and reset all counts."""
        self._ask("DELETE")

    def report(self) -> dict[str, Any]:
        """Return the rules with counts, requests, connections, bytes_up, bytes_down, and the log of requests."""
        return self._ask("GET")

    def requests(self, *methods: str) -> Sequence[dict[str, Any]]:
        """The log of requests, oldest first, of some methods or all: method, path, status, bytes, range, if-match."""
        log: list[dict[str, Any]] = self.report()["log"]
        return [entry for entry in log if not methods or entry["method"] in methods]

    def stop(self) -> None:
        """End the proxy."""
        self.service.stop()

    def _ask(self, method: str, document: Mapping[str, Any] | None = None) -> dict[str, Any]:
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + CONTROL, data=body, method=method)  # noqa: S310 - our own address
        try:
            with open_directly(request, timeout=10) as response:
                answer: dict[str, Any] = json.load(response)
        except urllib.error.HTTPError as error:
            raise LocalCloudError(f"the fault proxy refused the rules: {json.load(error)['error']}") from None
        return answer
