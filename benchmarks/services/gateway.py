"""The child process that runs versitygw: `python -m benchmarks.services.gateway VERSITYGW FOLDER`.

Buckets are folders in FOLDER, which is removed at the end. It ends versitygw with itself, and itself with its parent.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from local_cloud import environment
from local_cloud.lifeline import PR_SET_PDEATHSIG, Ready, end_with_parent, remove_tree

START_SECONDS = 30.0


def main() -> None:
    """Serve on a free port of 127.0.0.1 until the parent is gone."""
    ready = Ready()
    binary, folder = sys.argv[1], Path(sys.argv[2])
    objects = folder / "objects"
    objects.mkdir(parents=True)
    port = _free_port()
    command = [binary, "--quiet", "--keep-alive"]  # connections stay open, as those of S3 do
    command += ["--access", environment.ACCESS_KEY_ID, "--secret", environment.SECRET_ACCESS_KEY]
    command += [
        "--region",
        environment.REGION,
        "--port",
        f"127.0.0.1:{port}",
        "posix",
        *_metadata(folder),
        str(objects),
    ]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=_end_with_this)  # noqa: PLW1509 - no thread runs yet

    def last_act() -> None:
        server.kill()
        remove_tree(folder)

    end_with_parent(last_act)
    _await(server, port)
    ready.report({"url": f"http://127.0.0.1:{port}"})
    sys.exit(f"versitygw ended with code {server.wait()}")


def _end_with_this() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _metadata(folder: Path) -> list[str]:
    """Where versitygw keeps ETags: in extended attributes of the files, or beside them where there are none."""
    try:
        os.setxattr(folder, "user.tried", b"1")
    except OSError:
        sidecar = folder / "metadata"
        sidecar.mkdir()
        return ["--sidecar", str(sidecar)]
    return []


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _await(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit("versitygw does not answer")
            time.sleep(0.02)


if __name__ == "__main__":
    main()
