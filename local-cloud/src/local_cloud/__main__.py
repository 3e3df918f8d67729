"""The command local-cloud."""

import sys

from local_cloud.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
