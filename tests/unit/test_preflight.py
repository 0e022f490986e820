"""What is found out before a change, from what switches answered."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.clocks.findings import CONTROLLER_TOLERANCE_NS
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import AgentReport, PtpReport
from cnc.errors import RolloutError
from cnc.model import NS_PER_S, GateControlList, GateEntry, GateLimits, Plan
from cnc.planner import plan as compute
from cnc.rollout.preflight import Check, Finding, Verdict, examine, refuse
from tests.unit.asked import desired_ports
from tests.unit.places import changed, port_report

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
AGENT = AgentReport(37, 100, classifier="iptables-nft", refuses_late_rollouts=True)
GRANDMASTER = PtpReport("001122.fffe.334455", True, None, ("master",))
SLAVE = PtpReport("001122.fffe.334455", False, 300, ("slave", "master"))
SOUND = port_report(
    root_qdisc="mq",
    mode=None,
    clock=None,
    running=None,
    pending=None,
    priority_map=(0,) * 8,
    number_of_classes=0,
    dscp_priorities={},
    current_time_ns=0,
    limits=GateLimits(),
    oper_status="up",
    link_speed_bps=1_000_000_000,
    tx_queues=8,
)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compute(intents.load(LINE3))


def answered(plan, changed_ports=(), changed_agents=(), ahead_ns=(), read_ns=0):
    """What the three switches say: nothing but good, unless changed."""
    states = {}
    asked_ns = time.monotonic_ns()
    tai_ns = time.time_ns() + 37 * NS_PER_S
    for name in plan.intent.network.bridges:
        clock_ns = tai_ns + dict(ahead_ns).get(name, 0)
        port = changed(SOUND, current_time_ns=clock_ns)
        ports = {
            ref: changed(port, **dict(changed_ports).get(f"{name}/{ref}", {}))
            for ref in desired_ports(plan, name)
        }
        agent = dataclasses.replace(AGENT, **dict(changed_agents).get(name, {}))
        states[name] = SwitchState(agent, ports, asked_ns - read_ns, asked_ns)
    return states


def examined(plan, states, gates=True, network=True):
    plan = plan if gates else dataclasses.replace(plan, gates={})
    return examine(
        {name: desired_ports(plan, name) for name in states},
        states,
        clock_error_ns=1_000,
        plan=plan if network else None,
    )


def not_ok(findings, *, but=(Check.PTP,)):
    return [f for f in findings if f.verdict is not Verdict.OK and f.check not in but]


def test_a_sound_network_has_nothing_to_find(plan):
    assert not_ok(examined(plan, answered(plan))) == []


def test_the_absence_of_ptp_is_not_known_to_be_wrong(plan):
    verdicts = {f.verdict for f in examined(plan, answered(plan)) if f.check is Check.PTP}
    assert verdicts == {Verdict.UNKNOWN}


def test_what_a_switch_has_stored_and_cannot_apply_is_named_with_its_port(plan):
    agents = {"s2": {"not_applied": {"eth9": "base time 9 ns is not within 0..8"}}}
    (finding,) = not_ok(examined(plan, answered(plan, changed_agents=agents)))
    assert (finding.where, finding.check) == ("s2/eth9", Check.STORED)
    assert finding.verdict is Verdict.WARNING
    assert finding.text.endswith("cannot be applied: base time 9 ns is not within 0..8")


@pytest.mark.parametrize(
    ("changes", "check", "verdict", "words"),
    [
        (
            {"software_gates_refused": "the hardware of switch 00 forwards frames from p2"},
            Check.KERNEL,
            Verdict.FAILED,
            "the hardware of switch 00 forwards frames from p2",
        ),
        ({"tx_queues": 7}, Check.QUEUES, Verdict.FAILED, "needs 8 TX queues, has 7"),
        ({"oper_status": "lower-layer-down"}, Check.LINK, Verdict.WARNING, "lower-layer-down"),
        ({"oper_status": None}, Check.LINK, Verdict.UNKNOWN, "not reported"),
        (
            {"link_speed_bps": None},
            Check.SPEED,
            Verdict.FAILED,
            "the kernel requires at least 48000",
        ),
        ({"link_speed_bps": 2_500_000_000}, Check.SPEED, Verdict.WARNING, "runs at 2.5 Gb/s"),
        ({"link_speed_bps": 100_000_000}, Check.SPEED, Verdict.FAILED, "runs at 100 Mb/s"),
        (
            {"root_qdisc": "foreign: prio 5:"},
            Check.QDISC,
            Verdict.FAILED,
            "qdisc prio 5: was not set by",
        ),
        (
            {"bridge": "br0"},
            Check.CLASSIFICATION,
            Verdict.WARNING,
            "frames bridged by br0 are not classified: DSCP rules see routed frames only",
        ),
        ({"limits": GateLimits(entries_max=2)}, Check.LIMITS, Verdict.FAILED, "the port holds 2"),
    ],
)
def test_what_is_wrong_with_a_port_is_said_of_that_port(plan, changes, check, verdict, words):
    findings = not_ok(examined(plan, answered(plan, {"s2/s3": changes})))
    assert [(f.where, f.check, f.verdict) for f in findings] == [("s2/s3", check, verdict)]
    assert words in findings[0].text


def test_the_frames_of_one_run_are_told_with_the_limits_of_software_gates(plan):
    def told(node):
        states = answered(plan, {"s2/s3": {"transmit_quota_frames": 1024}})
        findings = [each for each in examined(plan, states) if each.check is Check.LIMITS]
        return {each.text.partition("; ")[2] for each in findings if each.where.startswith(node)}

    assert told("s2/s3") == {"1024 frames leave in one run of a queue"}
    assert told("s1") == {""}


@pytest.mark.parametrize(
    ("speed_bps", "verdict"), [(None, Verdict.WARNING), (100_000_000, Verdict.FAILED)]
)
def test_long_intervals_suit_a_link_of_unknown_speed_but_no_slow_one(plan, speed_bps, verdict):
    port = next(iter(plan.gates))
    calm = GateControlList(10**6, (GateEntry(1, 10**6),))
    plan = dataclasses.replace(plan, gates={port: calm})
    states = answered(plan, {str(port): {"link_speed_bps": speed_bps}})
    (finding,) = not_ok(examined(plan, states))
    assert (finding.where, finding.verdict) == (str(port), verdict)
    assert "the intent says 1 Gb/s" in finding.text


@pytest.mark.parametrize(
    "changes",
    [
        {"tx_queues": 1},
        {"oper_status": "down"},
        {"link_speed_bps": 1},
        {"root_qdisc": "foreign: x"},
    ],
)
def test_a_port_without_a_list_needs_nothing_of_it(plan, changes):
    findings = not_ok(examined(plan, answered(plan, {"s2/s3": changes}), gates=False))
    assert all(finding.verdict is Verdict.WARNING for finding in findings)


def test_a_port_that_is_not_there_is_a_failure_whatever_is_wanted_of_it(plan):
    states = answered(plan)
    del states["s2"].ports["s3"]
    for gates in (True, False):
        (finding,) = not_ok(examined(plan, states, gates))
        assert (finding.where, finding.check) == ("s2/s3", Check.PORT)


def test_without_an_intent_rates_and_limits_are_nobodys_business(plan):
    port = {"limits": GateLimits(entries_max=2), "link_speed_bps": None}
    assert not_ok(examined(plan, answered(plan, {"s2/s3": port}), network=False)) == []


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ({"refused": {"gates": "this kernel has no sch_taprio"}}, "no sch_taprio"),
        ({"classifier": "none"}, "neither iptables nor nftables"),
    ],
)
def test_a_kernel_that_lacks_something_fails_its_switch(plan, agent, words):
    (finding,) = not_ok(examined(plan, answered(plan, changed_agents={"s1": agent})))
    assert (finding.where, finding.check, finding.verdict) == ("s1", Check.KERNEL, Verdict.FAILED)
    assert words in finding.text


def test_a_switch_whose_agent_is_down_is_asked_nothing_more(plan):
    states = answered(plan)
    states["s2"] = dataclasses.replace(states["s2"], agent=None, ports={})
    (finding,) = not_ok(examined(plan, states))
    assert (finding.where, finding.check) == ("s2", Check.AGENT)
    assert "systemctl start tsn-agent" in finding.hint


def test_clocks_that_no_reading_explains_are_apart(plan):
    late = {"s2": 5_000_000}
    (finding,) = not_ok(examined(plan, answered(plan, ahead_ns=late)))
    assert (finding.where, finding.check, finding.verdict) == ("s2", Check.CLOCKS, Verdict.FAILED)
    assert "the TAI clock of s2 is at least 0.00" in finding.text
    slow = answered(plan, ahead_ns=late, read_ns=6_000_000)
    assert not_ok(examined(plan, slow)) == []


def test_a_switch_whose_ports_have_no_clock_cannot_be_compared(plan):
    states = answered(
        plan, {f"s3/{port}": {"current_time_ns": None} for port in ("s2", "l1", "l2")}
    )
    (finding,) = not_ok(examined(plan, states))
    assert "s3 reports no clock" in f"{finding.where} {finding.text}"


@pytest.mark.parametrize("side", ["ahead of", "behind"])
def test_a_network_that_lives_in_another_time_than_the_controller_is_a_warning(plan, side):
    apart_ns = (2 if side == "ahead of" else -2) * CONTROLLER_TOLERANCE_NS
    found = not_ok(
        examined(plan, answered(plan, ahead_ns=dict.fromkeys(("s1", "s2", "s3"), apart_ns)))
    )
    assert {f.check for f in found} == {Check.CONTROLLER_CLOCK}
    assert {f.verdict for f in found} == {Verdict.WARNING}
    assert all(f"{side} this machine's" in f.text for f in found)


def test_one_switch_without_its_tai_offset_is_named(plan):
    states = answered(
        plan, changed_agents={"s2": {"tai_offset_s": 0}}, ahead_ns={"s2": -37 * NS_PER_S}
    )
    findings = {f.check: f for f in not_ok(examined(plan, states))}
    offset = findings[Check.TAI_OFFSET]
    assert (offset.where, offset.verdict) == ("s2", Verdict.WARNING)
    assert "TAI offset 0 s, others have 37 s" in offset.text
    assert findings[Check.CLOCKS].verdict is Verdict.FAILED


def test_a_network_in_which_nobody_knows_tai_is_warned(plan):
    nobody = {name: {"tai_offset_s": 0} for name in ("s1", "s2", "s3")}
    utc = dict.fromkeys(nobody, -37 * NS_PER_S)
    found = not_ok(examined(plan, answered(plan, changed_agents=nobody, ahead_ns=utc)))
    assert {(f.check, f.verdict) for f in found} == {(Check.TAI_OFFSET, Verdict.WARNING)}
    assert len(found) == 3


@pytest.mark.parametrize(
    ("daemon", "verdict", "words"),
    [
        (SLAVE, Verdict.OK, "300 ns off its master"),
        (dataclasses.replace(SLAVE, offset_from_master_ns=-1_500), Verdict.WARNING, "allows 1 µs"),
        (dataclasses.replace(SLAVE, port_states=("listening",)), Verdict.FAILED, "listening"),
        (dataclasses.replace(SLAVE, grandmaster="other"), Verdict.WARNING, "follows other, others"),
        (dataclasses.replace(GRANDMASTER, port_states=("faulty",)), Verdict.FAILED, "faulty"),
    ],
)
def test_who_keeps_the_time_is_told(plan, daemon, verdict, words):
    agents = {"s1": {"ptp": GRANDMASTER}, "s2": {"ptp": daemon}, "s3": {"ptp": SLAVE}}
    found = examined(plan, answered(plan, changed_agents=agents))
    by_switch = {f.switch: f for f in found if f.check is Check.PTP}
    assert by_switch["s2"].verdict is verdict
    assert words in by_switch["s2"].text
    assert {by_switch["s1"].verdict, by_switch["s3"].verdict} == {Verdict.OK}


def test_failures_alone_refuse_all_of_them_and_each_hint_once():
    findings = [
        Finding("s1", None, Check.CLOCKS, Verdict.FAILED, "is late", "set it"),
        Finding("s2", "p1", Check.LINK, Verdict.FAILED, "is down", "plug it in"),
        Finding("s2", "p2", Check.LINK, Verdict.FAILED, "is down", "plug it in"),
        Finding("s3", None, Check.SPEED, Verdict.WARNING, "is not known", "ask"),
    ]
    with pytest.raises(RolloutError) as refused:
        refuse(findings)
    assert str(refused.value) == "s1: is late\ns2/p1: is down\ns2/p2: is down"
    assert refused.value.hint == "set it; plug it in"
    refuse(findings[3:])


def with_packets(plan, octets, *, best_effort=1522):
    """The plan with another length of camera's packets, from t2 by all switches to l2."""
    intent = plan.intent
    streams = {
        **intent.streams,
        "camera": dataclasses.replace(intent.streams["camera"], payload_octets=octets),
    }
    its = dataclasses.replace(intent.classes["best-effort"], max_frame_octets=best_effort)
    classes = {**intent.classes, "best-effort": its}
    return dataclasses.replace(
        plan, intent=dataclasses.replace(intent, streams=streams, classes=classes)
    )


def mtus(findings):
    return [(f.where, f.verdict, f.text) for f in findings if f.check is Check.MTU]


def test_a_port_that_drops_a_streams_packets_is_named_with_both_lengths(plan):
    plan = with_packets(plan, 9000, best_effort=9022)
    states = answered(plan, {"s2/s3": {"mtu_octets": 1500}, "s3/s2": {"mtu_octets": 9000}})
    findings = examined(plan, states)
    assert mtus(findings) == [
        ("s2/s3", Verdict.FAILED, "its MTU is 1500 octets, stream camera has packets of 9000"),
        ("s3/s2", Verdict.OK, "9000 octets"),
    ]
    with pytest.raises(RolloutError, match="s2/s3: its MTU is 1500 octets") as refused:
        refuse(findings)
    assert "ip link set s3 mtu 9000" in refused.value.hint


def test_a_port_by_which_frames_come_in_has_to_take_them_too(plan):
    plan = with_packets(plan, 9000, best_effort=9022)
    ((where, verdict, _),) = mtus(examined(plan, answered(plan, {"s1/t2": {"mtu_octets": 8999}})))
    assert (where, verdict) == ("s1/t2", Verdict.FAILED)


def test_a_port_that_no_stream_crosses_may_have_any_mtu(plan):
    plan = with_packets(plan, 9000, best_effort=9022)
    assert not mtus(examined(plan, answered(plan, {"s3/l2": {"mtu_octets": None}})))
    streams = {name: its for name, its in plan.streams.items() if name != "camera"}
    without = dataclasses.replace(plan, streams=streams)
    assert not mtus(examined(without, answered(plan, {"s3/l2": {"mtu_octets": 1280}})))


def test_best_effort_that_a_port_lets_be_longer_than_its_guard_bands_is_a_warning(plan):
    states = answered(plan, {"s2/s3": {"mtu_octets": 9000}})
    ((where, verdict, text),) = mtus(examined(plan, states))
    assert (where, verdict) == ("s2/s3", Verdict.WARNING)
    assert "the plan leaves time for packets of 1500 of best effort" in text


def test_ordinary_packets_through_ordinary_ports_are_not_worth_a_word(plan):
    every = {
        f"{name}/{port}": {"mtu_octets": 1500}
        for name in plan.intent.network.bridges
        for port in desired_ports(plan, name)
    }
    assert not mtus(examined(plan, answered(plan, every)))
