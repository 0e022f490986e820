"""What the agent's plugins for pyroute2 set is what tc(8) sets with the same words."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute

from agent.kernel import tc_plugins
from agent.kernel.cls_flower import EGRESS
from tests.kernel.conftest import SWITCH, inside, new_namespace

TAGGED, ANY = 0x8100, 0x0003
IPV6 = 0x86DD
SKIP_HW = 1
TAI = time.CLOCK_TAI
NO_PRIORITIES = [0] * 14

FILTERS = [
    (
        "flower",
        {
            "protocol": TAGGED,
            "vlan_prio": 5,
            "vlan_ethertype": IPV6,
            "ip_tos": (0xB8, 0xFC),
            "classid": 7,
            "flags": SKIP_HW,
            "action": {"kind": "skbedit", "priority": 6, "control": "unspec"},
        },
        "protocol 802.1Q",
        (
            "skip_hw classid :7 vlan_prio 5 vlan_ethtype ipv6 ip_tos 0xb8/0xfc "
            "action skbedit priority :6 continue"
        ),
    ),
    (
        "flower",
        {"protocol": ANY, "flags": SKIP_HW, "action": {"kind": "skbedit", "priority": 3}},
        "protocol all",
        "skip_hw action skbedit priority :3 pipe",
    ),
    (
        "basic",
        {"protocol": TAGGED, "skb_priority": 3, "action": {"kind": "gact", "action": "ok"}},
        "protocol 802.1Q",
        "match meta(priority eq 3) action ok",
    ),
]
QDISCS = [
    (
        "taprio",
        {
            "num_tc": 2,
            "map": [0, 1, *NO_PRIORITIES],
            "queues": [(1, 0), (1, 1)],
            "clockid": TAI,
            "base_time": 0,
            "cycle_time": 1_000_000,
            "sched_entries": [(0x1, 400_000), (0x3, 600_000)],
        },
        (
            f"num_tc 2 map 0 1 {' '.join(map(str, NO_PRIORITIES))} queues 1@0 1@1 base-time 0 "
            "cycle-time 1000000 sched-entry S 01 400000 sched-entry S 03 600000 clockid CLOCK_TAI"
        ),
    ),
    ("etf", {"clockid": TAI, "delta_ns": 2_000_000}, "clockid CLOCK_TAI delta 2000000"),
    (
        "cbs",
        {"idleslope": 20_000, "sendslope": -980_000, "hicredit": 31, "locredit": -1_542},
        "hicredit 31 locredit -1542 sendslope -980000 idleslope 20000",
    ),
    (
        "prio",
        {"bands": 3, "priomap": bytes([1, 2, *NO_PRIORITIES])},
        f"bands 3 priomap 1 2 {' '.join(map(str, NO_PRIORITIES))}",
    ),
]


@pytest.fixture
def ipr() -> Iterator[IPRoute]:
    """In a namespace with the two ends of a cable, p1 and p2."""
    tc_plugins.register()
    with new_namespace(SWITCH), inside(SWITCH), IPRoute() as opened:
        queues = {"num_tx_queues": 2, "num_rx_queues": 2}
        opened.link("add", ifname="p1", kind="veth", peer={"ifname": "p2", **queues}, **queues)
        for name in ("p1", "p2"):
            opened.link("set", index=port(opened, name), state="up")
        yield opened


def port(ipr: IPRoute, name: str) -> int:
    (index,) = ipr.link_lookup(ifname=name)
    return int(index)


def tc(*words: str) -> str:
    run = subprocess.run(["tc", *words], check=True, capture_output=True, text=True)
    return run.stdout


def words_of(options: str) -> list[str]:
    """As a shell splits them: what is in brackets is one word."""
    before, bracket, behind = options.partition("meta(")
    if not bracket:
        return options.split()
    match, _, after = behind.partition(")")
    return [*before.split(), f"meta({match})", *after.split()]


def filters(prio: int) -> list[str]:
    """As tc shows them, without the numbers of actions, which the kernel gives them as they come.

    (Of some kinds tc writes no proper JSON.)
    """
    shown = tc("filter", "show", "dev", "p1", "egress", "prio", str(prio))
    return [re.sub(r"index \d+", "", line).strip() for line in shown.splitlines()]


@pytest.mark.parametrize(("kind", "options", "protocol", "words"), FILTERS)
def test_a_filter_of_a_plugin_is_the_one_of_tc(ipr, kind, options, protocol, words):
    tc("qdisc", "add", "dev", "p1", "clsact")
    place = {"handle": 1, "parent": EGRESS, "prio": 1}
    ipr.tc("replace-filter", kind, port(ipr, "p1"), **place, **options)
    where = ["dev", "p1", "egress", "prio", "2", "handle", "1"]
    tc("filter", "add", *where, *protocol.split(), kind, *words_of(words))
    assert kind in filters(1)[0]
    assert filters(1) == filters(2)


@pytest.mark.parametrize(("kind", "options", "words"), QDISCS)
def test_a_qdisc_of_a_plugin_is_the_one_of_tc(ipr, kind, options, words):
    ipr.tc("replace", kind, port(ipr, "p1"), 0x7B0_0000, **options)
    tc("qdisc", "replace", "dev", "p2", "root", "handle", "7b0:", kind, *words.split())
    ours, theirs = (tc("qdisc", "show", "dev", name, "root") for name in ("p1", "p2"))
    assert ours.startswith(f"qdisc {kind} 7b0:")
    assert ours == theirs
