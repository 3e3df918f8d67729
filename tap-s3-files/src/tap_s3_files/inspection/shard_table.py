"""How even the shards of a plan are: `tap-s3-files --plan --shard-count 8`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tap_s3_files.inspection import text_table
from tap_s3_files.plan.model import PendingTask
from tap_s3_files.shard import shard_of

_HEADS = ("stream", "shard", "objects", "bytes", "tasks")
_NUMBERS = range(1, len(_HEADS))


@dataclass(slots=True)
class _Share:
    objects: int = 0
    bytes: int = 0
    tasks: int = 0


@dataclass(slots=True)
class ShardShares:
    """What each shard of a stream would read."""

    stream: str
    count: int
    _shares: list[_Share] = field(init=False)

    def __post_init__(self) -> None:
        self._shares = [_Share() for _ in range(self.count)]

    def counted(self, tasks: Iterable[PendingTask]) -> Iterator[PendingTask]:
        """Yield the tasks, each counted for its shard."""
        for pending in tasks:
            if pending.task.objects:
                share = self._shares[shard_of(pending.segment.number, pending.number, self.count)]
                share.objects += len(pending.task.ended_objects)
                share.bytes += pending.task.bytes
                share.tasks += 1
            yield pending

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield a line of the table for each shard."""
        for index, share in enumerate(self._shares):
            numbers = (f"{n:,}" for n in (share.objects, share.bytes, share.tasks))
            yield (self.stream, f"{index}/{self.count}", *numbers)

    def summary(self) -> str:
        """Return how much more the largest shard reads than the mean."""
        total = sum(share.bytes for share in self._shares)
        if not total:
            return f"{self.stream}: there is nothing to read"
        ratio = max(share.bytes for share in self._shares) * self.count / total
        return f"{self.stream}: the largest shard reads {ratio:.2f} times the bytes of the mean"


def shard_lines(streams: Iterable[ShardShares]) -> Iterator[str]:
    """Yield the lines of the table of all streams, and for each how even its shards are."""
    listed = list(streams)
    yield from text_table.lines([_HEADS, *(cells for shares in listed for cells in shares.cells())], _NUMBERS)
    yield from (shares.summary() for shares in listed)
