"""Preemptable classes of a port: what is asked, sent to the kernel, refused, read and reported.

No driver with a MAC merge layer is at hand: messages are built as net/ethtool/mm.c
(mm_fill_reply) and net/sched/sch_taprio.c (taprio_dump_tc_entries) of Linux 6.12 build them.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from agent.kernel import ethtool_mm, sched_taprio
from agent.mechanism import Refused, ReportContext
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates import taprio as taprio_of_gates
from agent.mechanisms.gates.kernel import _split
from agent.mechanisms.gates.model import GateConfig, TaprioMode
from agent.mechanisms.preemption.kernel import preemptable
from agent.mechanisms.preemption.model import Preemptable
from agent.mechanisms.preemption.rules import configured, operational
from agent.memory_ports import MemoryPorts
from agent.model import AgentError, MacMerge, PortConfig, VerifyStatus
from agent.root_qdisc import HANDLE
from agent.switch import Switch
from tests.unit.test_switch import BARE, TAPRIO

BRIDGE_PORT = "ieee802-dot1q-bridge:bridge-port"
PARAMETERS = "ieee802-dot1q-preemption-bridge:frame-preemption-parameters"
TWO_CLASSES = {"number-of-traffic-classes": 2, **{f"priority{p}": int(p == 6) for p in range(8)}}
OFFLOADED = replace(TAPRIO, mode=TaprioMode.FULL_OFFLOAD)
VERIFIED = MacMerge(tx_enabled=True, tx_active=True, verify_status=VerifyStatus.SUCCEEDED)
PREEMPTING = replace(BARE, driver="fsl_enetc", mac_merge=VERIFIED)
LOWER = Preemptable((0,), (0, 1, 2, 3, 4, 5, 7))


def asked(*priorities: int) -> Preemptable:
    table = {f"priority{priority}": "preemptable" for priority in priorities}
    bridge_port = {
        "traffic-class": {"traffic-class-table": TWO_CLASSES},
        PARAMETERS: {"frame-preemption-status-table": table},
    }
    return configured({BRIDGE_PORT: bridge_port}, PREEMPTING)


def apply(switch: Switch, its: Preemptable, taprio=OFFLOADED):
    return switch.apply({"p1": PortConfig("p1", (GateConfig(taprio), its))})


@pytest.fixture
def switch():
    return Switch(MemoryPorts(MECHANISMS, [PREEMPTING]))


def test_priorities_of_a_class_are_preemptable_together():
    assert asked() == Preemptable()
    assert asked(0, 1, 2, 3, 4, 5, 7) == LOWER


def test_a_class_with_an_express_priority_is_refused():
    with pytest.raises(Refused, match="priority 1 is express, and others of its traffic class 0"):
        asked(0, 2, 3, 4, 5, 7)


def test_they_come_and_go_with_the_gates_of_the_port(switch):
    applied = apply(switch, LOWER)
    assert switch.read()["p1"][Preemptable] == LOWER
    assert apply(switch, LOWER).steps == ()
    assert [each.difference for each in apply(switch, Preemptable()).changes] == [
        "preemptable classes: 0, configured is none"
    ]
    applied.undo()
    assert switch.read()["p1"][Preemptable] == Preemptable()


def test_without_gates_they_are_refused(switch):
    with pytest.raises(AgentError, match="preemption needs gates on this port"):
        apply(switch, LOWER, None)


def test_a_port_without_a_mac_merge_layer_refuses_them_and_keeps_its_gates():
    switch = Switch(MemoryPorts(MECHANISMS, [replace(PREEMPTING, mac_merge=None)]))
    apply(switch, Preemptable())
    with pytest.raises(AgentError, match="Device does not support preemption"):
        apply(switch, LOWER)
    assert switch.read()["p1"][Preemptable] == Preemptable()


class Recording:
    """Records what netlink is asked for."""

    def __init__(self) -> None:
        self.requests: list[dict[str, object]] = []

    def tc(self, *_: object, **request: object) -> None:
        self.requests.append(request)


def sent(switch: Switch, its: Preemptable) -> list[int | None]:
    """What each class is handed over as, by the step from what the switch does to that."""
    (step,) = apply(switch, its).steps
    is_said = True
    before, _ = _split(step.before, says_preemptable=is_said)
    after, _ = _split(step.after, says_preemptable=is_said)
    netlink = Recording()
    taprio_of_gates.change(netlink, "p1", 3, before, after)
    (request,) = netlink.requests
    return [entry.get("fp") for entry in request["tc_entries"]]


def test_the_kernel_is_told_of_each_class_what_it_is_since_it_keeps_what_it_was(switch):
    apply(switch, Preemptable())
    assert sent(switch, LOWER) == [2, 1]
    assert sent(switch, Preemptable()) == [1, 1]


def test_a_kernel_is_told_nothing_where_nothing_is_preemptable():
    """Before Linux 6.4 it refuses an attribute that it does not know."""
    netlink = Recording()
    taprio_of_gates.change(netlink, "p1", 3, None, OFFLOADED)
    assert [set(entry) for entry in netlink.requests[0]["tc_entries"]] == [{"index", "max_sdu"}] * 2


def test_what_is_sent_reads_back_as_the_kernel_dumps_it():
    message = tcmsg()
    qopt = {"num_tc": 2, "map": [0, 0, 0, 0, 0, 0, 1, 0] + [0] * 8, "queues": [(1, 0), (1, 1)]}
    entries = [{"index": 0, "max_sdu": 0, "fp": 2}, {"index": 1, "max_sdu": 0, "fp": 1}]
    options = sched_taprio.get_parameters({**qopt, "tc_entries": entries})
    message["parent"], message["handle"], message["index"] = 0xFFFF_FFFF, HANDLE, 3
    message["attrs"] = [("TCA_KIND", "taprio"), ("TCA_OPTIONS", options)]
    message.encode()
    shown = tcmsg(message.data)
    shown.decode()
    assert preemptable(shown) == LOWER


def attribute(kind: int, form: str, value: int) -> bytes:
    payload = struct.pack(form, value)
    header = struct.pack("=HH", 4 + len(payload), kind)
    return (header + payload).ljust((4 + len(payload) + 3) & ~3, b"\0")


def mm_reply(status: int, *, tx_active: int, min_fragment: int = 60) -> bytes:
    """In the order of mm_fill_reply, behind the header of ethnl_reply_init."""
    device = attribute(1, "=I", 3)
    header = struct.pack("=HH", 4 + len(device), 1 | 1 << 15) + device
    attributes = [
        header,
        attribute(3, "=B", 1),  # TX_ENABLED
        attribute(4, "=B", tx_active),
        attribute(2, "=B", 1),  # PMAC_ENABLED
        attribute(7, "=B", 1),  # VERIFY_ENABLED
        attribute(8, "=B", status),
        attribute(9, "=I", 10),  # VERIFY_TIME
        attribute(10, "=I", 128),  # MAX_VERIFY_TIME
        attribute(5, "=I", min_fragment),
        attribute(6, "=I", 60),  # RX_MIN_FRAG_SIZE
    ]
    body = struct.pack("=BBH", 42, 1, 0) + b"".join(attributes)
    return struct.pack("=IHHII", 16 + len(body), 20, 0, 1, 0) + body


@pytest.mark.parametrize("number", range(6))
def test_the_state_of_a_mac_merge_layer_is_read(number: int):
    message = ethtool_mm.mac_merge_msg(mm_reply(number, tx_active=int(number == 3)))
    message.decode()
    status = [*VerifyStatus][number]
    assert ethtool_mm.reply(message) == (3, MacMerge(True, number == 3, status, 60))


def test_a_status_that_a_later_kernel_has_is_none_that_is_known():
    message = ethtool_mm.mac_merge_msg(mm_reply(17, tx_active=0, min_fragment=124))
    message.decode()
    _, its = ethtool_mm.reply(message)
    assert (its.verify_status, its.tx_min_fragment_octets) == (VerifyStatus.UNKNOWN, 124)


def test_all_ports_are_asked_for_at_once():
    request = ethtool_mm.request()
    request["header"]["type"] = 20
    request.encode()
    # nlmsghdr, then ETHTOOL_MSG_MM_GET in version 1, and an empty header
    assert bytes(request.data[16:]) == struct.pack("=BBHHH", 42, 1, 0, 4, 1 | 1 << 15)


def test_what_the_port_does_is_reported():
    context = ReportContext(lambda _clock: 0)
    node = operational(PREEMPTING.with_part(LOWER), context)[BRIDGE_PORT]
    table = {f"priority{p}": "preemptable" for p in LOWER.priorities}
    assert node[PARAMETERS] == {"frame-preemption-status-table": table, "preemption-active": True}
    assert node["tsn-linux:taprio"]["kernel"]["mac-merge-state"] == {
        "tx-enabled": True,
        "tx-active": True,
        "verify-status": "succeeded",
        "tx-min-fragment-octets": 60,
        "preemptable-priority": [0, 1, 2, 3, 4, 5, 7],
    }


def test_a_port_without_a_mac_merge_layer_reports_nothing():
    assert operational(BARE, ReportContext(lambda _clock: 0)) == {}
