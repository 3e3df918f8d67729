"""Sends RECORD messages to a target one by one, and notes how long each takes until its row is in the table.

Usage: python -m benchmarks.programs.trickle RECORDS SECONDS COMMAND...

A first record waits for the command to start; when its row is there, so many others, so many seconds apart, go into the
command's standard input, which stays open until the last row is there. BigQuery is taken from TARGET_BIGQUERY_*. Prints
the seconds as a JSON list.
"""

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

from google.api_core.client_options import ClientOptions
from google.api_core.exceptions import NotFound
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

STREAM = "trickle"
LONGEST = 300.0
_SCHEMA: dict[str, Any] = {
    "type": "SCHEMA",
    "stream": STREAM,
    "schema": {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": ["string", "null"]}}},
    "key_properties": [],
}


class Watch(threading.Thread):
    """Looks at the number of rows every tenth of a second, until all are there."""

    def __init__(self, rows: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[float] = []
        self._rows = rows

    def run(self) -> None:
        """Note when each row was there."""
        client = bigquery.Client(
            project=os.environ["TARGET_BIGQUERY_PROJECT"],
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call] # google.auth types its API in part
            client_options=ClientOptions(api_endpoint=os.environ["TARGET_BIGQUERY_API_ENDPOINT"]),
        )
        table = f"{os.environ['TARGET_BIGQUERY_DATASET']}.{STREAM}"
        while len(self.seen) < self._rows:
            try:
                found = client.get_table(table).num_rows
            except NotFound:
                found = 0
            self.seen += [time.monotonic()] * (found - len(self.seen))
            time.sleep(0.1)


def main() -> None:
    """Send, watch, and print."""
    count, apart, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    watch = Watch(count + 1)
    watch.start()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as target:
        assert target.stdin is not None
        target.stdin.write(json.dumps(_SCHEMA).encode() + b"\n")
        sent = []
        for number in range(count + 1):
            record = {"type": "RECORD", "stream": STREAM, "record": {"id": number, "text": "x" * 100}}
            state = {"type": "STATE", "value": {"n": number}}
            target.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in (record, state)))
            target.stdin.flush()
            sent.append(time.monotonic())
            while not watch.seen and watch.is_alive():
                time.sleep(0.1)
            time.sleep(apart)
        watch.join(LONGEST)
        target.stdin.close()
        target.wait()
    latencies = [seen - at for seen, at in zip(watch.seen, sent, strict=False)][1:]
    sys.stdout.write(json.dumps(latencies) + "\n")
    sys.exit(target.returncode or int(len(latencies) < count))


if __name__ == "__main__":
    main()
