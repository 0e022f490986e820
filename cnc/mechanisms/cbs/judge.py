"""Classes with a shaper: has each port the idle slopes that its streams need, and are all in time?

Bounds are reckoned once more by code of its own (`cnc.mechanisms.cbs.judged`), from the lists, the
ways and the idle slopes that the plan has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from cnc.account.frames import AddedOctets, Transmission
from cnc.account.judge import Judge, Mixed, Told
from cnc.account.violation import Violation
from cnc.account.wire import access_ns
from cnc.mechanisms.cbs.judged import Reckoned, Unbounded
from cnc.mechanisms.cbs.model import IdleSlopes
from cnc.model import Intent, Plan, PortRef, Shaper, StreamPlan, TalkerInterference


def _times(
    plan: Plan, _told: Told, _transmissions: Sequence[Transmission], _added: AddedOctets
) -> Iterator[Violation]:
    """Which streams leave by another shaper than their class, find no room, or are late."""
    shaped: dict[str, StreamPlan] = {}
    is_whole = True
    for name, planned in plan.streams.items():
        if (stream := plan.intent.streams.get(name)) is None:
            continue
        expected = plan.intent.shaper_of(stream)
        if planned.shaper is not expected:
            text = f"has {planned.shaper or 'instants'}, its class {expected or 'instants'}"
            yield Violation("shaper", name, text)
            is_whole = False
        elif expected and any(hop.offset_ns or hop.window_ns for hop in planned.hops):
            yield Violation("shaper", name, "has instants, and its class has none")
        if planned.shaper:
            shaped[name] = planned
    if not all(_arrives(plan.intent, name, its) for name, its in shaped.items()):
        return  # which the rules for ways report
    yield from _slopes(plan, shaped)
    if shaped and is_whole:
        yield from _latencies(plan, shaped)


def _arrives(intent: Intent, name: str, planned: StreamPlan) -> bool:
    """Whether the ways of a stream lead from its talker to all listeners."""
    stream, links = intent.streams[name], intent.network.links
    reached = {stream.talker}
    for hop in planned.hops:
        if hop.egress not in links or hop.egress.node not in reached:
            return False
        reached.add(links[hop.egress].target.node)
    return reached.issuperset(stream.listeners)


def _slopes(plan: Plan, shaped: dict[str, StreamPlan]) -> Iterator[Violation]:
    """Ports without the idle slope that a class of theirs needs, or with one for none."""
    bridges, classes = plan.intent.network.bridges, plan.intent.classes.values()
    needed = {
        (hop.egress, plan.class_of(name).number)
        for name, its in shaped.items()
        if its.shaper is Shaper.CREDIT
        for hop in its.hops
        if hop.egress.node in bridges
    }
    found = {
        (port, number): slope
        for port, slopes in plan[IdleSlopes].by_port.items()
        for number, slope in slopes.items()
    }
    least = {its.number: its.idle_slope_bps for its in classes}
    for port, number in sorted(needed | found.keys()):
        slope_bps = found.get((port, number))
        if slope_bps is None:
            text = f"has no idle slope for traffic class {number}, by which streams leave"
            yield Violation("idle-slope", str(port), text)
            continue
        link = plan.intent.network.links.get(port)
        if (port, number) not in needed or link is None:
            text = f"has an idle slope for traffic class {number}, by which no stream leaves"
            yield Violation("idle-slope", str(port), text)
        elif not max(least.get(number, 0), 1) <= slope_bps < link.rate_bps:
            text = (
                f"has an idle slope of {slope_bps} bit/s for traffic class {number}, expected "
                f"{least.get(number, 0)} at least, and less than {link.rate_bps}"
            )
            yield Violation("idle-slope", str(port), text)


def _mixed(before: Plan, after: Plan, silent: Collection[str]) -> Iterator[Violation]:
    """What may break a promise while ports go by the slopes and lists of either plan."""
    yield from _grafted(before, after, silent)
    sent = {name: its for name, its in before.streams.items() if name not in silent}
    shaped = {name: its for name, its in sent.items() if its.shaper}
    for name, planned in shaped.items():
        its = after.streams.get(name)
        if its is None or its.paths != planned.paths:
            text = "is sent until its talker stops, and what follows does not count it on its way"
            yield Violation("mixture", name, text)
            return
    talkers = {before.intent.streams[name].talker for name in shaped}
    for name, planned in sent.items():
        its, talker = after.streams.get(name), before.intent.streams[name].talker
        if talker in talkers and planned.has_instants and its and its.paths != planned.paths:
            text = f"may be sent at both of its places, beside streams with a shaper of {talker}"
            yield Violation("mixture", name, text)
            return
    streams = {name: its for name, its in before.intent.streams.items() if name not in silent}
    going = replace(before, intent=replace(before.intent, streams=streams), streams=sent)
    yield from _latencies(going, shaped, beside=after)


def _grafted(before: Plan, after: Plan, silent: Collection[str]) -> Iterator[Violation]:
    """Ports where the kernel empties its queues, as a class gets a shaper or loses it: frames of
    others may wait there (taprio_graft of Linux 6.12)."""
    used = {
        hop.egress for name, i in before.streams.items() if name not in silent for hop in i.hops
    }
    one, other = before[IdleSlopes].by_port, after[IdleSlopes].by_port
    for port in sorted(used & (one.keys() | other.keys())):
        if one.get(port, {}).keys() != other.get(port, {}).keys():
            text = "empties its queues as a class gets or loses its shaper, and others leave by it"
            yield Violation("mixture", str(port), text)


def _latencies(
    plan: Plan, shaped: dict[str, StreamPlan], beside: Plan | None = None
) -> Iterator[Violation]:
    access_by_port = {}
    for port in {its.hops[0].egress for its in shaped.values()}:
        yield from _beside(plan, port)
        if (until_ns := access_ns(plan, port)) is None:
            yield Violation("talker", str(port), "its talker has more to send than the link sends")
            return
        access_by_port[port] = until_ns
    found = Reckoned(plan, beside).latencies_ns(access_by_port)
    if isinstance(found, Unbounded):
        yield Violation("unbounded", str(found.where), found.text)
        return
    for name, latency_ns in found.items():
        worst_ns = -(-latency_ns // 1)
        if worst_ns > shaped[name].latency_bound_ns:
            said_ns = shaped[name].latency_bound_ns
            text = f"may take {worst_ns} ns, the plan says {said_ns} ns at most"
            yield Violation("bound", name, text)
        if worst_ns > (allowed_ns := plan.intent.streams[name].max_latency_ns):
            text = f"may take {worst_ns} ns, its max-latency is {allowed_ns} ns"
            yield Violation("deadline", name, text)


def _beside(plan: Plan, port: PortRef) -> Iterator[Violation]:
    """Planned frames of a talker wait for one frame with a shaper at most, and that is planned."""
    talker = plan.intent.network.end_stations.get(port.node)
    leaving = [(name, its) for name, its in plan.streams.items() if its.hops[0].egress == port]
    highest = max(its.hops[0].traffic_class for _, its in leaving if its.shaper)
    for name, its in leaving:
        if not its.has_instants or name not in plan.intent.streams:
            continue
        if talker is None or talker.interference is TalkerInterference.NONE:
            text = "waits for no frame of its talker by its plan, which has some of no instant"
            yield Violation("talker", name, text)
        elif its.hops[0].traffic_class < highest:
            text = f"goes behind all frames of traffic class {highest} at its talker"
            yield Violation("talker", name, text)


# Bounds depend on each other, but for plans without any (`is_same_ground` of the judge).
JUDGE = Judge(times=_times, is_local=True, mixed=Mixed(IdleSlopes, _mixed))
