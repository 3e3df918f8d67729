"""The executable `tap-flight-sql`."""

from __future__ import annotations

from collections.abc import Callable

from singer_arrow.sdk import cli


def main() -> None:
    """Run the tap's command line."""
    cli.run("tap-flight-sql", _command, package="singer-arrow-tap-flight-sql")


def _command() -> Callable[[], object]:
    from tap_flight_sql.tap import TapFlightSql

    return TapFlightSql.cli


if __name__ == "__main__":
    main()
