"""Random networks that the lab can emulate, with plans, bursts and overload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from cnc.model import Intent, Link, Network, Plan, PortRef
from cnc.testbed.traffic.flows import Flow as Sent
from cnc.testbed.traffic.flows import flows
from tests.simulator.adversary import Adversary, Busy, Nobody
from tests.simulator.motion import Motion
from tests.simulator.outcome import list_of
from tests.simulator.ports import Flow, Frame
from tests.simulator.taprio import TaprioPort, lab_times

_PERIODS_US = (500, 1000, 2000)
_PATIENCE_NS = 1_000_000_000  # as long as the lab's listeners wait
_TC_DELAY_NS, _TC_TICK_NS = 1000, 64
_LATE_NS = (
    2 * 256
)  # events: in virtual time each of several programs' reads of a clock takes 256 ns
_BUSY_RUNS = 7
_CONTROL_DSCP, _CYCLIC_DSCP, _SLOWER_DSCP = 48, 46, 40


def random_document(seed: int) -> dict[str, Any]:
    """An intent of one to four switches in a line or a star, as the operator's text."""
    random = Random(seed)  # noqa: S311  not for secrets
    switches = [f"s{number}" for number in range(1, random.randint(1, 4) + 1)]
    star = random.random() < 0.5
    trunks = [
        (switches[0] if star else switches[index], other)
        for index, other in enumerate(switches[1:])
    ]
    stations = {f"e{number}": random.choice(switches) for number in range(random.randint(3, 6))}
    ports: dict[str, list[str]] = {name: [] for name in switches}
    links = []
    for one, other in trunks:
        ports[one].append(other)
        ports[other].append(one)
        links.append([f"{one}/{other}", f"{other}/{one}"])
    for station, switch in stations.items():
        ports[switch].append(station)
        links.append([f"{station}/eth0", f"{switch}/{station}"])
    return {
        "name": f"sim{seed}",
        "defaults": {
            "rate": random.choice(("1Gbps", "1Gbps", "100Mbps")),
            "propagation": "128ns",
            "processing": {"min": "1024ns", "max": "5us"},
            "clock-error": random.choice(("0ns", "500ns")),
            "gate-margin": random.choice(("0ns", "2us")),
            "gates": "software",
            "user": "tsn",
        },
        "classes": {
            "control": {
                "traffic-class": 7,
                "priority": 7,
                "role": "control",
                "dscp": _CONTROL_DSCP,
                "max-frame": "128B",
            },
            "cyclic": _scheduled(6, _CYCLIC_DSCP),
            "slower": _scheduled(4, _SLOWER_DSCP),
            "best-effort": {
                "traffic-class": 0,
                "priority": 0,
                "dscp": 0,
                "role": "best-effort",
            },
        },
        "switches": {
            name: {"management": f"10.99.0.{number}", "ports": ports[name]}
            for number, name in enumerate(switches, 1)
        },
        "end-stations": list(stations),
        "links": links,
        "streams": {
            f"f{number}": _stream(random, list(stations)) for number in range(random.randint(3, 10))
        },
    }


def _scheduled(number: int, dscp: int) -> dict[str, Any]:
    return {"traffic-class": number, "priority": number, "dscp": dscp, "role": "scheduled"}


def _stream(random: Random, stations: list[str]) -> dict[str, Any]:
    talker, listener = random.sample(stations, 2)
    return {
        "talker": talker,
        "listeners": [listener],
        "class": random.choice(("cyclic", "slower")),
        "period": f"{random.choice(_PERIODS_US)}us",
        "payload": f"{random.choice((64, 200, 700, 1400))}B",
        "max-latency": "2ms",
        "ip": random.choice((4, 6)),
    }


def offered(plan: Plan, seed: int, duration_ns: int) -> list[Sent]:
    """The streams at their times, best effort beyond what a cable holds, and bursts of control."""
    random = Random(seed)  # noqa: S311  not for secrets
    intent = plan.intent
    in_intent = (flow for flow in flows(plan) if flow.name in plan.streams)
    sent = [flow for flow in in_intent if isinstance(flow, Sent)]  # the networks are routed
    stations = sorted(intent.network.end_stations)
    rate = min(link.rate_bps for link in intent.network.links.values())

    def send(talker: str, dscp: int, octets: int, period_ns: int, offset_ns: int) -> None:
        listener = random.choice([station for station in stations if station != talker])
        name, number = f"{len(sent)} from {talker}", _class_of(dscp)
        sent.append(
            Sent(name, talker, listener, number, 6, dscp, octets, period_ns, offset_ns, None)
        )

    for talker in stations:
        octets = random.choice((200, 600, 1000, 1400))
        share = random.choice((0.2, 0.5, 0.7))
        period = round(octets * 8 * 10**9 / rate / share)
        send(talker, 0, octets, period, random.randrange(period))
    for talker in (*stations, *sorted(intent.network.bridges)):
        begin = random.randrange(duration_ns // 2)
        dscp = random.choice((0, _CYCLIC_DSCP, _CONTROL_DSCP, _CONTROL_DSCP))
        for number in range(random.choice((5, 20))):
            send(talker, dscp, 106, duration_ns, begin + 20 * number)
    return sent


def _class_of(dscp: int) -> int:
    return {_CONTROL_DSCP: 7, _CYCLIC_DSCP: 6, _SLOWER_DSCP: 4}.get(dscp, 0)


@dataclass(frozen=True, slots=True)
class Expected:
    """When a frame arrives by several runs of the simulator; None for never.

    The runs differ in how late, up to two readings of a clock, each event was dealt with: frames
    sent or passed on, gates moved. Where frames of several ports meet, at the end of a window or of
    a budget, that decides about more than itself, and about all that waits behind.
    """

    times_ns: tuple[int | None, ...]

    def is_decided(self, tolerance_ns: int) -> bool:
        """Whether the simulator states one time, give or take the tolerance."""
        if None in self.times_ns:
            return set(self.times_ns) == {None}
        times = self._known_ns()
        return max(times) - min(times) <= tolerance_ns

    def allows(self, received_ns: int | None, tolerance_ns: int) -> bool:
        """Whether a frame came between the earliest time and the latest, or rightly never."""
        if received_ns is None:
            return None in self.times_ns
        times = self._known_ns()
        return bool(times) and min(times) - tolerance_ns <= received_ns <= max(times) + tolerance_ns

    def _known_ns(self) -> list[int]:
        return [each for each in self.times_ns if each is not None]


def expected(
    plan: Plan, sent: Sequence[Sent], frames: Sequence[tuple[str, int, int]]
) -> dict[tuple[str, int], Expected]:
    """When frames (flow, number, time of sending) arrive in the lab, by flow and number."""
    times: defaultdict[tuple[str, int], list[int | None]] = defaultdict(list)
    for seed in range(1 + _BUSY_RUNS):
        late = Busy(seed, _LATE_NS) if seed else Nobody()
        put = [(flow, number, at + late.lateness_ns(_LATE_NS)) for flow, number, at in frames]
        arrived = arrivals(plan, sent, put, late)
        for flow, number, _ in frames:
            times[flow, number].append(arrived.get((flow, number)))
    return {frame: Expected(tuple(each)) for frame, each in times.items()}


def arrivals(
    plan: Plan,
    sent: Iterable[Sent],
    frames: Iterable[tuple[str, int, int]],
    adversary: Adversary,
) -> dict[tuple[str, int], int]:
    """When frames (flow, number, time of sending) arrive in one run, by flow and number."""
    intent = replace(plan.intent, network=_emulated(plan.intent.network))
    times = lab_times(intent)
    known = {each.name: _as_flow(intent, each) for each in sent}

    def port(link: Link) -> TaprioPort:
        return TaprioPort(intent, link, list_of(plan, link.source), adversary)

    def last_bit_ns(flow: Flow, link: Link) -> int:
        return times.last_bit_ns(flow.payload_octets, link.rate_bps)

    put = []
    for name, number, time_ns in frames:
        flow = known[name]
        (link,) = flow.ports[flow.talker]
        put.append((time_ns, link, Frame(flow, number, time_ns)))
    end = max(time for time, _, _ in put) + _PATIENCE_NS
    record = Motion(intent.network, adversary, port, last_bit_ns).run(put, end)
    return {
        (each.frame.flow.name, each.frame.number): each.frame.begin_ns + each.latency_ns
        for each in record.arrivals
    }


def _emulated(network: Network) -> Network:
    """The network with the delays that tc gives cables of the lab: whole microseconds of
    propagation and least processing together, in its ticks."""
    links = {}
    for port, link in network.links.items():
        bridge = network.bridges.get(link.target.node)
        delay = link.propagation_ns + (bridge.processing_min_ns if bridge else 0)
        delay -= delay % _TC_DELAY_NS
        links[port] = replace(link, propagation_ns=delay - delay % _TC_TICK_NS)
    bridges = {n: replace(each, processing_min_ns=0) for n, each in network.bridges.items()}
    return replace(network, links=links, bridges=bridges)


def _as_flow(intent: Intent, sent: Sent) -> Flow:
    """On the only way there is: these networks are trees."""
    way = _way(intent, sent.talker, sent.listener, set())
    ports = {port.node: (intent.network.links[port],) for port in way or ()}
    listeners = frozenset({sent.listener})
    return Flow(sent.name, sent.talker, sent.traffic_class, sent.payload_octets, ports, listeners)


def _way(intent: Intent, node: str, end: str, seen: set[str]) -> list[PortRef] | None:
    if node == end:
        return []
    for port, link in intent.network.links.items():
        if port.node == node and link.target.node not in seen:
            rest = _way(intent, link.target.node, end, {*seen, node})
            if rest is not None:
                return [port, *rest]
    return None
