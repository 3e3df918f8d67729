"""Paths and the place of batch files, given on the command line instead of in settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import click

from singer_arrow.storage.urls import Url, has_glob

_BATCH_HELP = (
    "URL below which batch files are written (Parquet); without it, and without batch_config, rows are records."
)
OTHER_COMMANDS = """\b
Other commands, with a --help of their own:
  tap-s3-files init URL...          Write a commented configuration for a bucket.
  tap-s3-files setup-queue PATH...  Make an SQS queue for the events of a bucket.
"""
"""What `--help` ends with."""


def path_params() -> list[click.Parameter]:
    """Return the parameters of the command line that `merge_paths` reads."""
    return [
        click.Argument(["paths"], nargs=-1, required=False, metavar="[PATH]..."),
        click.Option(["--batch-root", "batch_root"], help=_BATCH_HELP, metavar="URL"),
    ]


class _RowCount(click.ParamType[int]):
    """A number of rows; a path in its place has an error of its own."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if str(value).isdecimal() and int(value):
            return int(value)
        msg = f"{value!r} is not a number of rows; put paths before --preview, or write --preview 10"
        raise click.BadParameter(msg, ctx, param)


def inspection_params() -> list[click.Parameter]:
    """Return the options that show something instead of running: `--plan`, `--target`, `--preview`."""
    plan = "Show what a run would read: objects, bytes, tasks, batch files, formats and times. Reads no data."
    target = "With --plan: show also what loading needs, bigquery or redshift; repeatable."
    shards = "With --plan: show also what each of N shards would read; see the setting shard."
    anew = (
        "Begin a new plan log on purpose: where the given --state ends, for runs that have it; without one at the "
        "beginning, to read all objects again into an empty table. Sends nothing."
    )
    preview = "Show the types and the first rows of each stream, 10 unless N is given. Writes no STATE and no files."
    return [
        click.Option(["--plan"], is_flag=True, help=plan),
        click.Option(
            ["--write-plan"], is_flag=True, help="List objects and append them to the plan log; send nothing."
        ),
        click.Option(["--new-plan-log"], is_flag=True, help=anew),
        click.Option(["--shard-count"], type=click.IntRange(min=1), help=shards, metavar="N"),
        click.Option(["--target", "targets"], type=click.Choice(("bigquery", "redshift")), multiple=True, help=target),
        click.Option(["--preview"], type=_RowCount(), is_flag=False, flag_value="10", help=preview, metavar="[N]"),
    ]


def merge_paths(config: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Write `paths`, in place of `streams`, and `batch_root`, the place alone of `batch_config`, into settings."""
    if paths := given.get("paths"):
        config["streams"] = [{"name": stream_name(path), "path": path} for path in paths]
    if root := given.get("batch_root"):
        batches = config.get("batch_config") or {"encoding": {"format": "parquet"}}
        config["batch_config"] = {**batches, "storage": {**(batches.get("storage") or {}), "root": root}}


def stream_name(path: str) -> str:
    """Return the name of the stream that a path alone makes.

    It is the last part of the path that is a plain name: of `s3://shop/orders/**/*.csv` it is `orders`, of
    `s3://shop/orders.csv.gz` too, of `s3://shop/logs/orders-*.csv` too. Folders like `day=1` are no names. If there is
    none, it is the name of the bucket.
    """
    url = Url.parse(path)
    *folders, last = url.key.split("/")
    candidates = [url.bucket, *folders, re.split(r"[*?\[{]", last)[0].split(".")[0]]
    wild = next((n for n, part in enumerate(candidates) if has_glob(part)), len(candidates))
    before = re.split(r"[*?\[{]", candidates[wild])[0] if wild < len(candidates) else ""
    plain = [_name(part) for part in [*candidates[:wild], before] if "=" not in part]
    return next((name for name in reversed(plain) if re.search(r"[^\W\d_]", name)), "files")


def _name(part: str) -> str:
    return re.sub(r"\W+", "_", part).strip("_")
