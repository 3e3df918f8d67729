"""The executable `target-redshift`."""

from __future__ import annotations

from singer_arrow.runtime.startup import end_at_signals, shows_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the target's command line."""
    end_at_signals("target-redshift")
    if shows_version("target-redshift", "singer-arrow-target-redshift"):
        return
    from singer_arrow.sdk import cli

    cli.run_connector("target-redshift", _command, package="singer-arrow-target-redshift")


def _command() -> Callable[[], object]:
    from target_redshift.target import TargetRedshift

    return TargetRedshift.cli


if __name__ == "__main__":
    main()
