"""The executable `tap-flight-sql`."""

from __future__ import annotations

from singer_arrow.runtime.startup import end_at_signals, shows_version

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the tap's command line."""
    end_at_signals("tap-flight-sql")
    if shows_version("tap-flight-sql", "singer-arrow-tap-flight-sql"):
        return
    from singer_arrow.sdk import cli

    cli.run_connector("tap-flight-sql", _command, package="singer-arrow-tap-flight-sql")


def _command() -> Callable[[], object]:
    from tap_flight_sql.stream import TapFlightSql

    return TapFlightSql.cli


if __name__ == "__main__":
    main()
