"""The executable `target-bigquery`."""

from __future__ import annotations

from collections.abc import Callable

from singer_arrow.sdk import cli


def main() -> None:
    """Run the target's command line."""
    cli.run("target-bigquery", _command, package="singer-arrow-target-bigquery")


def _command() -> Callable[[], object]:
    from target_bigquery.target import TargetBigQuery

    return TargetBigQuery.cli


if __name__ == "__main__":
    main()
