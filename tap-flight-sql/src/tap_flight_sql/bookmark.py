"""What the STATE of a stream holds. Pure.

    {"replication_key": "updated_at", "replication_key_value": "2024-05-01T10:00:00", "window": 17, "log": "5f0c..."}

All rows up to the value were sent, and all windows before this number of the window log with this id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from singer_arrow.errors import ConfigError
from tap_flight_sql.sql import Bound


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Position of a stream: the largest value of its replication key that was sent, and the next window."""

    value: Bound | None = None
    window: int = 0
    log: str = ""

    def to_state(self, key: str) -> dict[str, Any]:
        """Return the stream's entry in STATE."""
        value = {"replication_key_value": self.value} if self.value is not None else {}
        return {"replication_key": key, **value, "window": self.window, **({"log": self.log} if self.log else {})}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], stream: str, key: str) -> Bookmark:
        """Read the stream's entry in STATE, which may be empty."""
        value, window, own = state.get("replication_key_value"), state.get("window", 0), state.get("replication_key")
        value = float(value) if isinstance(value, Decimal) else value  # the SDK reads fractions as decimals
        if own is not None and own != key:
            msg = (
                f"The STATE of stream {stream!r} is of the replication key {own!r}, and the setting is {key!r}; to "
                "begin anew, run without the stream's state, set another plan_root and empty the table"
            )
            raise ConfigError(msg)
        log = state.get("log", "")
        if (
            not isinstance(log, str)
            or not isinstance(window, int)
            or window < 0
            or not isinstance(value, int | float | str | None)
        ):
            msg = (
                f"The STATE of stream {stream!r} is not one that this tap wrote; restore an earlier one, or run "
                "without the stream's state"
            )
            raise ConfigError(msg)
        return cls(value, window, log)
