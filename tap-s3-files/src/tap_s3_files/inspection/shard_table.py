"""How even the shards of a plan are: `tap-s3-files --plan --shard-count 8`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tap_s3_files.inspection import text_table
from tap_s3_files.plan.model import PendingTask
from tap_s3_files.shard import shard_of

_HEADS = ("stream", "shard", "objects", "bytes", "tasks")
_NUMBERS = range(1, len(_HEADS))


class ShardShares:
    """What each of `count` shards of a stream would read."""

    def __init__(self, stream: str, count: int) -> None:
        self.stream, self.count = stream, count
        self._shares = [(0, 0, 0)] * count
        """Objects, bytes and tasks."""

    def counted(self, tasks: Iterable[PendingTask]) -> Iterator[PendingTask]:
        """Yield the tasks, each counted for its shard."""
        for pending in tasks:
            task = pending.task
            if task.objects:
                index = shard_of(pending.segment.number, pending.number, self.count)
                objects, size, count = self._shares[index]
                self._shares[index] = objects + len(task.ended_objects), size + task.bytes, count + 1
            yield pending

    def cells(self) -> Iterator[tuple[str, ...]]:
        """Yield a line of the table for each shard."""
        for index, share in enumerate(self._shares):
            yield (self.stream, f"{index}/{self.count}", *(f"{n:,}" for n in share))

    def summary(self) -> str:
        """Return how much more the largest shard reads than the mean."""
        sizes = [size for _, size, _ in self._shares]
        if not any(sizes):
            return f"{self.stream}: there is nothing to read"
        ratio = max(sizes) * self.count / sum(sizes)
        return f"{self.stream}: the largest shard reads {ratio:.2f} times the bytes of the mean"


def shard_lines(streams: Iterable[ShardShares]) -> Iterator[str]:
    """Yield the lines of the table of all streams, and for each how even its shards are."""
    listed = list(streams)
    yield from text_table.lines([_HEADS, *(cells for shares in listed for cells in shares.cells())], _NUMBERS)
    yield from (shares.summary() for shares in listed)
