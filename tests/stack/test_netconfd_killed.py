"""A server killed at any moment of a commit: the switch has the old configuration or the new."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ncclient import NCClientError

from tests.stack.netconfd_process import NetconfdProcess, wait_until
from tests.stack.test_netconfd_confirmed_commit import LONG_S, edit, running, snapshot

PROGRAM = Path(__file__).with_name("netconfd_that_dies.py")
ID = "rollout-7"

# What each of them does, step by step; the program stops after any number of these.
STEPS = {
    "commit": ("write snapshot", "name it", "write directory", "replace running"),
    "confirm": ("replace running", "remove snapshot", "write directory"),
    "cancel": ("replace running", "remove snapshot", "write directory"),
}
MOMENTS = [(kind, done) for kind, steps in STEPS.items() for done in range(len(steps) + 1)]


@pytest.fixture
def mortal(sysrepo_repository, tmp_path):
    """Starts a server that dies after so many steps; it has `before` in running."""
    server = NetconfdProcess(tmp_path / "netconfd")

    def start(kind, done):
        server.wrapper = [sys.executable, str(PROGRAM), kind, str(done)]
        server.start()
        with server.connect() as client:
            edit(client, "before")
            client.commit()
        return server

    yield start
    server.kill()


def revive(server):
    """What a service manager would do, with a server as it should be."""
    server.kill()
    server.wrapper = []
    server.start()


def roll_out(server, kind):
    """Everything up to the operation of this kind, and that operation."""
    # No `with`: ncclient may wait for the answer of a server that it has just seen die.
    client = server.connect()
    edit(client, "after")
    client.commit(confirmed=True, timeout=LONG_S, persist=ID)
    client.close_session()
    client = server.connect()
    if kind == "confirm":
        client.commit(persist_id=ID)
    elif kind == "cancel":
        client.cancel_commit(persist_id=ID)
    client.close_session()


def runs(server):
    """What the server has in running, and whether candidate agrees."""
    with server.connect() as client:
        assert client.get_config("candidate").data_xml == client.get_config("running").data_xml
        return running(client)


@pytest.mark.parametrize(("kind", "done"), MOMENTS)
def test_a_server_killed_between_two_steps_has_the_old_configuration_or_the_new(mortal, kind, done):
    server = mortal(kind, done)
    with pytest.raises(NCClientError):
        roll_out(server, kind)
    assert wait_until(lambda: not server.alive)
    revive(server)
    is_confirmed = kind == "confirm" and "remove snapshot" in STEPS[kind][:done]
    assert runs(server) == ("after" if is_confirmed else "before")
    assert not snapshot(server).exists()


@pytest.mark.parametrize("kind", STEPS)
def test_there_are_no_other_steps_to_be_killed_at(mortal, kind):
    server = mortal(kind, len(STEPS[kind]) + 1)
    roll_out(server, kind)
    assert server.alive


def test_what_was_confirmed_is_never_undone(netconfd):
    with netconfd.connect() as client:
        edit(client, "before")
        client.commit()
    roll_out(netconfd, "confirm")
    revive(netconfd)
    assert runs(netconfd) == "after"


def test_a_server_killed_twice_goes_back_all_the_same(mortal):
    server = mortal("commit", 4)
    with pytest.raises(NCClientError):
        roll_out(server, "commit")
    # again, as soon as it is back
    revive(server)
    revive(server)
    assert runs(server) == "before"


def test_a_killed_server_holds_no_lock(netconfd):
    holder = netconfd.connect()
    for datastore in ("running", "candidate", "startup"):
        holder.lock(datastore)
    revive(netconfd)
    with netconfd.connect() as client:
        for datastore in ("running", "candidate", "startup"):
            client.lock(datastore)
