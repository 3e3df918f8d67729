"""The settings of Dask: read, and what must not be sent to a cluster refused. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from singer_arrow.batch.settings import BatchSettings
from singer_arrow.errors import ConfigError, one_line
from singer_arrow.storage.aws_options import AwsOptions
from singer_arrow.storage.urls import Url

_SECRETS = ("access_key_id", "secret_access_key", "session_token", "sse_customer_key")
_NAMES = ("dask_scheduler", "dask_tls")


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of the certificates for a scheduler at tls://."""

    ca_file: str
    cert_file: str
    key_file: str


@dataclass(frozen=True, slots=True)
class DaskSettings:
    """Which cluster runs tasks, and how it is reached.

    `wait_seconds`: how long a cluster without workers, or a scheduler that does not answer, is waited for; `window`:
    tasks in flight, None: two for each thread of the cluster.
    """

    scheduler: str
    tls: Tls | None
    wait_seconds: float
    window: int | None

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, batch: BatchSettings | None, urls: Iterable[Url], aws: AwsOptions
    ) -> DaskSettings | None:
        """Return the settings of Dask; None for the executor threads.

        `urls` are all places that tasks read or write: none may be a local file, nor `aws` or a URL have a secret.
        """
        if config.get("executor", "threads") != "dask":
            if given := next((name for name in _NAMES if name in config), None):
                msg = f"Setting '{given}' is for executor dask; set executor to dask, or leave it out"
                raise ConfigError(msg)
            return None
        scheduler, tls = config.get("dask_scheduler", ""), dict(config.get("dask_tls", {}))
        _check_scheduler(scheduler, tls)
        if batch is None:
            msg = "Setting 'executor' is dask, which needs 'batch_config': workers write batch files, and no records"
            raise ConfigError(msg)
        if secret := next((name for name in _SECRETS if getattr(aws, name)), None):
            msg = (
                f"Setting 'executor' is dask: aws.{secret} would be sent to its scheduler and workers; leave it out, "
                "and let workers use a role of their machine, aws.role_arn or aws.profile"
            )
            raise ConfigError(msg)
        for url in urls:
            if one_line(str(url)) != str(url):
                msg = f"Setting 'executor' is dask: the password in {url} would be sent to its scheduler and workers"
                raise ConfigError(msg)
            if url.scheme == "file" and not config.get("dask_shared_files", False):
                msg = (
                    f"Setting 'executor' is dask: {url} is on a disk of one machine; use an object store, or set "
                    "dask_shared_files to true if all workers have the same folder there"
                )
                raise ConfigError(msg)
        wait = float(config.get("dask_wait_seconds", 600))
        certificates = Tls(**tls) if tls else None
        return cls(scheduler=scheduler, tls=certificates, wait_seconds=wait, window=config.get("max_workers"))


def _check_scheduler(address: str, tls: Mapping[str, str]) -> None:
    if not re.fullmatch(r"(tls|tcp)://(\[[^\]\s]+\]|[^\s/:@]+):\d+", address):
        given = f"is {address!r}" if address else "is missing"
        msg = f"Setting 'dask_scheduler' {given}; it must be the scheduler's address, like tls://dask.example.com:8786"
        raise ConfigError(msg)
    if address.startswith("tcp:"):
        host = urlsplit(address).hostname or ""
        try:
            is_loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_loopback = host == "localhost"
        if not is_loopback:
            msg = (
                f"Setting 'dask_scheduler' is {address}: a client that reaches a port without TLS can run code on the "
                "workers; use tls:// and set dask_tls"
            )
            raise ConfigError(msg)
        if tls:
            msg = "Setting 'dask_tls' is for a scheduler at tls://; change dask_scheduler, or leave it out"
            raise ConfigError(msg)
    elif missing := next((name for name in ("ca_file", "cert_file", "key_file") if not tls.get(name)), None):
        msg = f"Setting 'dask_tls.{missing}' is missing: a scheduler at tls:// needs ca_file, cert_file and key_file"
        raise ConfigError(msg)
