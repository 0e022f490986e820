"""Frames while one plan of a bridged network takes the place of another: do they go where either
plan says, and does none go in circles?

The judge walks the frames of both plans through what the switches are told in between. Where an
address has other ways in the two plans, switches that have committed and switches that have not
forward side by side for a while, in any mixture. So no circle may exist that some switches close by
the one plan, and the others by the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from cnc.account.violation import Violation
from cnc.check.forwarding import judge_forwarding
from cnc.check.mechanisms import tables
from cnc.errors import PlanRejected
from cnc.mechanisms.composition import bridge_forwardings, parts_of_streams
from cnc.model import BridgeForwarding, Forwarding, Link, Plan, PortRef, StreamAddress
from cnc.plans.transition import Transition, joined


def judge_transition(plan: Plan, former: Plan, between: Transition) -> list[Violation]:
    """Everything wrong with what the switches of `plan` are told beside it of `former`."""
    networks = plan.intent.network, former.intent.network
    if any(each.forwarding is Forwarding.ROUTED for each in networks):
        return []
    told = bridge_forwardings(plan)
    told |= {name: joined(told[name], its) for name, its in between.former.items()}
    violations = list(_too_many(plan, told, between.former))
    violations += _of_ways(plan, told)
    moved = {name: former.streams[name] for name in between.moved}
    addresses = {name: former.addresses[name] for name in between.moved}
    before = replace(former, streams=moved, addresses=addresses)
    # Switches that left the network go on as they were told. Of mechanisms there is what streams
    # need that move; the rest, such as translations of untagged frames, is judged with `plan`.
    moving = frozenset(addresses.values())
    beside = {
        name: replace(its, parts=parts_of_streams(its, moving))
        for name, its in (bridge_forwardings(former) | told).items()
    }
    violations += _of_ways(before, beside)
    return [*violations, *_circles(plan, former)]


def require_sound_transition(plan: Plan, former: Plan | None, between: Transition) -> None:
    """Raise PlanRejected with all violations on the way from `former`, the plan that runs."""
    if former and (violations := judge_transition(plan, former, between)):
        lines = "\n".join(f"  {each.code} {each.where}: {each.text}" for each in violations)
        raise PlanRejected(
            f"the judge refuses the change from the plan that runs:\n{lines}",
            hint="raise filtering-entries-max, or stream-filters-max, where the switch holds more; "
            "or remove the streams that are rerouted, push, and push them again",
        )


def _too_many(
    plan: Plan, told: Mapping[str, BridgeForwarding], former: Mapping[str, BridgeForwarding]
) -> Iterator[Violation]:
    for name, its in former.items():
        limit, count = (
            plan.intent.network.bridges[name].filtering_entries_max,
            len(told[name].entries),
        )
        if count > limit:
            text = (
                f"needs {count} filtering entries until the streams that move have moved, "
                f"{len(its.entries)} of them for their previous paths, and holds {limit}"
            )
            yield Violation("filtering-entries", name, text)
        for table in tables(plan, name, told[name]):
            if table.is_too_small:
                text = (
                    f"needs {table.entries} {table.what} until the streams that move have moved, "
                    f"and holds {table.holds}"
                )
                yield Violation(table.code, name, text)


def _of_ways(plan: Plan, told: Mapping[str, BridgeForwarding]) -> list[Violation]:
    """What is wrong with the ways of a plan's frames; how many entries there are is told before."""
    its = {name: told[name] for name in plan.intent.network.bridges}
    return [each for each in judge_forwarding(plan, its) if each.code != "filtering-entries"]


def _circles(plan: Plan, former: Plan) -> Iterator[Violation]:
    """The addresses with other ways in the two plans, where a mixture of both has a circle."""
    links = {**former.intent.network.links, **plan.intent.network.links}
    before, after = _leaving(former), _leaving(plan)
    users = plan.streams_by_address()
    for name, address in former.addresses.items():
        if address not in users or before[address] == after[address]:
            continue
        leaving: defaultdict[str, set[str]] = defaultdict(set)
        for port in before[address] | after[address]:
            leaving[port.node].add(port.port)
        talkers = {plan.intent.streams[user].talker for user in users[address]}
        talkers.add(former.intent.streams[name].talker)
        if at := _circle(links, leaving, talkers):
            text = (
                f"could leave {at} again and again while some switches have committed its new path "
                "and others have not"
            )
            yield Violation("forwarding-loop", " and ".join(users[address]), text)


def _leaving(plan: Plan) -> dict[StreamAddress, set[PortRef]]:
    """By address the ports of all its filtering entries."""
    found: defaultdict[StreamAddress, set[PortRef]] = defaultdict(set)
    for switch, its in bridge_forwardings(plan).items():
        for address, ports in its.entries.items():
            found[address].update(PortRef(switch, port) for port in ports)
    return found


def _circle(
    links: Mapping[PortRef, Link], leaving: Mapping[str, set[str]], talkers: Collection[str]
) -> PortRef | None:
    """A port to which frames may come back; None if there is none. Every switch sends frames on by
    all ports that are `leaving` there but the one that they came by."""

    def onward(port: PortRef) -> Iterator[PortRef]:
        ingress = links[port].target
        for name in sorted(leaving.get(ingress.node, ())):
            egress = PortRef(ingress.node, name)
            if name != ingress.port and egress in links:
                yield egress

    done: set[PortRef] = set()
    for start in sorted(port for port in links if port.node in talkers):
        under_way = {start: onward(start)}
        while under_way:
            port, others = next(reversed(under_way.items()))
            following = next(others, None)
            if following is None:
                done.add(port)
                del under_way[port]
            elif following in under_way:
                return following
            elif following not in done:
                under_way[following] = onward(following)
    return None
