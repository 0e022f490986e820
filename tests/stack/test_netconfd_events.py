"""RFC 6470: what the server reports of its sessions, of commits and of the configuration."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import sysrepo
from lxml import etree

from tests.stack.netconfd_process import WAIT_TIMEOUT_S
from tests.stack.sysrepo_client import Client, entry, gated

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
INTERFACES = "urn:ietf:params:xml:ns:yang:ietf-interfaces"
EVENTS = "urn:ietf:params:xml:ns:yang:ietf-netconf-notifications"
DOOR = Path(__file__).parent / "data" / "yang-events" / "door.yang"


@pytest.fixture
def server(server, sysrepo_template):
    """Ours alone: who else is on a stranger's server would be reported, too."""
    return server


@pytest.fixture
def watcher(server):
    """A session subscribed to all events of RFC 6470."""
    with server.connect() as watcher:
        watcher.create_subscription(filter=("xpath", ({"e": EVENTS}, "/e:*")))
        yield watcher


@pytest.fixture
def client(server):
    """A session that works while nobody watches yet."""
    with server.connect() as client:
        yield client


def event(watcher, name):
    """The next event, which must be of this name: its leaves, by their path."""
    notification = watcher.take_notification(timeout=WAIT_TIMEOUT_S)
    assert notification is not None, f"no {name} came"
    element = notification.notification_ele[1]
    assert etree.QName(element).localname == name
    return dict(leaves(element))


def leaves(element, path=""):
    for child in element:
        name = path + etree.QName(child).localname
        if len(child):
            yield from leaves(child, name + "/")
        else:
            yield name, child.text


def edits(watcher):
    """Target and operation of each edit of the next netconf-config-change."""
    notification = watcher.take_notification(timeout=WAIT_TIMEOUT_S)
    assert notification is not None, "no netconf-config-change came"
    change = notification.notification_ele[1]
    assert etree.QName(change).localname == "netconf-config-change"
    found = []
    for edit in change.iter(f"{{{EVENTS}}}edit"):
        target = edit.find(f"{{{EVENTS}}}target")
        assert target.nsmap["if"] == INTERFACES
        found.append((target.text, edit.findtext(f"{{{EVENTS}}}operation")))
    return found


def describe(client, description, operation="merge"):
    client.edit_config(
        target="candidate",
        config=(
            f'<config xmlns="{BASE}"><interfaces xmlns="{INTERFACES}">'
            f'<interface xmlns:nc="{BASE}" nc:operation="{operation}"><name>swp1</name>'
            '<type xmlns:ianaift="urn:ietf:params:xml:ns:yang:iana-if-type">'
            f"ianaift:ethernetCsmacd</type><description>{description}</description>"
            "</interface></interfaces></config>"
        ),
    )


def by(session):
    return {
        "username": "operator",
        "session-id": session.session_id,
        "source-host": "127.0.0.1",
    }


def test_a_session_is_reported_with_its_user_from_start_to_end(server, watcher):
    session = server.connect()
    assert event(watcher, "netconf-session-start") == by(session)
    session.close_session()
    assert event(watcher, "netconf-session-end") == by(session) | {"termination-reason": "closed"}


def test_a_killed_session_is_reported_with_its_killer(server, client, watcher):
    victim = server.connect()
    event(watcher, "netconf-session-start")
    client.kill_session(victim.session_id)
    assert event(watcher, "netconf-session-end") == by(victim) | {
        "termination-reason": "killed",
        "killed-by": client.session_id,
    }


def leave_after(server, sent):
    async def talk():
        connection, reader, writer = await server.connect_raw()
        writer.write(sent)
        if sent:
            await reader.read()
        connection.close()
        await connection.wait_closed()

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("sent", "reason"),
    [(b"", "dropped"), (b"<rpc/>]]>]]>", "bad-hello"), (b"#" * 200_000_000, "other")],
    ids=["leaves", "no hello", "no NETCONF"],
)
def test_a_session_that_ends_badly_is_reported_with_the_reason(server, watcher, sent, reason):
    leave_after(server, sent)
    end = event(watcher, "netconf-session-end")
    assert end["termination-reason"] == reason


def test_a_commit_is_reported_with_its_session_and_the_topmost_changes(client, watcher):
    describe(client, "first")
    client.commit()
    notification = watcher.take_notification(timeout=WAIT_TIMEOUT_S).notification_ele[1]
    changed = {f"changed-by/{name}": value for name, value in by(client).items()}
    assert dict(leaves(notification)) == changed | {
        "datastore": "running",
        "edit/target": "/if:interfaces/if:interface[if:name='swp1']",
        "edit/operation": "create",
    }
    describe(client, "second")
    client.commit()
    assert edits(watcher) == [
        ("/if:interfaces/if:interface[if:name='swp1']/if:description", "replace")
    ]
    describe(client, "", operation="delete")
    client.commit()
    assert edits(watcher) == [("/if:interfaces/if:interface[if:name='swp1']", "delete")]


def test_a_commit_that_changes_nothing_is_not_reported(client, watcher):
    client.commit()
    describe(client, "first")
    client.commit()
    assert edits(watcher) == [("/if:interfaces/if:interface[if:name='swp1']", "create")]


def test_startup_is_reported_too(client, watcher):
    describe(client, "first")
    client.commit()
    client.copy_config(source="running", target="startup")
    assert event(watcher, "netconf-config-change")["datastore"] == "running"
    change = event(watcher, "netconf-config-change")
    assert change["datastore"] == "startup"
    assert change["edit/target"] == "/if:interfaces/if:interface[if:name='swp1']"


def test_a_change_by_another_program_is_reported_as_the_hosts_own(watcher):
    with sysrepo.SysrepoConnection() as connection:
        Client(connection).replace(gated("swp1"))
    change = event(watcher, "netconf-config-change")
    assert change["changed-by/server"] is None
    assert change["edit/target"] == "/if:interfaces/if:interface[if:name='swp1']"


def test_watching_the_configuration_does_not_make_it_look_applied(client, watcher):
    describe(client, "first")
    client.commit()
    assert edits(watcher)
    with sysrepo.SysrepoConnection() as connection:
        assert Client(connection).interface("swp1") is None


def test_a_change_in_thousands_of_places_is_told_in_a_few_words(watcher):
    with sysrepo.SysrepoConnection() as connection:
        other = Client(connection)
        for states in (0, 1):
            entries = [entry(index, (index + states) % 256, 1000) for index in range(256)]
            other.replace(*(gated(f"swp{number}", entries) for number in range(8)))
    assert len(edits(watcher)) == 8
    told = edits(watcher)
    assert len(told) == 8
    assert all(target.endswith(":admin-control-list") for target, _ in told)
    assert {operation for _, operation in told} == {"merge"}


def confirm_events(watcher, count):
    """What happened to a confirmed commit, without the changes it made."""
    seen = []
    while len(seen) < count:
        notification = watcher.take_notification(timeout=WAIT_TIMEOUT_S)
        assert notification is not None, seen
        element = notification.notification_ele[1]
        if etree.QName(element).localname == "netconf-confirmed-commit":
            seen.append(dict(leaves(element)))
    return seen


def test_a_confirmed_commit_is_reported_from_start_to_confirmation(client, watcher):
    describe(client, "first")
    client.commit(confirmed=True, timeout="60")
    client.commit(confirmed=True, timeout="30")
    client.commit()
    assert confirm_events(watcher, 3) == [
        by(client) | {"confirm-event": "start", "timeout": "60"},
        by(client) | {"confirm-event": "extend", "timeout": "30"},
        by(client) | {"confirm-event": "complete"},
    ]


def test_a_confirmed_commit_that_is_cancelled_is_reported_with_who_did(client, watcher):
    describe(client, "first")
    client.commit(confirmed=True, timeout="60")
    client.cancel_commit()
    assert confirm_events(watcher, 2)[1] == by(client) | {"confirm-event": "cancel"}


def test_a_confirmed_commit_whose_session_leaves_is_reported_as_cancelled(server, watcher):
    leaver = server.connect()
    describe(leaver, "first")
    leaver.commit(confirmed=True, timeout="60")
    leaver.close_session()
    assert confirm_events(watcher, 2)[1] == by(leaver) | {"confirm-event": "cancel"}


def test_a_confirmed_commit_that_times_out_is_reported_as_nobodys_doing(client, watcher):
    describe(client, "first")
    client.commit(confirmed=True, timeout="1")
    assert confirm_events(watcher, 2)[1] == {"confirm-event": "timeout"}


def test_starts_and_ends_of_sessions_are_logged_apart_from_what_operators_do(netconfd):
    with netconfd.connect() as operator:
        operator.commit(confirmed=True)
        operator.commit()
    netconfd.stop()
    with closing(sqlite3.connect(netconfd.state_dir / "notifications.sqlite")) as log:
        rows = log.execute("SELECT of_sessions, notification FROM event").fetchall()
    netconfd.start()
    names = [(bool(apart), etree.QName(etree.fromstring(text)).localname) for apart, text in rows]
    assert [name for apart, name in names if apart] == [
        "netconf-session-start",
        "netconf-session-end",
    ]
    assert {name for apart, name in names if not apart} == {"netconf-confirmed-commit"}


def test_a_module_installed_while_the_server_runs_is_reported_and_can_notify(netconfd, watcher):
    subprocess.run(["sysrepoctl", "--install", DOOR], check=True, capture_output=True)
    change = event(watcher, "netconf-capability-change")
    assert change["changed-by/server"] is None
    with netconfd.connect() as later:
        assert change["modified-capability"] in later.server_capabilities
        later.create_subscription()
        with sysrepo.SysrepoConnection() as connection, connection.start_session() as session:
            session.notification_send("/door:opened", {"name": "front"})
        opened = later.take_notification(timeout=WAIT_TIMEOUT_S).notification_ele[1]
        assert etree.QName(opened).localname == "opened"
