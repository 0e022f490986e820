"""Qdiscs below gates pass the rate that they were asked for, whatever frames count for."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import replace

import pytest
from pyroute2 import IPRoute

from agent.kernel.ports import KernelPorts
from agent.mechanisms import MECHANISMS
from agent.mechanisms.gates import children, taprio
from agent.mechanisms.gates.child_rates import OCTET_OPTIONS, scaled
from agent.model import AgentError
from agent.root_qdisc import ChildQdisc

pytestmark = pytest.mark.virtual_time

MBPS = 1_000_000
QUEUE = 1
WANTED_BPS = 20 * MBPS
PACKET_OCTETS, ON_THE_WIRE_OCTETS = 1_200, 1_238
ALWAYS_OPEN = (0x3, 400_000), (0x3, 600_000)

# What the four kinds are told where nothing is emulated: octets a second for pyroute2, else bits.
TBF = ("rate", WANTED_BPS // 8), ("burst", 3_000), ("limit", 1_000_000)
NETEM = ("rate", WANTED_BPS), ("limit", 1_000)
HTB = ("rate", WANTED_BPS), ("ceil", WANTED_BPS), ("burst", 3_000), ("cburst", 3_000)


def cbs(link_bps: int) -> tuple[tuple[str, int], ...]:
    """tc-cbs(8): slopes in kbit/s, credits in octets; 1,238 octets are the longest frame."""
    idle, send = WANTED_BPS // 1_000, (WANTED_BPS - link_bps) // 1_000
    low = ON_THE_WIRE_OCTETS * send * 1_000 // link_bps
    return ("idleslope", idle), ("sendslope", send), ("hicredit", 100), ("locredit", low)


@pytest.fixture
def below(ports, two_classes):
    """Gates on p1 that never close, a link of that rate, and one child."""
    with ExitStack() as stack:
        ipr = stack.enter_context(IPRoute())
        (index,) = ipr.link_lookup(ifname="p1")

        def apply(link_bps, kind, options):
            opened = KernelPorts(MECHANISMS, {"p1": link_bps})
            stack.callback(opened.close)
            root = replace(two_classes(*ALWAYS_OPEN), emulated=opened.read()["p1"].emulated)
            child = ChildQdisc(QUEUE, kind, options)
            if kind in ("tbf", "codel"):
                children.replace(ipr, "p1", index, (None, {}), (root, {QUEUE: child}))
                return
            children.replace(ipr, "p1", index, (None, {}), (root, {}))
            with_tc(scaled(child, root.emulated))
            taprio.change(ipr, "p1", index, root, root)  # grafting has stopped the gates

        yield apply


def with_tc(child: ChildQdisc) -> None:
    """pyroute2 has no cbs and no rate of netem, and an htb has its rates in a class."""
    units = {"rate": "bit", "ceil": "bit"}
    options = " ".join(f"{name} {value}{units.get(name, '')}" for name, value in child.options)
    replace_child = f"qdisc replace dev p1 parent 7a0:{child.queue + 1} handle 99:"
    commands = {
        "cbs": [f"{replace_child} cbs {options}"],
        "netem": [f"{replace_child} netem {options}"],
        "htb": [
            f"{replace_child} htb default 1",
            f"class add dev p1 parent 99: classid 99:1 htb {options}",
            "qdisc add dev p1 parent 99:1 pfifo limit 1000",
        ],
    }
    for command in commands[child.kind]:
        subprocess.run(["tc", *command.split()], check=True)


@pytest.mark.parametrize("kind", ["tbf", "netem", "cbs", "htb"])
@pytest.mark.parametrize("link_bps", [10_000 * MBPS, 1_000 * MBPS, 100 * MBPS])
def test_a_child_passes_the_wanted_rate(below, payload_bps, link_bps, kind):
    options = {"tbf": TBF, "netem": NETEM, "htb": HTB, "cbs": cbs(link_bps)}[kind]
    below(link_bps, kind, options)
    passed_bps = payload_bps(PACKET_OCTETS, 400, offered_each_ms=5)
    assert passed_bps * ON_THE_WIRE_OCTETS / PACKET_OCTETS == pytest.approx(WANTED_BPS, rel=0.01)


def test_a_kind_whose_rates_would_be_wrong_is_refused_on_an_emulated_link_alone(below):
    assert "codel" not in OCTET_OPTIONS
    with pytest.raises(AgentError, match="port p1: a codel qdisc on transmit queue 1"):
        below(1_000 * MBPS, "codel", ())
    below(10_000 * MBPS, "codel", ())
