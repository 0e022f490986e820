"""Random changes of random plans: does the judge of a change say what the judge says?

    python -m tests.simulator.changes --events 10000
    python -m tests.simulator.changes --events 500 --walk shaped

A walk goes from one sound plan to the next, as streams are added and removed by a live plan or
planned around those that stay. At each of them it tries plans with something broken by hand, which
the walk does not follow. Both judges are asked of each plan. A line names each event in which they
differ, or in which the whole plan was judged although it is sound and no more than streams and
lists have changed; the last line counts all. Exit code: 0 there is none, 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple
from unittest import mock

from cnc.check import Violation, judge, whole
from cnc.check.change import Judged
from cnc.check.change.differences import is_same_ground
from cnc.errors import Unschedulable
from cnc.mechanisms.stream_filters.model import FilterCapacity, Policing, PolicingRules
from cnc.model import (
    ClassRole,
    Elimination,
    EndStation,
    Forwarding,
    Intent,
    IpIdentification,
    Plan,
    PortRef,
    Stream,
    StreamAddress,
    Windows,
)
from cnc.planner import Budget, plan
from tests.simulator.mutations import mutated, with_stream
from tests.unit.planner_fuzz import (
    DISTURBANCES_NS,
    SHORT_LISTS,
    live_plans,
    random_intent,
    shaped_plans,
)
from tests.unit.planner_networks import US, seeded, with_streams

_STEPS = 8  # of a walk around streams that stay
_BROKEN = 3  # plans at each step
_BUDGET = Budget(ejections=50)


class Event(NamedTuple):
    """`kind` is what was done to the plan before."""

    kind: str
    plan: Plan
    is_followed: bool


def walk(seed: int, kind: str | None = None) -> Iterator[Event]:
    """Sound plans, each by a small change from the one before, and broken ones beside them; of a
    kind, or of any."""
    random = seeded(seed)
    kind = kind or random.choice(sorted(WALKS))
    for planned in WALKS[kind](seed):
        yield Event(kind, planned, is_followed=True)
        for _ in range(_BROKEN if planned.streams else 0):
            by, broken = _broken(planned, random)
            yield Event(by, broken, is_followed=False)


def outcomes(seed: int, kind: str | None = None) -> Iterator[tuple[str, str]]:
    """The kind of each event of a walk, and "sound", "refused" or what is wrong."""
    judged: Judged | None = None
    wholly: list[Plan] = []

    def counted(its: Plan) -> object:
        wholly.append(its)
        return whole.judgement(its)

    with mock.patch("cnc.check.change.judgement", counted):
        for event in walk(seed, kind):
            if judged is None:
                judged = Judged(event.plan)
                if judged.violations:
                    return
                continue
            before = judged.plan
            wholly.clear()
            found = judged.after(event.plan)
            yield event.kind, _outcome(found, event.plan, before, is_whole=bool(wholly))
            if not event.is_followed and not found:  # back, by another change
                wholly.clear()
                found = judged.after(before)
                yield "back", _outcome(found, before, event.plan, is_whole=bool(wholly))


def _outcome(found: list[Violation], its: Plan, before: Plan, *, is_whole: bool) -> str:
    expected = judge(its)
    if sorted(found) != sorted(expected):
        missed, more = set(expected) - set(found), set(found) - set(expected)
        return f"WRONG: the judge finds {[*missed][:3]} as well, and not {[*more][:3]}"
    if found:
        return "refused"
    if is_whole and is_same_ground(before, its):
        return "WRONG: sound, and judged whole"
    return "sound"


# --- walks ----------------------------------------------------------------------------------------


def _live(seed: int) -> Iterator[Plan]:
    yield from live_plans(seed)


def _around(seed: int, ask: Callable[[Intent, Random], Intent]) -> Iterator[Plan]:
    """Plans with and without some streams, around all the others."""
    random = seeded(~seed)
    wanted = ask(random_intent(seed, entries_max=(0, 0, *SHORT_LISTS, 64)), random)
    margin_ns = max(wanted.network.gate_margin_ns, random.choice((0, 0, 2 * US)))
    wanted = replace(wanted, network=replace(wanted.network, gate_margin_ns=margin_ns))
    running: Plan | None = None
    present = {name for name in wanted.streams if random.random() < 0.6}
    for _ in range(_STEPS):
        asked = with_streams(wanted, *(its for n, its in wanted.streams.items() if n in present))
        try:
            running = plan(asked, keep=running, best_effort=True, budget=_BUDGET)
        except Unschedulable:
            return
        yield running
        present = present.symmetric_difference(random.sample(sorted(wanted.streams), 1))


def _moving(seed: int) -> Iterator[Plan]:
    """Plans in which a stream is wanted at another time, or finds a cable cut, which all others
    use as before."""
    random = seeded(~seed)
    wanted = random_intent(seed)
    wanted = _bridged(wanted, random) if random.random() < 0.5 else wanted
    network, running = wanted.network, None
    cables = [its.source for its in network.links.values() if its.target.node in network.bridges]
    cables = [port for port in cables if port.node in network.bridges]
    for _ in range(_STEPS):
        name = random.choice(sorted(wanted.streams))
        its = replace(
            wanted.streams[name], earliest_ns=random.choice((0, 100 * US)), latest_ns=None
        )
        wanted = with_streams(wanted, *({**wanted.streams, name: its}.values()))
        cut = random.choice(cables) if cables and random.random() < 0.5 else None
        links = {
            port: link for port, link in network.links.items() if cut not in {port, link.target}
        }
        asked = replace(wanted, network=replace(network, links=links))
        try:
            running = plan(asked, keep=running, best_effort=True, budget=_BUDGET)
        except Unschedulable:
            return
        yield replace(running, intent=replace(running.intent, network=network))


def _recovering(wanted: Intent, random: Random) -> Intent:
    network = replace(wanted.network, disturbance_ns=random.choice(DISTURBANCES_NS))
    return replace(wanted, network=network)


def _sharing(wanted: Intent, random: Random) -> Intent:
    asked = random.choice(((Windows.SHARED,), tuple(Windows)))
    streams = [replace(each, windows=random.choice(asked)) for each in wanted.streams.values()]
    network = replace(
        wanted.network,
        gate_margin_ns=random.choice((0, 500, 10 * US, 50 * US)),
        disturbance_ns=random.choice((None, *DISTURBANCES_NS)),
    )
    return with_streams(replace(wanted, network=network), *streams)


def _steady(wanted: Intent, random: Random) -> Intent:
    streams = (
        replace(each, max_jitter_ns=each.max_latency_ns // random.choice((2, 4)))
        for each in wanted.streams.values()
    )
    return with_streams(wanted, *streams)


def _bridged(wanted: Intent, random: Random) -> Intent:
    network = wanted.network
    stations = {
        name: EndStation(name, mac=f"02:00:00:00:00:{number:02x}")
        for number, name in enumerate(network.end_stations)
    }
    bridges = {
        name: replace(its, filtering_entries_max=random.choice((3, 6, 2048)))
        for name, its in network.bridges.items()
    }
    network = replace(
        network,
        forwarding=Forwarding.BRIDGED,
        end_stations=stations,
        bridges=bridges,
        disturbance_ns=random.choice((None, None, 100 * US)),
    )
    rules = PolicingRules(
        random.choice((None, *Policing)),
        {"cyclic": random.choice((*Policing,))} if random.random() < 0.5 else {},
        {name: random.choice((*Policing,)) for name in wanted.streams if random.random() < 0.3},
    )
    capacity = FilterCapacity({name: random.choice((4, 8, 1024)) for name in bridges})
    streams = [
        _bridged_stream(each, number, random) for number, each in enumerate(wanted.streams.values())
    ]
    asked = replace(wanted, network=network).having(rules, capacity)
    return with_streams(asked, *streams)


def _bridged_stream(its: Stream, number: int, random: Random) -> Stream:
    if its.paths == 2:
        return replace(its, elimination=random.choice((*Elimination,)))
    if len(its.listeners) == 1 and random.random() < 0.3:
        return replace(its, identification=IpIdentification(f"192.0.2.{number}"), ip_version=4)
    return its


WALKS: dict[str, Callable[[int], Iterator[Plan]]] = {
    "live": _live,
    "bridged": lambda seed: _around(seed, _bridged),
    "moving": _moving,
    "shaped": shaped_plans,
    "recovering": lambda seed: _around(seed, _recovering),
    "sharing": lambda seed: _around(seed, _sharing),
    "steady": lambda seed: _around(seed, _steady),
}


# --- what is broken -------------------------------------------------------------------------------


def _broken(planned: Plan, random: Random) -> tuple[str, Plan]:
    if planned.gates and random.random() < 0.5:
        return mutated(planned, random.randrange(1 << 30))
    kind = random.choice(sorted(_KINDS))
    return kind, _KINDS[kind](planned, random)


def _on_its_neighbour(planned: Plan, random: Random) -> Plan:
    """A stream leaves its talker, or a switch, when another one does there."""
    name, port, index = _hop(planned, random)
    others = [h for its in planned.streams.values() for h in its.hops if h.egress == port]
    hops = list(planned.streams[name].paths[0])
    hops[index] = replace(hops[index], offset_ns=random.choice(others).offset_ns)
    return with_stream(
        planned,
        name,
        replace(planned.streams[name], paths=(tuple(hops), *planned.streams[name].paths[1:])),
    )


def _hop(planned: Plan, random: Random) -> tuple[str, PortRef, int]:
    name = random.choice(sorted(planned.streams))
    path = planned.streams[name].paths[0]
    index = random.randrange(len(path))
    return name, path[index].egress, index


def _astray(planned: Plan, random: Random) -> Plan:
    """A hop by another port of its node, or by one that does not exist."""
    name, port, index = _hop(planned, random)
    links = planned.intent.network.links
    ports = [other for other in links if other.node == port.node] + [PortRef(port.node, "none")]
    hops = list(planned.streams[name].paths[0])
    hops[index] = replace(hops[index], egress=random.choice(sorted(ports)))
    rest = planned.streams[name].paths[1:]
    return with_stream(planned, name, replace(planned.streams[name], paths=(tuple(hops), *rest)))


def _unplanned(planned: Plan, random: Random) -> Plan:
    """A stream of the intent has no place; its frames' windows are still open."""
    name = random.choice(sorted(planned.streams))
    return replace(planned, streams={n: i for n, i in planned.streams.items() if n != name})


def _unwanted(planned: Plan, random: Random) -> Plan:
    """A stream of the plan is none of the intent."""
    name = random.choice(sorted(planned.streams))
    streams = {n: its for n, its in planned.intent.streams.items() if n != name}
    return replace(planned, intent=replace(planned.intent, streams=streams))


def _refused_too(planned: Plan, random: Random) -> Plan:
    return replace(planned, refused={random.choice(sorted(planned.streams)): "by hand"})


def _gone(planned: Plan, random: Random) -> Plan:
    """A stream goes, and all of its but the lists."""
    name = random.choice(sorted(planned.streams))
    streams = {n: its for n, its in planned.intent.streams.items() if n != name}
    parts: dict[str, Any] = {
        key: {n: its for n, its in getattr(planned, key).items() if n != name}
        for key in ("streams", "recovery_ns", "addresses", "jitter_ns")
    }
    return replace(planned, intent=replace(planned.intent, streams=streams), **parts)


def _other_period(planned: Plan, random: Random) -> Plan:
    """One that the hyperperiod has not, or that goes with no list."""
    name = random.choice(sorted(planned.intent.streams))
    its = planned.intent.streams[name]
    period_ns = random.choice((its.period_ns * 2, its.period_ns * 7, 999_983 * US))
    streams = {**planned.intent.streams, name: replace(its, period_ns=period_ns)}
    return replace(planned, intent=replace(planned.intent, streams=streams))


def _other_address(planned: Plan, random: Random) -> Plan:
    """That of another stream, one that no stream may have, or none."""
    if not planned.addresses:
        name = random.choice(sorted(planned.streams))
        return replace(planned, addresses={name: StreamAddress("03:54:53:4e:00:00", 2)})
    name = random.choice(sorted(planned.addresses))
    kind = random.choice(("other", "reserved", "vlan", "station", "none"))
    if kind == "none":
        kept = {n: its for n, its in planned.addresses.items() if n != name}
        return replace(planned, addresses=kept)
    its = planned.addresses[name]
    address = {
        "other": planned.addresses[random.choice(sorted(planned.addresses))],
        "reserved": replace(its, destination_mac="01:80:c2:00:00:0e"),
        "vlan": replace(its, vlan_id=random.choice((1, 3, 4095))),
        "station": replace(
            its, destination_mac=random.choice(("02:11:22:33:44:55", "03:11:22:33:44:66"))
        ),
    }[kind]
    return replace(planned, addresses={**planned.addresses, name: address})


def _known_by_another(planned: Plan, random: Random) -> Plan:
    """A talker's untagged frames look like those of another stream."""
    known = [its for its in planned.intent.streams.values() if its.identification is not None]
    name = random.choice(sorted(planned.intent.streams))
    its = random.choice(known).identification if known else IpIdentification("192.0.2.1")
    changed = replace(planned.intent.streams[name], identification=its, ip_version=4)
    streams = {**planned.intent.streams, name: changed}
    return replace(planned, intent=replace(planned.intent, streams=streams))


def _promised(key: str) -> Callable[[Plan, Random], Plan]:
    """A bound of recovery or jitter that is understated, made up or forgotten."""

    def change_it(planned: Plan, random: Random) -> Plan:
        name = random.choice(sorted(planned.streams))
        stated = dict(getattr(planned, key))
        kind = random.choice(("less", "none", "new"))
        if kind == "none":
            stated.pop(name, None)
        elif key == "recovery_ns":
            stated[name] = stated.get(name, 10_000) // 2 if kind == "less" else 1 << 40
        else:
            listener = planned.intent.streams[name].listeners[0]
            stated[name] = {listener: 10 if kind == "less" else 1 << 40}
        changed: dict[str, Any] = {key: stated}
        return replace(planned, **changed)

    return change_it


def _earlier_openings(planned: Plan, random: Random) -> Plan:
    """Where control alone may be sent on some ports, scheduled classes may as well: frames leave
    early, and come so to the next port."""
    scheduled = planned.intent.classes_with(ClassRole.SCHEDULED)
    opened = sum(1 << c.number for c in scheduled if random.random() < 0.7)
    shut = sum(1 << c.number for c in planned.intent.classes_with(ClassRole.BEST_EFFORT))
    shut |= sum(1 << c.number for c in scheduled)
    gates = dict(planned.gates)
    for port in [port for port in sorted(gates) if random.random() < 0.4]:
        entries = tuple(
            its if its.gate_states & shut else replace(its, gate_states=its.gate_states | opened)
            for its in gates[port].entries
        )
        gates[port] = replace(gates[port], entries=entries)
    return replace(planned, gates=gates)


_KINDS: dict[str, Callable[[Plan, Random], Plan]] = {
    "on its neighbour": _on_its_neighbour,
    "astray": _astray,
    "earlier openings": _earlier_openings,
    "unplanned": _unplanned,
    "unwanted": _unwanted,
    "refused too": _refused_too,
    "gone": _gone,
    "other period": _other_period,
    "other address": _other_address,
    "known by another": _known_by_another,
    "recovery": _promised("recovery_ns"),
    "jitter": _promised("jitter_ns"),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first walk")
    parser.add_argument("--walk", choices=sorted(WALKS), help="its kind, by default any")
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    seed = options.seed
    while counts.total() < options.events:
        for kind, outcome in outcomes(seed, options.walk):
            counts[outcome.split(":")[0]] += 1
            if outcome.startswith("WRONG"):
                print(f"walk {seed}: {kind}: {outcome}", flush=True)
        seed += 1
    print(f"{counts.total()} events of {seed - options.seed} walks: {dict(sorted(counts.items()))}")
    return 1 if counts["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
