"""Stands for an executable: a process is forked for it, which gets its open files, and it ends as that process does.

The process that forks listens on the socket `S` in the folder of this script, see forked_programs.py. Signals are
passed on. If this process is killed, the forked one is killed too.
"""

# ruff: noqa: PTH100, PTH109, PTH118, PTH120, PTH208 - importing pathlib would take longer than the rest

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
MANY = 64


def open_files() -> list[int]:
    """Return the file descriptors that this process has received."""
    found = []
    for number in map(int, os.listdir("/dev/fd")):
        try:
            os.fstat(number)
        except OSError:
            continue  # of the listing itself
        found.append(number)
    return sorted(found)


numbers = open_files()[:MANY]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "S"))
    job = {"argv": sys.argv, "env": dict(os.environ), "folder": os.getcwd(), "umask": os.umask(0), "files": numbers}
    data = json.dumps(job).encode(errors="surrogateescape")
    socket.send_fds(connection, [len(data).to_bytes(4, "big")], numbers)
    connection.sendall(data)
    for one in PASSED_ON:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, lambda number, _: connection.sendall(bytes([number])))
    for number in numbers:
        os.close(number)  # so that readers and writers of pipes see the forked process alone
    answer = connection.recv(2)
code = int.from_bytes(answer, "big", signed=True) if answer else 1
if code < 0:
    if -code in PASSED_ON:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
