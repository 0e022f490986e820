"""Confirmed commit: what stays, what goes back, and when."""

from __future__ import annotations

import time

import pytest
import sysrepo
from ncclient.operations import RPCError
from ncclient.xml_ import to_ele

from tests.stack.front_end import OWN_PERSIST_ID, accepted_tags
from tests.stack.netconfd_process import wait_until

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
LONG_S = "60"


@pytest.fixture
def client(server):
    """A session on a switch whose running configuration is `tsn-test-1` described as `before`."""
    client = server.connect()
    edit(client, "before")
    client.commit()
    yield client
    if client.connected:
        client.close_session()


@pytest.fixture
def watcher(server, client):
    """Another session, to see what is running when the first may be gone."""
    with server.connect() as watcher:
        yield watcher


def edit(client, description):
    client.edit_config(
        target="candidate",
        config=(
            f'<config xmlns="{BASE}"><interfaces xmlns="{INTERFACES}"><interface>'
            '<name>tsn-test-1</name><type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
            "ianaift:ethernetCsmacd</type>"
            f"<description>{description}</description></interface></interfaces></config>"
        ),
    )


def commit_unconfirmed(client, description="after", timeout_s=LONG_S, **options):
    edit(client, description)
    begun_s = time.monotonic()
    client.commit(confirmed=True, timeout=timeout_s, **options)
    # On a busy machine the time may be over before the answer to the question has come.
    assert running(client) == description or time.monotonic() - begun_s >= float(timeout_s)


def running(client):
    """The description of `tsn-test-1`."""
    entry = "<interface><name>tsn-test-1</name></interface>"
    filter_ = ("subtree", f'<interfaces xmlns="{INTERFACES}">{entry}</interfaces>')
    data = client.get_config("running", filter=filter_).data
    return data.findtext(f".//{{{INTERFACES}}}description")


def goes_back(client):
    return wait_until(lambda: running(client) == "before")


def snapshot(server):
    return server.state_dir / "confirmed-commit.xml"


def tag_of(call, *args, **kwargs):
    with pytest.raises(RPCError) as refusal:
        call(*args, **kwargs)
    return refusal.value.tag


def test_a_confirmed_commit_that_is_confirmed_stays(client):
    timeout_s = confirm_in_time(client)
    assert not wait_until(lambda: running(client) == "before", timeout_s=timeout_s + 0.5)


def confirm_in_time(client):
    """Confirm a commit before its time is over; how much that was."""
    for timeout_s in (1, 4, 16, 64):
        begun_s = time.monotonic()
        commit_unconfirmed(client, timeout_s=str(timeout_s))
        client.commit()
        if time.monotonic() - begun_s < timeout_s:
            return timeout_s
    pytest.fail("two requests took a minute")


def test_a_confirmed_commit_that_is_not_confirmed_in_time_goes_back(client):
    commit_unconfirmed(client, timeout_s="1")
    assert goes_back(client)


def test_what_a_pending_commit_goes_back_to_is_private_and_kept_no_longer(shared_netconfd, client):
    commit_unconfirmed(client)
    assert snapshot(shared_netconfd).stat().st_mode & 0o777 == 0o600
    client.commit()
    assert not snapshot(shared_netconfd).exists()
    commit_unconfirmed(client, "later", timeout_s="1")
    assert wait_until(lambda: not snapshot(shared_netconfd).exists())


def test_a_second_confirmed_commit_extends_the_time_and_goes_back_to_before_the_first(client):
    for short_s in (1, 4, 16):
        begun_s = time.monotonic()
        commit_unconfirmed(client, "first", timeout_s=str(short_s))
        commit_unconfirmed(client, "second", timeout_s=str(3 * short_s))
        if time.monotonic() - begun_s < short_s:
            break
        assert goes_back(client)
    assert not wait_until(lambda: running(client) != "second", timeout_s=1.5 * short_s)
    assert wait_until(lambda: running(client) == "before", timeout_s=5 * short_s)


def test_cancel_goes_back_at_once(client):
    commit_unconfirmed(client)
    client.cancel_commit()
    assert running(client) == "before"
    assert tag_of(client.cancel_commit) in accepted_tags("operation-failed", "invalid-value")


def test_what_went_back_is_in_candidate_no_more(client):
    commit_unconfirmed(client)
    client.cancel_commit()
    client.commit()
    assert running(client) == "before"


def test_a_session_that_leaves_takes_its_unconfirmed_commit_with_it(server, client, watcher):
    leaver = server.connect()
    commit_unconfirmed(leaver)
    leaver.close_session()
    assert goes_back(watcher)


def test_a_session_that_is_killed_takes_its_unconfirmed_commit_with_it(server, client):
    victim = server.connect()
    commit_unconfirmed(victim)
    client.kill_session(victim.session_id)
    assert goes_back(client)


def test_going_back_is_not_stopped_by_the_locks_of_the_session_that_committed(client, watcher):
    for datastore in ("running", "candidate"):
        client.lock(datastore)
    commit_unconfirmed(client, timeout_s="1")
    assert goes_back(watcher)
    client.unlock("candidate")
    client.unlock("running")


def test_a_persistent_commit_outlives_its_session_and_is_confirmed_from_another(
    shared_netconfd, client
):
    leaver = shared_netconfd.connect()
    commit_unconfirmed(leaver, persist=OWN_PERSIST_ID)
    leaver.close_session()
    assert wait_until(lambda: "closed by the client" in shared_netconfd.log)
    assert running(client) == "after"
    client.commit(persist_id=OWN_PERSIST_ID)
    assert not snapshot(shared_netconfd).exists()
    assert running(client) == "after"


def test_a_persistent_commit_is_cancelled_with_its_id_alone(server, client):
    commit_unconfirmed(client, persist=OWN_PERSIST_ID)
    with server.connect() as other:
        assert tag_of(other.cancel_commit) in accepted_tags("in-use", "invalid-value")
        assert tag_of(other.cancel_commit, persist_id="wrong") == "invalid-value"
        assert tag_of(other.commit, persist_id="wrong") == "invalid-value"
        other.cancel_commit(persist_id=OWN_PERSIST_ID)
    assert running(client) == "before"


def test_others_can_neither_commit_nor_lock_while_a_commit_is_unconfirmed(client, watcher):
    commit_unconfirmed(client)
    assert tag_of(watcher.commit) in accepted_tags("in-use", "operation-failed")
    assert tag_of(watcher.lock, "running") == "lock-denied"
    client.commit()
    watcher.lock("running")


@pytest.mark.parametrize("persist", [None, OWN_PERSIST_ID])
def test_a_killed_server_goes_back_before_it_serves_again(netconfd, client, persist):
    commit_unconfirmed(client, persist=persist)
    netconfd.kill()
    netconfd.start()
    with netconfd.connect() as later:
        assert running(later) == "before"
    assert not snapshot(netconfd).exists()


def test_a_stopped_server_goes_back_before_it_ends(netconfd, client):
    commit_unconfirmed(client, persist=OWN_PERSIST_ID)
    assert netconfd.stop() == 0
    assert not snapshot(netconfd).exists()
    netconfd.start()
    with netconfd.connect() as later:
        assert running(later) == "before"


def test_a_refused_confirmed_commit_leaves_nothing_to_go_back_from(shared_netconfd, client):
    def refuse(event, _request, _changes, _data):
        if event == "change":
            raise sysrepo.SysrepoValidationFailedError("not today")

    with sysrepo.SysrepoConnection() as connection, connection.start_session() as subscriber:
        subscriber.subscribe_module_change("ietf-interfaces", "/ietf-interfaces:interfaces", refuse)
        edit(client, "after")
        assert tag_of(client.commit, confirmed=True, timeout=LONG_S) == "operation-failed"
    assert not snapshot(shared_netconfd).exists()
    assert running(client) == "before"
    client.lock("running")


def test_going_back_waits_for_a_lock_from_outside_and_is_not_forgotten(shared_netconfd, client):
    commit_unconfirmed(client, timeout_s="1")
    with sysrepo.SysrepoConnection() as connection, connection.start_session() as outsider:
        outsider.lock()
        assert wait_until(lambda: "cannot revert the confirmed commit" in shared_netconfd.log)
        assert tag_of(client.commit) == "in-use"
        assert running(client) == "after"
    assert goes_back(client)


@pytest.mark.usefixtures("shared_netconfd")
def test_a_time_without_confirmed_is_no_promise_and_is_refused(client):
    """Stricter than RFC 6241, which does not say."""
    commit = to_ele(f'<commit xmlns="{BASE}"><confirm-timeout>5</confirm-timeout></commit>')
    assert tag_of(client.dispatch, commit) == "missing-element"
