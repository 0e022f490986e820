"""Forwarding comes back: after a reboot, with a bridge made again, with a port that returns.

q1 ══ p1 ┐
q2 ══ p2 ├ br0, as in test_forwarding
q3 ══ p3 ┘
"""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from queue import SimpleQueue

import pytest
from pyroute2 import IPRoute

from agent.composition import Stage
from agent.datastore.changes import Changes
from agent.datastore.watch import Watch
from agent.events import Event, PortDrift, PortRestored, PortStateChange
from agent.kernel import bridge_entries, change_monitor
from agent.kernel.change_monitor import KernelChangeMonitor
from agent.mechanisms import MECHANISMS
from agent.switch import differences
from tests.kernel.test_forwarding import (  # noqa: F401
    GROUP,
    ONE,
    STREAMS,
    TABLE,
    TO_GROUP,
    TO_ONE,
    UNKNOWN,
    Received,
    bridge,
    by_hand,
    entries_of,
    forwards,
    kernel_entry,
    port,
    send,
    switch,
    wanted,
)
from tests.stack.filtering_entries import PORTS, bridges, entry
from tests.stack.sysrepo_client import gated

FOREVER_S = 10**6
TRUST = {"priority-regeneration": {f"priority{p}": p for p in range(8)}}
TO_P2 = [Received("p2", STREAMS, 5)]


def configuration() -> dict[str, object]:
    """Entries for both addresses, p1 that trusts the PCP, and gates at p2."""
    trusting = {"name": "p1", "ieee802-dot1q-bridge:bridge-port": TRUST}
    ports = {"ietf-interfaces:interfaces": {"interface": [trusting, gated("p2", base_time_s=0)]}}
    return ports | bridges(entry(TO_ONE, "p2"), entry(TO_GROUP, "p2", "p3"))


@pytest.fixture
def only_announced(monkeypatch) -> None:
    """No poll without an announcement of the kernel."""
    monkeypatch.setattr(change_monitor, "FULL_POLL_S", FOREVER_S)


@pytest.fixture
def agent(switch) -> Iterator[Callable[[], SimpleQueue[Event]]]:  # noqa: F811
    """Start an agent that has `configuration`; what it notifies of, links apart."""
    started: list[Watch | Changes] = []

    def start() -> SimpleQueue[Event]:
        tree = configuration()
        changes = Changes(switch, lambda: tree)
        started.append(changes)
        changes.reconcile(tree)
        events: SimpleQueue[Event] = SimpleQueue()

        def keep(event: Event) -> None:
            if not isinstance(event, PortStateChange):
                events.put(event)

        started.append(Watch(switch, changes, keep))
        return events

    yield start
    for each in reversed(started):
        each.close()


def has_entries() -> bool:
    """Whether br0 has all of `TABLE`, read beside the agent."""
    return TABLE.entries <= {*entries_of(port("br0"))}


def test_after_a_reboot_no_frame_passes_before_its_class_and_gates_come_last(
    switch,  # noqa: F811
    send,  # noqa: F811
    agent,
    monkeypatch,
):
    """What arrived before each step: the kernel has a bridge and ports, and knows no stream."""
    seen: list[tuple[Stage, list[Received]]] = []
    execute = switch.ports.execute

    def observed(step):
        seen.append((step.stage, send(TO_ONE)))
        execute(step)

    monkeypatch.setattr(switch.ports, "execute", observed)
    agent()
    stages = [stage for stage, _arrived in seen]
    assert stages == sorted(stages)
    assert {Stage.CLASSIFY, Stage.FORWARD, Stage.CLOSE_GATES} <= {*stages}
    for stage, arrived in seen:
        assert arrived == (TO_P2 if stage > Stage.FORWARD else [])


@pytest.mark.usefixtures("only_announced")
def test_a_bridge_that_is_made_again_forwards_nothing_until_its_entries_are_back(
    switch,  # noqa: F811
    bridge,  # noqa: F811
    send,  # noqa: F811
    agent,
    eventually,
):
    agent()
    assert send(TO_ONE) == TO_P2
    with IPRoute() as ipr:
        ipr.link("del", index=bridge)
        ipr.link("add", ifname="br0", kind="bridge", br_vlan_filtering=1, br_mcast_snooping=1)
        again = port("br0")
        ipr.link("set", index=again, state="up")
        for name in PORTS[:2]:
            ipr.link("set", index=port(name), master=again)
        eventually(lambda: all(forwards(ipr, name) for name in PORTS[:2]))
        # A port of the configuration is missing: the bridge is as it was made.
        assert send(TO_ONE) == []
        ipr.link("set", index=port("p3"), master=again)
        eventually(lambda: has_entries() and forwards(ipr, "p3"))
    assert send(TO_ONE) == TO_P2


@pytest.mark.usefixtures("only_announced")
def test_a_port_that_leaves_and_returns_at_once_gets_its_entries_back(
    switch,  # noqa: F811
    bridge,  # noqa: F811
    agent,
    eventually,
):
    """Between two looks of the agent: only the kernel's announcements show it."""
    agent()
    with IPRoute() as ipr:
        ipr.link("set", index=port("p2"), master=0)
        ipr.link("set", index=port("p2"), master=bridge)
        assert not has_entries()
        eventually(has_entries)


@pytest.mark.usefixtures("only_announced")
def test_a_bridge_that_is_late_gets_its_entries_when_its_ports_are_there(
    switch,  # noqa: F811
    bridge,  # noqa: F811
    send,  # noqa: F811
    agent,
    eventually,
):
    with IPRoute() as ipr:
        ipr.link("del", index=bridge)
        agent()
        ipr.link("add", ifname="br0", kind="bridge", br_vlan_filtering=1, br_mcast_snooping=1)
        ipr.link("set", index=port("br0"), state="up")
        for name in PORTS:
            ipr.link("set", index=port(name), master=port("br0"))
        eventually(lambda: has_entries() and all(forwards(ipr, name) for name in PORTS))
    # The filters that the port gets with the bridge take it down for a moment.
    eventually(lambda: send(TO_ONE) == TO_P2)


@pytest.mark.usefixtures("only_announced")
def test_without_vlan_filtering_frames_still_leave_by_listed_ports_only(
    switch,  # noqa: F811
    bridge,  # noqa: F811
    send,  # noqa: F811
    agent,
):
    events = agent()
    with IPRoute() as ipr:
        ipr.link("set", index=bridge, kind="bridge", br_vlan_filtering=0)
        drift = events.get(timeout=60)
        assert isinstance(drift, PortDrift)
        assert drift.port == "br0"
        assert send(TO_ONE) == TO_P2
        assert {each.port for each in send(TO_GROUP)} == {"p2", "p3"}
        assert send(UNKNOWN) == []
        ipr.link("set", index=bridge, kind="bridge", br_vlan_filtering=1)
        assert events.get(timeout=60) == PortRestored("br0")
    assert send(TO_ONE) == TO_P2
    assert has_entries()


@pytest.mark.usefixtures("only_announced")
def test_an_entry_that_is_removed_by_hand_is_noticed_at_once(switch, bridge, agent):  # noqa: F811
    events = agent()
    by_hand(bridge_entries.delete_fdb(kernel_entry(ONE, "p2")))
    assert events.get(timeout=60) == PortDrift("br0", f"frames to {ONE} do not leave by p2")
    by_hand(bridge_entries.set_fdb(kernel_entry(ONE, "p2")))
    assert events.get(timeout=60) == PortRestored("br0")
    by_hand(bridge_entries.delete_mdb(bridge, kernel_entry(GROUP, "p3")))
    assert events.get(timeout=60) == PortDrift("br0", f"frames to {GROUP} do not leave by p3")


@pytest.fixture
def notified(only_announced, bridge) -> Iterator[SimpleQueue[bool]]:  # noqa: F811
    """One element each time that a monitor returns, and False when it has ended."""
    returned: SimpleQueue[bool] = SimpleQueue()
    with closing(KernelChangeMonitor()) as monitor:

        def run() -> None:
            while monitor.wait():
                returned.put(True)
            returned.put(False)

        waiting = threading.Thread(target=run)
        waiting.start()
        yield returned
        monitor.stop()
        waiting.join()


def test_addresses_that_a_bridge_learns_wake_nobody(switch, bridge, send, notified):  # noqa: F811
    switch.apply(wanted())
    quiet(notified)
    for number in range(100):
        send(UNKNOWN, source=f"02-DD-00-00-00-{number:02X}")
    with pytest.raises(queue.Empty):
        notified.get(timeout=3)
    by_hand(bridge_entries.delete_fdb(kernel_entry(ONE, "p2")))
    assert notified.get(timeout=60)
    assert "br0" in differences(MECHANISMS, wanted(), switch.read())


def quiet(notified: SimpleQueue[bool]) -> None:
    """Wait until what has just been changed is announced, with what the kernel itself sends."""
    while True:
        try:
            notified.get(timeout=5)
        except queue.Empty:
            return


def test_entries_that_change_all_the_time_wake_once_a_second(switch, bridge, notified):  # noqa: F811
    """Fewer than ten times a second, as other announcements would: 100 changes a second."""
    switch.apply(wanted())
    quiet(notified)
    done, changes = threading.Event(), Counter[str]()

    def change_until_done() -> None:
        while not done.wait(0.01):
            by_hand(
                bridge_entries.delete_fdb(kernel_entry(ONE, "p2")),
                bridge_entries.set_fdb(kernel_entry(ONE, "p2")),
            )
            changes.update(["made"])

    changing = threading.Thread(target=change_until_done)
    changing.start()
    made = [changes["made"] for _ in range(4) if notified.get(timeout=60)]
    done.set()
    changing.join()
    assert all(after - before > 50 for before, after in pairwise(made[1:]))
