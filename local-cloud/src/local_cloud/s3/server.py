"""The child process that serves S3 and SQS: `python -m local_cloud.s3.server RUN_DIR [DATA_DIR]`."""

import logging
import signal
import sys
from pathlib import Path

from local_cloud.lifeline import Ready, end_with_parent, remove_tree
from local_cloud.s3 import persistence


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent ends."""
    ready = Ready()
    run_dir, *kept = map(Path, sys.argv[1:])

    def last_act() -> None:
        for directory in kept:
            persistence.save(directory)
        remove_tree(run_dir)

    end_with_parent(last_act)
    # After the lifeline, because importing moto takes almost a second.
    from moto.server import ThreadedMotoServer

    persistence.patch()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    for directory in kept:
        persistence.restore(directory)
    server.start()
    ready.report({"url": "http://{}:{}".format(*server.get_host_and_port())})
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
