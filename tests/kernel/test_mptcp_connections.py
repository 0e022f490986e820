"""The agent's plugin for the path manager and inet_diag, on connections of a real kernel."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from agent.kernel.mptcp_diag import MptcpDiag
from agent.kernel.mptcp_events import EventKind, MptcpEvents
from agent.kernel.mptcp_pm import Endpoint, MptcpPm
from tests.kernel.conftest import FAR, inside
from tests.kernel.two_uplinks import (
    IPPROTO_MPTCP,
    PORT,
    SERVER,
    STATION,
    ip,
    sent_octets,
    transfer,
    two_uplinks,
    until,
)

SECOND, IDENTITY = "10.2.0.2", 5
REMOTE = Endpoint(SERVER, port=PORT)


class Kernel:
    """All three, in the station, where sockets are those of the agent's path manager."""

    def __init__(self) -> None:
        Path("/proc/sys/net/mptcp/pm_type").write_text("1\n", encoding="ascii")
        self.pm, self.events, self.diag = MptcpPm(), MptcpEvents(), MptcpDiag()
        self.seen: list[tuple[EventKind, str | None]] = []

    def close(self) -> None:
        for each in (self.pm, self.events, self.diag):
            each.close()

    def saw(self, kind: EventKind, local: str | None = None) -> bool:
        self.seen += [(each.kind, each.local) for each in self.events.read() or ()]
        return any(each == kind and local in (None, its) for each, its in self.seen)

    @property
    def token(self) -> int:
        return next(each.token for each in self.diag.connections() if each.local == "10.1.0.2")

    def subflow(self, local: str = SECOND):
        return next((each for each in self.diag.subflows() if each.local == local), None)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with two_uplinks():
        ip("rule", "add", "from", SECOND, "lookup", "77")
        ip("route", "add", "default", "via", "10.2.0.1", "dev", "w2", "table", "77")
        with inside(STATION):
            opened = Kernel()
        yield opened
        opened.close()


def test_a_subflow_is_created_becomes_a_backup_and_is_destroyed(kernel):
    with transfer() as running:
        assert until(lambda: kernel.saw(EventKind.ESTABLISHED))
        token = kernel.token
        kernel.pm.create_subflow(token, Endpoint(SECOND, frozenset({"backup"}), IDENTITY), REMOTE)
        assert until(lambda: kernel.saw(EventKind.SUBFLOW_ESTABLISHED, SECOND))
        made = kernel.subflow()
        assert (made.token, made.id, made.is_backup) == (token, IDENTITY, True)
        local, remote = (
            Endpoint(SECOND, id=IDENTITY, port=made.local_port),
            Endpoint(made.remote, port=made.remote_port),
        )
        octets, before = running.octets, sent_octets("w2")
        assert until(lambda: running.octets - octets > 10_000_000)
        assert sent_octets("w2") - before < 100_000
        kernel.pm.set_backup(token, local, remote)
        assert until(lambda: sent_octets("w2") - before > 1_000_000)
        assert kernel.subflow().rtt_ns > 0
        kernel.pm.destroy_subflow(token, local, remote)
        assert until(lambda: kernel.saw(EventKind.SUBFLOW_CLOSED, SECOND))
        assert running.subflows == 1


def test_a_connection_of_the_kernels_path_manager_is_left_to_it(kernel):
    with inside(STATION):
        Path("/proc/sys/net/mptcp/pm_type").write_text("0\n", encoding="ascii")
    with transfer():
        assert until(lambda: kernel.saw(EventKind.ESTABLISHED))
        with pytest.raises(NetlinkError, match="userspace PM not selected"):
            kernel.pm.create_subflow(kernel.token, Endpoint(SECOND, id=IDENTITY), REMOTE)


def test_a_connection_with_a_peer_without_the_options_is_plain_tcp(kernel):
    with inside(FAR):
        listener = socket.create_server(("", PORT + 1))
    with inside(STATION):
        sender = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    with listener, sender:
        sender.connect((SERVER, PORT + 1))
        assert kernel.diag.connections() == []
        assert [each.is_plain for each in kernel.diag.subflows()] == [True]


def test_a_connection_has_the_user_whose_program_has_made_it(kernel):
    with transfer() as running:
        (found,) = (each for each in kernel.diag.connections() if each.local == "10.1.0.2")
        assert found.uid == Path(f"/proc/self/fd/{running.socket.fileno()}").lstat().st_uid
        assert (found.remote, found.remote_port) == (SERVER, PORT)
