"""Can this port run what it is to be given? As its switch answers, before it is given anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cnc.check import Violation, judge_limits
from cnc.format import counted, rate
from cnc.model import Link, Network, PortConfiguration, PortRef, transmission_ns
from cnc.rollout.preflight.finding import Check, Finding, Verdict
from cnc.switch.tree import CLASSIFY_BRIDGED, PortReport

# net/sched/sch_taprio.c: the speed where none is known (taprio_set_picos_per_byte), and what an
# interval has to hold at least (fill_sched_entry: ETH_ZLEN).
ASSUMED_BPS = 10_000_000
INTERVAL_MIN_OCTETS = 60

Outcome = tuple[Verdict, str, str | None]


def examine_port(
    ref: PortRef, wanted: PortConfiguration | None, report: PortReport | None, link: Link | None
) -> Iterator[Finding]:
    """Everything about one port but its limits.

    What only a gate control list needs is a warning on a port that is to have none (`wanted` is
    None). `link` is what the intent says of its cable.
    """

    def found(check: Check, verdict: Verdict, text: str, hint: str | None = None) -> Finding:
        return Finding(ref.node, ref.port, check, verdict, text, hint)

    if report is None:
        yield found(
            Check.PORT,
            Verdict.FAILED,
            "the switch has no such port",
            "do the port names of the intent exist on the switch?",
        )
        return
    yield found(Check.PORT, Verdict.OK, "exists")
    bad = Verdict.FAILED if wanted else Verdict.WARNING
    yield found(Check.LINK, *_link(report, ref.port))
    if link and report.oper_status:
        yield found(Check.SPEED, *_speed(report.link_speed_bps, link, wanted))
    if wanted and report.tx_queues is not None:
        yield found(Check.QUEUES, *_queues(report.tx_queues, wanted.number_of_classes))
    if wanted and wanted.dscp_priorities and report.unclassified:
        yield found(Check.CLASSIFICATION, Verdict.WARNING, report.unclassified, CLASSIFY_BRIDGED)
    if report.foreign_qdisc:
        yield found(
            Check.QDISC,
            bad,
            f"its root qdisc {report.foreign_qdisc} was set by somebody else and is left alone",
            f"remove it on the switch: tc qdisc del dev {ref.port} root",
        )
    else:
        yield found(Check.QDISC, Verdict.OK, report.root_qdisc)


def _link(report: PortReport, port: str) -> Outcome:
    if report.oper_status is None:
        return Verdict.UNKNOWN, "the switch does not say", None
    if report.link_fault is None:
        return Verdict.OK, report.oper_status, None
    hint = f"is the cable in, the far end switched on? ip link set {port} up"
    return Verdict.WARNING, f"{report.link_fault}: nothing gets through", hint


def _speed(speed_bps: int | None, link: Link, wanted: PortConfiguration | None) -> Outcome:
    if speed_bps == link.rate_bps:
        return Verdict.OK, f"the link runs at {rate(speed_bps)}", None
    if speed_bps is None:
        text = f"the kernel knows no speed of the link and takes it for {rate(ASSUMED_BPS)}"
        hint = "is it up? Else nobody can tell whether frames fit their windows"
    else:
        text = f"the link runs at {rate(speed_bps)}"
        hint = "correct the link's `rate` in the intent, or what the two ends agreed on (ethtool)"
    text += f"; the intent says {rate(link.rate_bps)}"
    verdict = Verdict.WARNING
    if wanted:
        if speed_bps and speed_bps < link.rate_bps:
            verdict = Verdict.FAILED
        needed_ns = transmission_ns(INTERVAL_MIN_OCTETS, speed_bps or ASSUMED_BPS)
        shortest_ns = min(entry.interval_ns for entry in wanted.gates.entries)
        if shortest_ns < needed_ns:
            verdict = Verdict.FAILED
            text += (
                f"; its shortest interval lasts {shortest_ns} ns, the kernel wants the {needed_ns} "
                f"ns that {INTERVAL_MIN_OCTETS} octets take"
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
    network: Network,
    wanted: Mapping[PortRef, PortConfiguration],
    reports: Mapping[PortRef, PortReport],
) -> Iterator[Finding]:
    """Lists beyond what the switches state of their ports; the first excess of each kind."""
    stated = {
        port: reports[port].limits_in(configuration.mode)
        for port, configuration in wanted.items()
        if port in reports
    }
    lists = {port: wanted[port].gates for port in stated}
    beyond: dict[str, dict[str, Violation]] = {}
    for violation in judge_limits(network.within(stated), lists):
        beyond.setdefault(violation.where, {}).setdefault(violation.code, violation)
    for port in stated:
        excess = beyond.get(str(port), {}).values()
        for violation in excess:
            yield Finding(
                *port,
                Check.LIMITS,
                Verdict.FAILED,
                f"the plan is beyond what the switch states: {violation.text}",
                "plan within what the switches state: cnc plan --ask-switches INTENT",
            )
        if not excess:
            entries = counted(len(lists[port].entries), "entry")
            yield Finding(*port, Check.LIMITS, Verdict.OK, entries)
