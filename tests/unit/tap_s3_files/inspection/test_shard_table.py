"""The table of what each shard would read."""

from __future__ import annotations

from plan_runs import info, segment

from tap_s3_files.plan_model import SMALL_OBJECT, unsent
from tap_s3_files.settings import Bookmark
from tap_s3_files.shards import Shard
from tap_s3_files.tables import ShardShares, shard_lines


def test_each_shard_has_what_it_would_send() -> None:
    segments = [segment(n, *(info(f"{n}-{k}", size=SMALL_OBJECT + 1 + k) for k in range(3 + n))) for n in range(3)]
    shares, nothing = ShardShares("orders", 2), ShardShares("none", 2)
    assert len(list(shares.counted(unsent(Bookmark(), segments)))) == 12
    assert list(shard_lines([shares, nothing])) == [
        "stream  shard  objects       bytes  tasks",
        "orders    0/2        7  58,720,275      7",
        "orders    1/2        5  41,943,052      5",
        "none      0/2        0           0      0",
        "none      1/2        0           0      0",
        "orders: the largest shard reads 1.17 times the bytes of the mean",
        "none: there is nothing to read",
    ]
    sent = [p.task.bytes for p in unsent(Bookmark(), segments, shard=Shard(0, 2))]
    assert sum(sent) == 58_720_275


def test_how_much_more_the_largest_reads() -> None:
    shares = ShardShares("orders", 4)
    list(shares.counted(unsent(Bookmark(), [segment(0, info("a", size=SMALL_OBJECT + 1))])))
    assert shares.summary() == "orders: the largest shard reads 4.00 times the bytes of the mean"
