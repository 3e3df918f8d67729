"""Hold a network namespace until the parent ends: `python namespace_holder.py [PORT...]`, for network_hosts.

It listens on ports at all addresses of the namespace, and passes the sockets to the parent over its standard input.
"""

import os
import socket
import sys

listening = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
with socket.socket(fileno=os.dup(0)) as parent:
    socket.send_fds(parent, [b"ready"], [each.fileno() for each in listening])
    for each in listening:
        each.close()
    parent.recv(1)
