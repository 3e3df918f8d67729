"""The executable `target-bigquery`."""

from __future__ import annotations

from singer_arrow.runtime.startup import end_at_signals, shows_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the target's command line."""
    end_at_signals("target-bigquery")
    if shows_version("target-bigquery", "singer-arrow-target-bigquery"):
        return
    from singer_arrow.sdk import cli

    cli.run_connector("target-bigquery", _command, package="singer-arrow-target-bigquery")


def _command() -> Callable[[], object]:
    from target_bigquery.target import TargetBigQuery

    return TargetBigQuery.cli


if __name__ == "__main__":
    main()
