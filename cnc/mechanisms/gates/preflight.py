"""Checks, before a change, that a port can run its desired configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.check import Violation, judge_limits
from cnc.data_tree.tree import CLASSIFY_BRIDGED, AgentReport, GatesReport, PortReport
from cnc.finding import Check, Finding, Verdict
from cnc.mechanism import Around
from cnc.mechanisms.gates.hardware import examine_hardware
from cnc.model import (
    GateMode,
    Link,
    Plan,
    PortConfiguration,
    PortGates,
    PortRef,
    PortSettings,
    TalkerStreams,
    transmission_ns,
)
from cnc.support.format import counted, rate
from cnc.support.wording import link_hint

# net/sched/sch_taprio.c: the speed that it assumes where none is known
# (taprio_set_picos_per_byte), and the frame that fits the shortest interval (fill_sched_entry:
# ETH_ZLEN).
ASSUMED_BPS = 10_000_000
INTERVAL_MIN_OCTETS = 60

_NO_GATES = (
    "a switch: modprobe sch_taprio, or boot a kernel that has it, such as Debian's "
    "linux-image-amd64; a lab: run the commands in such a kernel, scripts/vm bash SCRIPT"
)

Outcome = tuple[Verdict, str, str | None]


def examine_node(
    node: str, settings: Mapping[str, PortSettings], agent: AgentReport
) -> Iterator[Finding]:
    """Gates and DSCP rules, which the agent refuses where the kernel lacks support; nothing of an
    end station without gates."""
    gated = [gates for each in settings.values() if (gates := each[PortGates].configuration)]
    if not gated and all(each.get(TalkerStreams) for each in settings.values()):
        return
    hint = None
    if refused := agent.refused.get("gates"):
        text, hint = refused, _NO_GATES
    elif agent.classifier == "none" and any(each.dscp_priorities for each in gated):
        text = "its kernel has neither iptables nor nftables: DSCP rules are refused"
        hint = "load ip_tables and ip6_tables, or nf_tables, and install iptables on the switch"
    elif agent.profile:
        return
    else:
        text = "runs gate control lists"
    yield Finding(node, None, Check.KERNEL, Verdict.FAILED if hint else Verdict.OK, text, hint)


def examine_port(
    ref: PortRef, asked: PortGates, report: PortReport | None, around: Around
) -> Iterator[Finding]:
    """All findings about one port except its limits.

    What prevents only a gate control list is a warning on a port without one.
    """
    desired, link = asked.configuration, around.link

    def finding(check: Check, verdict: Verdict, text: str, hint: str | None = None) -> Finding:
        return Finding(ref.node, ref.port, check, verdict, text, hint)

    if report is None:
        yield finding(
            Check.PORT,
            Verdict.FAILED,
            "the switch has no such port",
            "do the port names of the intent exist on the switch?",
        )
        return
    yield finding(Check.PORT, Verdict.OK, "exists")
    failure = Verdict.FAILED if desired else Verdict.WARNING
    yield finding(Check.LINK, *_link(report, ref.port))
    # Without a kernel of ours nothing follows from a speed that is not reported.
    if link and report.oper_status and not (report.profile and report.link_speed_bps is None):
        yield finding(Check.SPEED, *_speed(report.link_speed_bps, link, desired))
    if desired and report.tx_queues is not None:
        yield finding(Check.QUEUES, *_queues(report.tx_queues, desired.number_of_classes))
    gates = report[GatesReport]
    if desired and desired.dscp_priorities and gates.unclassified:
        yield finding(Check.CLASSIFICATION, Verdict.WARNING, gates.unclassified, CLASSIFY_BRIDGED)
    if gates.software_gates_refused and desired and desired.mode is GateMode.SOFTWARE:
        hint = "state `gates: full-offload` of the switch in the intent, if its driver has them"
        yield finding(Check.KERNEL, Verdict.FAILED, gates.software_gates_refused, hint)
    if gates.foreign_qdisc:
        yield finding(
            Check.QDISC,
            failure,
            f"its root qdisc {gates.foreign_qdisc} was not set by this agent and is not changed",
            f"remove it on the switch: tc qdisc del dev {ref.port} root",
        )
    else:
        yield finding(Check.QDISC, Verdict.OK, gates.root_qdisc)


def _link(report: PortReport, port: str) -> Outcome:
    if report.oper_status is None:
        return Verdict.UNKNOWN, "not reported", None
    if report.link_fault is None:
        return Verdict.OK, report.oper_status, None
    return Verdict.WARNING, f"{report.link_fault}: no frames pass", link_hint(port)


def _speed(speed_bps: int | None, link: Link, desired: PortConfiguration | None) -> Outcome:
    if speed_bps == link.rate_bps:
        return Verdict.OK, f"the link runs at {rate(speed_bps)}", None
    if speed_bps is None:
        text = f"the kernel reports no link speed and assumes {rate(ASSUMED_BPS)}"
        hint = "check that the link is up: without its speed the windows cannot be verified"
    else:
        text = f"the link runs at {rate(speed_bps)}"
        hint = "correct the link's `rate` in the intent, or the negotiated speed (ethtool)"
    text += f"; the intent says {rate(link.rate_bps)}"
    verdict = Verdict.WARNING
    if desired:
        if speed_bps and speed_bps < link.rate_bps:
            verdict = Verdict.FAILED
        needed_ns = transmission_ns(INTERVAL_MIN_OCTETS, speed_bps or ASSUMED_BPS)
        shortest_ns = min(entry.interval_ns for entry in desired.gates.entries)
        if shortest_ns < needed_ns:
            verdict = Verdict.FAILED
            text += (
                f"; its shortest interval lasts {shortest_ns} ns, the kernel requires at least "
                f"{needed_ns} ns, the transmission time of {INTERVAL_MIN_OCTETS} octets"
            )
    return verdict, text, hint


def _queues(tx_queues: int, classes: int) -> Outcome:
    if tx_queues >= classes:
        return Verdict.OK, f"{tx_queues} for {counted(classes, 'traffic class')}", None
    needed = counted(classes, "TX queue")
    return (
        Verdict.FAILED,
        f"needs {needed}, has {tx_queues} (the kernel: Multi-queue device is required)",
        "use an interface with more queues, or fewer traffic classes",
    )


def examine_limits(
    plan: Plan, asked: Mapping[PortRef, PortGates], reports: Mapping[PortRef, PortReport]
) -> Iterator[Finding]:
    """What drivers will make of the lists, and lists that exceed the limits that the switches
    report; the first excess of each kind."""
    desired = {port: its.configuration for port, its in asked.items() if its.configuration}
    yield from examine_hardware(plan, desired, reports)
    reported = {
        port: reports[port][GatesReport].limits_in(configuration.mode)
        for port, configuration in desired.items()
        if port in reports
    }
    lists = {port: desired[port].gates for port in reported}
    beyond: dict[str, dict[str, Violation]] = {}
    for violation in judge_limits(plan.intent.network.within(reported), lists):
        beyond.setdefault(violation.where, {}).setdefault(violation.code, violation)
    for port in reported:
        excess = beyond.get(str(port), {}).values()
        for violation in excess:
            yield Finding(
                *port,
                Check.LIMITS,
                Verdict.FAILED,
                f"the plan exceeds the limits that the switch reports: {violation.text}",
                "plan within the reported limits: cnc plan --ask-switches INTENT",
            )
        if not excess:
            text = counted(len(lists[port].entries), "entry")
            quota = reports[port][GatesReport].transmit_quota_frames
            if quota and desired[port].mode is GateMode.SOFTWARE:
                text += f"; {counted(quota, 'frame')} leave in one run of a queue"
            yield Finding(*port, Check.LIMITS, Verdict.OK, text)
