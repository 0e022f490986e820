"""Where the kernel keeps the filters of a port: in software, or in hardware that forwards.

No port here has hardware that takes filters: netdevsim says that it forwards, and takes none but
BPF classifiers that are made for it; a veth that is taken for a port of a switch takes nothing.
"""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace

import pytest

from agent.kernel import link
from agent.kernel.cls_flower import INGRESS
from agent.kernel.flower_filters import read_filters
from agent.kernel.netlink_batch import NetlinkSocket
from agent.mechanisms.received_priority.model import PriorityTable, ReceivedPriorityConfig
from agent.mechanisms.stream_filters.model import Gate, StreamFilter, StreamFilterConfig
from agent.model import AgentError
from tests.kernel.two_bridges import (  # noqa: F401
    FIRST,
    INCOMING,
    asked,
    bridges,
    first,
    hooks,
    table,
)

SKIP_HW, NOT_IN_HW = 1, 8
OF_STREAMS, OF_RECEIVED_FRAMES = 0x7900, 0x7A01
TABLE = asked("p1", ReceivedPriorityConfig(PriorityTable()))
REFUSED = (
    "port p1: the hardware of the switch forwards the frames of this port, and does not take {}: "
    "Operation not supported (ENOTSUP); let its driver take filters (ethtool -K p1 hw-tc-offload "
    "on), or remove from the configuration of the port what asks for the filter"
)


def flags(switch, port: str, prio: int) -> set[int]:
    """The flags of the filters at the ingress of a port."""
    with closing(NetlinkSocket(socket.NETLINK_ROUTE)) as kernel:
        ifindex = switch.read()[port].ifindex
        return {each.flags for each in read_filters(kernel, ifindex, INGRESS, prio)}


@pytest.fixture
def in_switch(monkeypatch):
    """Lets p1 pass for the port of a switch whose hardware forwards."""
    usual = link.read

    def read(ipr):
        return [
            replace(each, switch_id="00:01:02:03") if each.name == "p1" else each
            for each in usual(ipr)
        ]

    monkeypatch.setattr(link, "read", read)


@pytest.mark.parametrize(("wanted", "prio"), [(FIRST, OF_STREAMS), (TABLE, OF_RECEIVED_FRAMES)])
def test_filters_of_a_port_whose_frames_the_kernel_forwards_are_not_offered_to_its_driver(
    first, wanted, prio
):
    first.apply(wanted)
    assert flags(first, "p1", prio) == {SKIP_HW | NOT_IN_HW}
    assert first.apply(wanted).steps == ()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (table(INCOMING), REFUSED.format("a filter (flower) of a stream")),
        (
            ReceivedPriorityConfig(PriorityTable()),
            REFUSED.format("a filter (flower, at ingress)") + "; nor does it take a table of "
            "priorities (dcb app): Operation not supported (ENOTSUP)",
        ),
    ],
)
def test_what_only_software_would_do_is_refused_where_hardware_forwards(
    first, in_switch, part, words
):
    with pytest.raises(AgentError) as refusal:
        first.apply(asked("p1", part))
    assert str(refusal.value) == words
    assert hooks("p1") == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (table(INCOMING), "a filter (flower) of a stream"),
        (ReceivedPriorityConfig(PriorityTable()), "a filter (flower, at ingress)"),
    ],
)
def test_what_a_driver_says_of_a_filter_reaches_the_operator(kernel, switch_ports, part, words):
    port, _ = switch_ports
    with pytest.raises(AgentError) as refusal:
        kernel.apply(asked(port, part))
    assert f"port {port}: the hardware of the switch forwards the frames of this port" in str(
        refusal.value
    )
    assert (
        f"does not take {words}: netdevsim: only offload of BPF classifiers supported (ENOTSUP); "
        in str(refusal.value)
    )
    assert hooks(port) == []


def test_a_program_that_filters_streams_is_refused_where_hardware_forwards(kernel, switch_ports):
    part = StreamFilterConfig(frozenset({StreamFilter(1, None, None, 0, Gate(1))}))
    with pytest.raises(AgentError) as refusal:
        kernel.apply(asked("br0", part))
    first, second = switch_ports
    assert str(refusal.value).splitlines() == [
        f"port br0: the hardware of the switch forwards the frames of {name}, and the BPF program "
        "that filters streams would not see them: no driver takes it"
        for name in (first, second)
    ]
    assert [hooks(port) for port in switch_ports] == [[], []]
