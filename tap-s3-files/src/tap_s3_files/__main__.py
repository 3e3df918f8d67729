"""The executable `tap-s3-files`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from singer_arrow.sdk import cli


def main() -> None:
    """Run the tap's command line."""
    cli.run("tap-s3-files", _command, package="singer-arrow-tap-s3-files")


def _command() -> Callable[[], object]:
    from tap_s3_files.tap import TapS3Files

    if sys.argv[1:2] == ["init"]:
        from tap_s3_files.inspection.init_command import command

        return partial(command(TapS3Files.read_config).main, args=sys.argv[2:], prog_name="tap-s3-files init")
    return TapS3Files.cli


if __name__ == "__main__":
    main()
