"""The command local-cloud."""

import sys

__all__ = ["main"]


def main() -> int:
    """Run a command; return its exit code."""
    if sys.platform == "win32":
        sys.exit("local-cloud: Windows is not supported: run it in WSL or in a container")
    from local_cloud import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
