"""Hosts on one machine: network namespaces, joined only by a switch of their own, whose links a test cuts.

Nothing is added to the network of this machine. A namespace has no name: a child process holds it, which ends with this
one in any case. Root makes namespaces, or another user if the kernel allows it.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, ClassVar
from urllib.parse import urlsplit

from small_network import Serving, relay

from local_cloud.process import Host
from local_cloud.programs import Option, Programs

GATEWAY = "10.77.0.254"
"""Where hosts reach services of this machine's loopback."""
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_IP, _UNSHARE, _NSENTER = (shutil.which(name, path=_PATH) or name for name in ("ip", "unshare", "nsenter"))
_HOLDER = str(Path(__file__).with_name("namespace_holder.py"))
_AS_USER = os.geteuid() != 0
_OUTER = (_UNSHARE, "--net", *(("--user", "--map-root-user") if _AS_USER else ()))
_PORTS_LINK = "link add port{n} type veth peer name eth0 netns {pid}\nlink set port{n} master switch up"


@cache
def why_not() -> str:
    """Return why this machine has no network namespaces for this user; an empty string if it has."""
    if missing := [program for program in (_IP, _UNSHARE, _NSENTER) if not program.startswith("/")]:
        return f"network namespaces need Linux and the command {missing[0]}"
    needed = "link add port1 type veth peer name eth0\nlink add switch type bridge"
    ran = subprocess.run([*_OUTER, _IP, "-batch", "-"], input=needed.encode(), capture_output=True, check=False)
    error, _, _ = ran.stderr.decode().partition("\n")
    return f"no network namespaces for this user: {error}" if ran.returncode else ""


@contextmanager
def network_of(count: int, *services: str) -> Iterator[Network]:
    """Make hosts that reach each other and services of this machine; a process on them is ended by its own test.

    Args:
        count: Of hosts.
        services: URLs of services on loopback.
    """
    with ExitStack() as stack:
        ports = [urlsplit(url).port or 80 for url in services]
        switch = stack.enter_context(_Namespace(_OUTER, *ports))
        switch.ip(f"link add switch type bridge\naddr add {GATEWAY}/24 dev switch\nlink set switch up")
        forwarders = {}
        for port, listening in zip(ports, switch.listening, strict=True):
            forwarders[port] = stack.enter_context(_Forwarder(listening, port))
        hosts = []
        for n in range(1, count + 1):
            inner = stack.enter_context(_Namespace((*switch.enter, _UNSHARE, "--net")))
            switch.ip(_PORTS_LINK.format(n=n, pid=inner.pid))
            inner.ip(f"link set lo up\naddr add 10.77.0.{n}/24 dev eth0\nlink set eth0 up")
            hosts.append(Host(f"10.77.0.{n}", inner.enter))
        yield Network(hosts, switch, forwarders)


class Network:
    """Hosts and the switch that joins them.

    Attributes:
        hosts: The hosts, whose links are up.
        environ: Variables of programs that run there.
    """

    environ: ClassVar[dict[str, str]] = {"NO_PROXY": GATEWAY, "no_proxy": GATEWAY}

    def __init__(self, hosts: Sequence[Host], switch: _Namespace, forwarders: dict[int, _Forwarder]) -> None:
        self.hosts, self._switch, self._forwarders = hosts, switch, forwarders

    def url(self, service: str) -> str:
        """Return the URL of a service, as hosts reach it."""
        return f"http://{GATEWAY}:{urlsplit(service).port}"

    def users(self, service: str) -> set[str]:
        """Return the addresses of the hosts that have connected to a service."""
        return self._forwarders[urlsplit(service).port or 80].users

    def cut(self, host: Host) -> None:
        """Pull the cable of a host out of the switch: what is sent is lost, and no connection is ended."""
        self._switch.ip(f"link set port{self.hosts.index(host) + 1} down")

    def join(self, host: Host) -> None:
        """Put the cable back."""
        self._switch.ip(f"link set port{self.hosts.index(host) + 1} up")


class HostPrograms(Programs):
    """Programs that run on a host; `end` kills those that are running."""

    def __init__(self, env: dict[str, str], folder: Path, host: Host) -> None:
        super().__init__(env, folder)
        self._host, self._started = host, list[subprocess.Popen[bytes]]()

    def command(self, program: str, *arguments: str | Path, **options: Option | list[Option]) -> list[str]:
        """Return the command line of a program on the host."""
        return [*self._host.enter, *super().command(program, *arguments, **options)]

    def start(self, program: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[bytes]:
        """Start a program; see `Programs`."""
        self._started.append(super().start(program, *arguments, **options))
        return self._started[-1]

    def end(self) -> None:
        """Kill what is running."""
        for process in self._started:
            process.kill()
            process.communicate()


class _Namespace:
    """A network namespace for the duration of a `with` block, and sockets that listen there."""

    def __init__(self, unshare: Sequence[str], *ports: int) -> None:
        self._holder, theirs = socket.socketpair()
        command = [*unshare, sys.executable, _HOLDER, *map(str, ports)]
        with theirs:
            self._process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.DEVNULL, start_new_session=True)
        self.pid = self._process.pid
        user = (f"--user=/proc/{self.pid}/ns/user", "--preserve-credentials") if _AS_USER else ()
        self.enter = (_NSENTER, f"--net=/proc/{self.pid}/ns/net", *user)
        ready, numbers, _, _ = socket.recv_fds(self._holder, 8, len(ports) + 1)
        self.listening = [socket.socket(fileno=number) for number in numbers]
        if not ready:
            self.__exit__()
            msg = f"{command} ended with {self._process.returncode}"
            raise RuntimeError(msg)

    def ip(self, lines: str) -> None:
        """Run commands of ip in the namespace."""
        command = [*self.enter, _IP, "-batch", "-"]
        ran = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()

    def __enter__(self) -> _Namespace:
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.close()
        self._process.wait()
        for listening in self.listening:
            listening.close()


class _Forwarder(Serving):
    """Forwards connections to a listening socket to a port of loopback, in threads of this process."""

    def __init__(self, listening: socket.socket, port: int) -> None:
        handler = type("Handler", (_Forward,), {"port": port})
        self._server: _Server = _Server(("", 0), handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening

    @property
    def users(self) -> set[str]:
        return {address for _, address in self._server.accepted}

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for connection, _ in self._server.accepted:
            with suppress(OSError):  # it has ended
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)


class _Server(ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.accepted = list[tuple[socket.socket, str]]()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        self.accepted.append((request, client_address[0]))
        return True


class _Forward(BaseRequestHandler):
    port: int

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as far:
            relay(self.request, far)
