"""The interface of a warehouse in the demonstration, independent of the connectors: tables, checksums and loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from local_cloud.demo.checksum import Checksum, Column


class Warehouse(Protocol):
    """A warehouse that a pipe loads into, by the executable `target`; `loads` is its term for its loads."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def loads(self) -> str: ...

    def columns(self, table: str) -> list[Column]:
        """Return the columns that came from the source."""

    def checksum(self, table: str, columns: Sequence[Column]) -> Checksum:
        """Return the checksum of all rows, computed by the warehouse itself."""

    def load_count(self, table: str) -> int:
        """Return how many loads into a table have succeeded."""

    def close(self) -> None:
        """Close the connection."""
