"""A station with two uplinks, and a server that both lead to.

    namespace "tsn-station"   w1 10.1.0.2 ══ veth ══ 10.1.0.1 f1   namespace "tsn-far"
                              w2 10.2.0.2 ══ veth ══ 10.2.0.1 f2   server at 10.1.0.1

The station reaches everything by w1, and by w2 at a higher metric. In virtual time cables have a
rate: processors are so fast there that a sender without one would never let the clock go on.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from agent.datastore.desired import desired_ports
from agent.kernel.mptcp_pm import MptcpPm
from agent.kernel.ports import KernelPorts
from agent.mechanisms.multipath import multipath, source_routes
from agent.switch import Applied, Switch
from tests.kernel.conftest import FAR, VIRTUAL_TIME, inside, new_namespace

STATION = "tsn-station"
SERVER, PORT = "10.1.0.1", 5201
UPLINKS = ("w1", "w2")
IPPROTO_MPTCP, SOL_MPTCP, MPTCP_INFO = 262, 284, 1
SUBFLOWS_TOTAL = struct.Struct("=80xB")  # of struct mptcp_info
RECEIVE_OCTETS = 1 << 20
SHAPED = ["rate", "500mbit", "delay", "1ms", "limit", "10000"]  # for netem
_SENT = 8  # the column of /proc/net/dev


def ip(*words: str, namespace: str = STATION) -> list[str]:
    """What ip(8) shows there, line by line."""
    run = subprocess.run(
        ["ip", "-n", namespace, *words], check=True, capture_output=True, text=True
    )
    return [line.strip() for line in run.stdout.splitlines() if line.strip()]


@contextmanager
def two_uplinks() -> Iterator[None]:
    """The two namespaces."""
    with new_namespace(STATION), new_namespace(FAR):
        for number, uplink in enumerate(UPLINKS, start=1):
            far = f"f{number}"
            peer = ["type", "veth", "peer", "name", far, "netns", FAR]
            ip("link", "add", "name", uplink, *peer)
            for namespace, name, host in ((STATION, uplink, 2), (FAR, far, 1)):
                ip("addr", "add", f"10.{number}.0.{host}/24", "dev", name, namespace=namespace)
                ip("link", "set", "dev", name, "up", namespace=namespace)
                if VIRTUAL_TIME:
                    tc = ["tc", "-n", namespace, "qdisc", "add", "dev", name, "root", "netem"]
                    subprocess.run([*tc, *SHAPED], check=True)
        default_routes()
        yield


def default_routes() -> None:
    for number, uplink in enumerate(UPLINKS, start=1):
        route = ["default", "via", f"10.{number}.0.1", "dev", uplink]
        ip("route", "replace", *route, "metric", str(100 * number))


@contextmanager
def agent(record: Path) -> Iterator[Switch]:
    """What decides about the station, with this mechanism alone."""
    with inside(STATION):
        ports = KernelPorts([multipath(record)])
        try:
            yield Switch(ports)
        finally:
            ports.close()


def tree(*backups: str, paths: tuple[str, ...] = UPLINKS, **leaves: Any) -> dict[str, Any]:
    """The configuration with these paths, of which some are backups."""
    listed = [{"interface": each, "backup": each in backups} for each in paths]
    named = {name.replace("_", "-"): value for name, value in leaves.items()}
    return {"tsn-multipath:multipath": {"path": listed, **named}}


def apply(switch: Switch, configured: Mapping[str, Any]) -> Applied:
    states = switch.read()
    return switch.apply(desired_ports(configured, states), states)


def applied_until(moment: int, record: Path, configured: Mapping[str, Any]) -> bool:
    """Apply the configuration in an agent that is killed at this moment; whether it came to it.

    Moments are before and after each request that changes the kernel or the record.
    """
    process = os.fork()
    if not process:
        status = 1
        try:
            _die_at(moment)
            with agent(record) as switch:
                apply(switch, configured)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(process, 0)
    assert ended in (0, signal.SIGKILL)
    return ended != 0


def _die_at(moment: int) -> None:
    moments = itertools.count()

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            for step in (lambda: None, lambda: call(*args, **options)):
                result = step()
                if next(moments) == moment:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapper

    for owner, name in (
        *((source_routes, each) for each in ("add_rule", "delete_rule", "_request")),
        *((MptcpPm, each) for each in ("add", "change", "delete", "set_limits")),
        *((Path, each) for each in ("write_text", "replace", "unlink")),
    ):
        setattr(owner, name, deadly(getattr(owner, name)))


class Transfer(NamedTuple):
    """A connection that sends as much as its paths take."""

    socket: socket.socket
    received: list[int]

    @property
    def subflows(self) -> int:
        """All of the connection, the first one too."""
        info = self.socket.getsockopt(SOL_MPTCP, MPTCP_INFO, 256)
        return int(SUBFLOWS_TOTAL.unpack_from(info)[0])

    @property
    def octets(self) -> int:
        return sum(self.received)


@contextmanager
def transfer(
    server: str = SERVER,
    port: int = PORT,
    *,
    user: int = 0,
    begins: str = STATION,
    listens: str = FAR,
) -> Iterator[Transfer]:
    """From one namespace, by a program of this user, to this address of the other one, until it is
    closed."""
    with ExitStack() as stack:
        with inside(listens):
            listener = stack.enter_context(_socket())
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", port))
        listener.listen()
        with inside(begins), _as_user(user):
            sender = stack.enter_context(_socket())
        sender.connect((server, port))
        accepted = stack.enter_context(listener.accept()[0])
        received: list[int] = []
        threads = [
            threading.Thread(target=_receive, args=(accepted, received), daemon=True),
            threading.Thread(target=_send, args=(sender,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            yield Transfer(sender, received)
        finally:
            for each in (sender, accepted):
                each.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


@contextmanager
def _as_user(user: int) -> Iterator[None]:
    before = os.geteuid()
    if user:
        os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(before)


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)


def _send(sender: socket.socket) -> None:
    content = bytes(1 << 16)
    try:
        while True:
            sender.sendall(content)
    except OSError:
        return


def _receive(accepted: socket.socket, received: list[int]) -> None:
    try:
        while octets := len(accepted.recv(RECEIVE_OCTETS)):
            received.append(octets)
    except OSError:
        return


def sent_octets(uplink: str) -> int:
    with inside(STATION):
        lines = Path("/proc/thread-self/net/dev").read_text(encoding="ascii").splitlines()
    (columns,) = (line.split()[1:] for line in lines if line.split()[0] == f"{uplink}:")
    return int(columns[_SENT])


def until(wanted: Any, seconds: float = 5.0) -> bool:
    """Whether this becomes true, in time for a handshake."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if wanted():
            return True
        time.sleep(0.02)
    return False
