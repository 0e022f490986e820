"""A client that is gone without a word: its link is down, or it is stopped. Nobody is told."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress

import pytest
from ncclient.operations import RPCError

from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.test_netconfd_confirmed_commit import (
    commit_unconfirmed,
    edit,
    running,
    snapshot,
)

DATASTORES = ("running", "candidate", "startup")
NOTICED_S = 4
# A loaded machine may be late, a server that notices nothing would take minutes.
GENEROUS_S = 30


class Link:
    """A way to the server that can go down: then nothing passes any more, and nothing ends."""

    def __init__(self, server):
        self._server = server
        self._is_down = threading.Event()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def go_down(self):
        self._is_down.set()

    def close(self):
        for end in (self._listener, *self._ends):
            end.close()

    def _accept(self):
        near, _ = self._listener.accept()
        far = socket.create_connection((self._server.host, self._server.port))
        self._ends += [near, far]
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=[source, sink], daemon=True).start()

    def _forward(self, source, sink):
        with suppress(OSError):
            while (data := source.recv(65_536)) and not self._is_down.is_set():
                sink.sendall(data)


@contextmanager
def running_server(tmp_path, peer_timeout_s):
    server = NetconfdProcess(tmp_path / "netconfd")
    server.arguments = ["--peer-timeout", str(peer_timeout_s)]
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def server(sysrepo_repository, tmp_path):
    with running_server(tmp_path, NOTICED_S) as server:
        with server.connect() as client:
            edit(client, "before")
            client.commit()
        yield server


@pytest.fixture
def link(server):
    link = Link(server)
    yield link
    link.close()


def can_lock(client, datastore):
    try:
        client.lock(datastore)
    except RPCError as error:
        if error.tag != "lock-denied":
            raise
        return False
    return True


def test_what_a_vanished_client_locked_and_edited_is_given_back(server, link):
    vanishing = server.connect(port=link.port)
    for datastore in DATASTORES:
        vanishing.lock(datastore)
    edit(vanishing, "never committed")
    with server.connect() as client:
        link.go_down()
        assert not can_lock(client, "startup")
        for datastore in reversed(DATASTORES):
            assert wait_until(lambda name=datastore: can_lock(client, name), GENEROUS_S)
        assert client.get_config("candidate").data_xml == client.get_config("running").data_xml
        assert running(client) == "before"


def test_what_a_vanished_client_did_not_confirm_goes_back(server, link):
    commit_unconfirmed(server.connect(port=link.port), timeout_s="3600")
    link.go_down()
    with server.connect() as client:
        assert wait_until(lambda: running(client) == "before", GENEROUS_S)


def test_what_a_vanished_client_committed_with_an_id_waits_for_the_id(server, link):
    vanishing = server.connect(port=link.port)
    for datastore in ("running", "candidate"):
        vanishing.lock(datastore)
    commit_unconfirmed(vanishing, timeout_s="3600", persist="rollout-7")
    link.go_down()
    assert wait_until(lambda: "ends: the transport closed" in server.log, GENEROUS_S)
    with server.connect() as client:
        assert running(client) == "after"
        assert not can_lock(client, "running")
        client.commit(persist_id="rollout-7")
        assert not snapshot(server).exists()
        assert can_lock(client, "running")


def test_a_cancel_does_not_wait_for_the_locks_of_a_vanished_client(sysrepo_repository, tmp_path):
    with running_server(tmp_path, peer_timeout_s=3600) as server, server.connect() as client:
        edit(client, "before")
        client.commit()
        link = Link(server)
        vanishing = server.connect(port=link.port)
        for datastore in ("running", "candidate"):
            vanishing.lock(datastore)
        commit_unconfirmed(vanishing, timeout_s="3600", persist="rollout-7")
        link.go_down()
        client.cancel_commit(persist_id="rollout-7")
        assert running(client) == "before"
        assert not can_lock(client, "running")
        client.kill_session(vanishing.session_id)
        assert wait_until(lambda: can_lock(client, "running"))
        assert wait_until(lambda: can_lock(client, "candidate"))
        link.close()
