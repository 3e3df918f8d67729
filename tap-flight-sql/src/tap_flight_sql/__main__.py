"""The executable `tap-flight-sql`."""

from __future__ import annotations

from singer_arrow.runtime.startup import end_at_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    """Run the tap's command line."""
    end_at_signals("tap-flight-sql")
    from singer_arrow.sdk import cli

    cli.run_connector("tap-flight-sql", _command, package="singer-arrow-tap-flight-sql")


def _command() -> Callable[[], object]:
    from tap_flight_sql.stream import TapFlightSql

    return TapFlightSql.cli


if __name__ == "__main__":
    main()
