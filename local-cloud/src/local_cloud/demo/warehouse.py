"""What the demonstration asks of a warehouse, without the connectors: its tables, their checksums, the loads it did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from local_cloud.demo.checksum import Checksum, Column


class Warehouse(Protocol):
    """A warehouse that a pipe loads into.

    Attributes:
        name: how the tables call it.
        target: the executable that loads into it.
        loads: what it calls its loads.
    """

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> str: ...

    @property
    def loads(self) -> str: ...

    def columns(self, table: str) -> list[Column]:
        """The columns that came from the source."""

    def checksum(self, table: str, columns: Sequence[Column]) -> Checksum:
        """Computed by the warehouse itself over all rows."""

    def load_count(self, table: str) -> int:
        """How many loads into a table succeeded so far."""

    def close(self) -> None:
        """Leave it."""
