"""Read BATCH messages as meltanolabs-target-snowflake does, without Snowflake: Arrow files become the Parquet files
that the target uploads, by the target's own code.

Usage, in the target's environment: python snowflake_target.py --config FILE < MESSAGES

`folder` in FILE gets the Parquet files.
"""

import json
import sys
from pathlib import Path

from target_snowflake.arrow_batch import ARROW_ENCODING_FORMAT, convert_arrow_manifest_to_parquet


def main() -> None:
    """Read all messages."""
    folder = json.loads(Path(sys.argv[2]).read_text())["folder"]
    for message in map(json.loads, sys.stdin):
        if message["type"] == "BATCH":
            if message["encoding"]["format"] != ARROW_ENCODING_FORMAT:
                sys.exit(f"Unsupported batch file encoding: {message['encoding']}")
            convert_arrow_manifest_to_parquet(message["manifest"], folder)


if __name__ == "__main__":
    main()
