"""The executable `tap-s3-files`."""

from __future__ import annotations

from collections.abc import Callable

from singer_arrow.sdk import cli


def main() -> None:
    """Run the tap's command line."""
    cli.run("tap-s3-files", _command)


def _command() -> Callable[[], object]:
    from tap_s3_files.tap import TapS3Files

    return TapS3Files.cli


if __name__ == "__main__":
    main()
