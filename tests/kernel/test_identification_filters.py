"""The filters of streams in the kernel: whose they are, what they replace, what they cost."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from queue import SimpleQueue

import pytest
from pyroute2 import IPRoute

from agent.datastore.changes import Changes
from agent.datastore.desired import desired_ports
from agent.datastore.watch import Watch
from agent.events import Event, PortDrift, PortRestored, PortStateChange
from agent.kernel import netlink_batch
from agent.kernel.cls_flower import EGRESS, INGRESS
from agent.kernel.flower_filters import probe_action, read_filters, set_filter
from agent.kernel.netlink_batch import NetlinkSocket, raise_first
from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.identification import kernel as identification
from agent.mechanisms.identification.filters import incoming_filter, named_filter, outgoing_filter
from agent.mechanisms.identification.model import (
    IdentificationConfig,
    IdentificationState,
    IdentificationTable,
    Match,
)
from agent.model import AgentError
from agent.switch import Switch, differences
from tests.kernel.two_bridges import (  # noqa: F401
    AS_SENT,
    FIRST,
    FRAMES,
    INCOMING,
    LAST,
    LISTENER,
    LISTENER_IP,
    NAMED,
    OUTGOING,
    PCP,
    RTMGRP_TC,
    STREAM,
    TALKER_IP,
    TRANSLATED,
    UDP,
    UDP_PORT,
    UNKNOWN,
    VLAN_ID,
    asked,
    bridges,
    first,
    hooks,
    index_of,
    last,
    send_udp,
    table,
    tc,
    wire,
)
from tests.stack.stream_identities import identified, rewritten, stream_identities


def test_what_is_read_back_is_what_was_asked_with_what_it_has_met(first, last, wire):
    first.apply(FIRST)
    last.apply(LAST)
    send_udp()
    state = first.read()["p1"][IdentificationState]
    assert state == IdentificationState(table(INCOMING).table, {INCOMING: FRAMES})
    state = last.read()["q3"][IdentificationState]
    assert state == IdentificationState(table(OUTGOING).table, {OUTGOING: FRAMES})


def test_a_second_push_changes_nothing(first):
    first.apply(FIRST)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK) as listening:
        listening.bind((0, RTMGRP_TC))
        assert first.apply(FIRST).steps == ()
        with pytest.raises(BlockingIOError):
            listening.recv(1)
        first.apply({})
        assert listening.recv(1)


def test_a_withdrawn_agent_leaves_nothing_and_a_change_is_undone(first, wire):
    first.apply(FIRST)
    other = replace(INCOMING, mac="02-54-53-4E-00-08", pcp=3)
    change = first.apply(FIRST | asked("p1", table(other)))
    assert first.read()["p1"][IdentificationState].table.incoming == {other}
    change.undo()
    assert first.read()["p1"][IdentificationState].table.incoming == {INCOMING}
    with closing(KernelPorts(MECHANISMS)) as restarted:
        assert Switch(restarted).apply(FIRST).steps == ()
        Switch(restarted).apply({})
    assert hooks("p1") == []
    send_udp()
    assert wire() == [AS_SENT] * FRAMES


def remove_by_hand() -> None:
    tc("filter", "del", "dev", "p1", "ingress", "prio", str(0x7900))


def test_filters_of_others_stay(first):
    tc("qdisc", "add", "dev", "p1", "clsact")
    tc("filter", "add", "dev", "p1", "ingress", "prio", "1", "flower", "action", "continue")
    first.apply(FIRST)
    first.apply({})
    with IPRoute() as ipr:
        left = {each["info"] >> 16 for each in ipr.get_filters(index_of(ipr, "p1"), 0, INGRESS)}
    assert left == {1}
    assert hooks("p1") == ["clsact"]


def test_a_filter_that_was_removed_or_changed_is_a_difference_until_it_is_set_again(first, wire):
    first.apply(FIRST)
    remove_by_hand()
    assert differences(MECHANISMS, FIRST, first.read()) == {
        "p1": f"frames of stream 7 ({UDP}) do not get {STREAM}, VLAN 10 and priority 1"
    }
    first.apply(FIRST)
    place = ("dev", "p1", "ingress", "prio", str(0x7900), "handle", "1", "protocol", "ip")
    keys = ("src_ip", TALKER_IP, "dst_ip", LISTENER_IP, "ip_proto", "udp", "dst_port", "5000")
    tc("filter", "replace", *place, "flower", *keys, "action", "drop")
    assert differences(MECHANISMS, FIRST, first.read()).keys() == {"p1"}
    first.apply(FIRST)
    send_udp()
    assert wire() == [TRANSLATED] * FRAMES


def test_a_filter_among_those_of_streams_is_removed(first):
    first.apply(FIRST)
    place = ("dev", "p1", "ingress", "prio", str(0x7900), "handle", "9", "protocol", "ip")
    tc("filter", "add", *place, "flower", "dst_ip", "192.0.2.9", "action", "drop")
    (step,) = first.apply(FIRST).steps
    assert step.changes[0].description.endswith("which another program has changed")
    assert first.apply(FIRST).steps == ()


def test_a_refused_filter_leaves_none_of_the_others_and_says_why(first):
    tc("qdisc", "add", "dev", "p1", "clsact")
    place = ("dev", "p1", "ingress", "prio", str(0x7902), "protocol", "all")
    tc("filter", "add", *place, "u32", "match", "u32", "0", "0", "action", "continue")
    by_mac = replace(INCOMING, handle=8, index=8, match=Match(destination_mac=UNKNOWN))
    other_ip = UDP._replace(destination_mac=LISTENER)
    with pytest.raises(AgentError, match=r"^port p1: the kernel refused a filter .*\(E"):
        first.apply(FIRST | asked("p1", table(replace(INCOMING, match=other_ip), by_mac)))
    assert first.read()["p1"][IdentificationState].table == IdentificationTable()


@pytest.fixture
def events(first) -> Iterator[SimpleQueue[Event]]:
    """What an agent notifies of, whose configuration identifies the stream."""
    tree = stream_identities(
        identified(
            **{"ip-source": TALKER_IP, "ip-destination": LISTENER_IP},
            **{"next-protocol": "udp", "destination-port": UDP_PORT},
        ),
        rewritten(),
    )
    assert desired_ports(tree, {})["p1"][IdentificationConfig] == table(INCOMING)
    changes = Changes(first, lambda: tree)
    changes.reconcile(tree)
    queue: SimpleQueue[Event] = SimpleQueue()

    def keep(event: Event) -> None:
        if not isinstance(event, PortStateChange):
            queue.put(event)

    watch = Watch(first, changes, keep)
    yield queue
    watch.close()
    changes.close()


def test_an_agent_notices_what_was_removed_by_hand(first, events):
    remove_by_hand()
    drift = events.get(timeout=60)
    assert isinstance(drift, PortDrift)
    assert drift.port == "p1"
    first.apply(asked("p1", table(INCOMING)))
    assert events.get(timeout=60) == PortRestored("p1")


TC_INCOMING = (
    *("src_ip", TALKER_IP, "dst_ip", LISTENER_IP, "ip_proto", "udp", "dst_port", str(UDP_PORT)),
    *("action", "pedit", "ex", "munge", "eth", "dst", "set", STREAM.replace("-", ":"), "pipe"),
    *("action", "vlan", "push", "id", str(VLAN_ID), "priority", str(PCP), "pipe"),
    *("action", "skbedit", "priority", str(PCP), "goto", "chain", "1"),
)
TC_NAMED = (
    *("dst_mac", STREAM.replace("-", ":"), "vlan_id", str(VLAN_ID)),
    *("action", "gact", "continue"),
)
TC_OUTGOING = (
    *("dst_mac", STREAM.replace("-", ":"), "vlan_id", str(VLAN_ID)),
    *("action", "vlan", "pop", "pipe"),
    *("action", "pedit", "ex", "munge", "eth", "dst", "set", LISTENER.replace("-", ":"), "pipe"),
)


@pytest.mark.parametrize(
    ("hook", "protocol", "words", "ours"),
    [
        ("ingress", "ip", TC_INCOMING, incoming_filter(INCOMING)),
        ("egress", "802.1q", TC_OUTGOING, outgoing_filter(OUTGOING)),
        ("ingress", "802.1q", TC_NAMED, named_filter(NAMED)),
    ],
)
def test_a_filter_is_the_one_that_tc_makes_of_the_same(bridges, hook, protocol, words, ours):
    tc("qdisc", "add", "dev", "p1", "clsact")
    tc("filter", "add", "dev", "p1", hook, "prio", "5", "protocol", protocol, "flower", *words)
    port, side = socket.if_nametoindex("p1"), {"ingress": INGRESS, "egress": EGRESS}[hook]
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        (theirs,) = read_filters(kernel, port, side, 5)
        raise_first(kernel.send([set_filter(port, theirs.place._replace(prio=6), ours)]))
        (listed,) = read_filters(kernel, port, side, 6)
    assert theirs.filter == ours._replace(cookie=b"")
    assert listed.filter == ours
    assert listed.keys == theirs.keys


def test_a_thousand_streams_take_little_more_than_a_thousand_messages(first, monkeypatch):
    streams = [
        replace(INCOMING, handle=n, index=n, match=UDP._replace(destination_port=10_000 + n))
        for n in range(1000)
    ]
    wanted = FIRST | asked("p1", table(*streams))
    encoded, sent = netlink_batch._encoded, []

    def recorded(message, *arguments):
        sent.append(message)
        return encoded(message, *arguments)

    monkeypatch.setattr(netlink_batch, "_encoded", recorded)
    first.apply(wanted)
    assert len(sent) < 1_100
    assert len(first.read()["p1"][IdentificationState].table.incoming) == 1000
    assert first.apply(wanted).steps == ()
    one_differs = FIRST | asked("p1", table(*streams[1:], replace(streams[0], pcp=3)))
    sent.clear()
    first.apply(one_differs)
    assert len(sent) < 60


def test_a_kernel_says_which_actions_it_has(bridges):
    with closing(KernelPorts(MECHANISMS)) as ports, closing(NetlinkSocket(0)) as kernel:
        assert "identification" not in ports.capabilities()
        assert "identification-refused" not in ports.leaves()
        (refusal,) = kernel.send([probe_action("none-such")])
    assert refusal.error.code == errno.ENOENT


def test_a_kernel_that_lacks_an_action_says_so_in_its_state(bridges, monkeypatch):
    monkeypatch.setattr(identification, "_ACTIONS", ("none-such",))
    with closing(KernelPorts(MECHANISMS)) as ports:
        why = ports.capabilities()["identification"]
        assert why.startswith("this kernel has no act_none-such: ")
        assert ports.leaves()["identification-refused"] == why
