"""The executable `tap-s3-files`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from singer_arrow.runtime.startup import end_at_signals, shows_version

COMMANDS = {
    "init": "tap_s3_files.init:command",
    "setup-queue": "tap_s3_files.sqs:setup_queue_command",
}
"""Functions that return the commands beside the tap's own."""


def main() -> None:
    """Run the tap's command line."""
    end_at_signals("tap-s3-files")
    if shows_version("tap-s3-files", "singer-arrow-tap-s3-files"):
        return
    from singer_arrow.sdk import cli

    cli.run_connector("tap-s3-files", _command, package="singer-arrow-tap-s3-files")


def _command() -> Callable[[], object]:
    from tap_s3_files.tap import TapS3Files

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        return TapS3Files.cli
    module, _, function = COMMANDS[name].partition(":")
    command = getattr(import_module(module), function)(TapS3Files.read_config)
    return partial(command.main, args=sys.argv[2:], prog_name=f"tap-s3-files {name}")


if __name__ == "__main__":
    main()
