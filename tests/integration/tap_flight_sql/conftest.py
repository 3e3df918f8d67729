"""The tap against the local Flight SQL server."""

from __future__ import annotations

from pathlib import Path

import pytest
from flight_tap import Tap
from forked_programs import ForkedPrograms

from local_cloud import Cloud


@pytest.fixture
def tap(flight_cloud: Cloud, tmp_path: Path) -> Tap:
    """Return a runner of the tap."""
    return Tap(ForkedPrograms(flight_cloud.environ(), tmp_path), tmp_path / "batches")
