"""What was found in an item's files that Redshift does not take, and where the first of it was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ValueReport:
    """What something was done about: how many there were, and the file, row and column of the first."""

    count: int = 0
    url: str = ""
    place: str = ""

    def note(self, count: int, url: str, place: str) -> None:
        """Count those of a column of a file, of which the first is at the place."""
        if not self.count:
            self.url, self.place = url, place
        self.count += count
