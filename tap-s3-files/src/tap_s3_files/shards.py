"""Which tasks of a plan log one of several independent runs takes, and what it refuses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from singer_arrow.errors import ConfigError


def shard_of(segment: int, task: int, count: int) -> int:
    """Return which of `count` shards sends a task of a segment, both by their numbers.

    Each segment begins with another shard than the one before it: otherwise the first shards would always have one task
    more, and segments of one task would all be the first shard's.
    """
    return (segment + task) % count


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` runs that share the tasks of a plan log; `index` is its number from 0."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Return the shard that the setting `shard` names."""
        found = re.fullmatch(r"(\d+)/(\d+)", text, re.ASCII)
        if found is None or int(found[1]) >= int(found[2]):
            msg = f"Setting 'shard' is {text!r}, it must be like 0/4: the number of this run, from 0, and of how many"
            raise ConfigError(msg)
        return cls(int(found[1]), int(found[2]))


def check_state(given: Mapping[str, Any], stream: str, shard: Shard | None) -> None:
    """Check that a run may begin at the STATE of a stream: its own, or that of a run without shards.

    That of another shard has passed tasks that were never sent.
    """
    theirs = given.get("shard")
    if theirs and theirs != (str(shard) if shard else None):
        ours = f"of shard {shard}" if shard else "without setting 'shard'"
        raise ConfigError(
            f"The STATE of stream {stream!r} is of shard {theirs} and this run is {ours}: give it a STATE of its own "
            "(Meltano: --state-id-suffix); without STATE it follows the whole plan, and a target skips what is loaded"
        )
