"""Two runs that share one BigQuery load job: the first starts it, and it is held until the second finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from singer_lines import Message, load
from waiting import wait_until

from singer_arrow.sdk.target import WarehouseTarget

HELD_SECONDS = 3600
"""Delay of a fault that holds a request until other faults are set."""


def load_beside_a_held_job(
    messages: Sequence[Message],
    config: dict[str, Any],
    fail_jobs: Callable[..., object],
    caplog: pytest.LogCaptureFixture,
) -> WarehouseTarget:
    """Run target-bigquery, and release the held job once the run waits for it."""
    caplog.set_level("INFO")
    with ThreadPoolExecutor(1) as pool:
        try:
            running = pool.submit(load, messages, config)
            wait_until(lambda: running.done() or "is still loading; waiting for it" in caplog.text)
        finally:
            fail_jobs()
        target = running.result()
    assert "is still loading; waiting for it" in caplog.text
    return target
