"""The executable `target-redshift`."""

from __future__ import annotations

from collections.abc import Callable

from singer_arrow.sdk import cli


def main() -> None:
    """Run the target's command line."""
    cli.run("target-redshift", _command, package="singer-arrow-target-redshift")


def _command() -> Callable[[], object]:
    from target_redshift.target import TargetRedshift

    return TargetRedshift.cli


if __name__ == "__main__":
    main()
