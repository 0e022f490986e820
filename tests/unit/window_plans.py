"""Plans by hand whose frames share windows: those of which tests speak, and any number of random
ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random

from cnc.check import judge
from cnc.model import (
    Bridge,
    EndStation,
    GateMode,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    Stream,
    TalkerInterference,
    TrafficClass,
)
from cnc.planner import plan
from tests.simulator.mutations import with_shorter_windows
from tests.simulator.windows import DoesNotFitError, Timetable, plan_by_hand
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CLASSES,
    CONTROL,
    CYCLIC,
    MS,
    SLOWER,
    US,
    cables,
    intent,
    network,
    seeded,
    stream,
)

WITHOUT_CONTROL = (CYCLIC, SLOWER, BEST_EFFORT)


def ways(wanted: Intent, closed: Collection[PortRef] = ()) -> dict[str, tuple[PortRef, ...]]:
    """The ports on the shortest ways of all streams, parents first, but for some."""
    links = wanted.network.links
    ports: dict[str, list[PortRef]] = {}
    for port in sorted(links.keys() - closed):
        ports.setdefault(port.node, []).append(port)
    found = {}
    for its in wanted.streams.values():
        came: dict[str, PortRef] = {}
        nodes = [its.talker]
        for node in nodes:
            if node != its.talker and node not in wanted.network.bridges:
                continue
            for port in ports[node]:
                target = links[port].target.node
                if target not in came and target != its.talker:
                    came[target] = port
                    nodes.append(target)
        used: dict[PortRef, None] = {}
        for listener in its.listeners:
            way = []
            node = listener
            while node != its.talker:
                way.append(came[node])
                node = came[node].node
            used |= dict.fromkeys(reversed(way))
        # Parents first: in the order in which the search came to them.
        found[its.name] = tuple(sorted(used, key=lambda port: nodes.index(port.node)))
    return found


def by_hand(wanted: Intent, slot_ns: int = MS, **choices: object) -> Plan:
    """The plan of all streams that have no exact one."""
    exact = choices.get("exact")
    placed = exact.streams if isinstance(exact, Plan) else {}
    theirs = {name: way for name, way in ways(wanted).items() if name not in placed}
    return plan_by_hand(wanted, Timetable(slot_ns, choices.pop("ways", theirs), **choices))


def wanted_by(
    net: Network,
    *streams: Stream,
    margin_ns: int = 0,
    classes: tuple[TrafficClass, ...] = CLASSES,
) -> Intent:
    return intent(replace(net, gate_margin_ns=margin_ns), *streams, classes=classes)


def batch(
    devices: int, *, clock_error_ns: int = 1000, spare_ns: int = 0, **choices: object
) -> Plan:
    """Devices that all send at the start of each period to one, through one switch."""
    net = network(*(f"d{n}-s1" for n in range(devices)), "s1-plc", clock_error_ns=clock_error_ns)
    streams = (stream(f"f{n}", f"d{n}", "plc", payload_octets=64) for n in range(devices))
    return by_hand(wanted_by(net, *streams, **choices), spare_ns=spare_ns)


def stored_batch(devices: int, *, spare_ns: int = 0, **choices: object) -> Plan:
    """The same by clocks that agree, with a window that opens when all frames are there."""
    wanted = batch(devices, clock_error_ns=0, **choices).intent
    latest = wanted.network.gate_margin_ns + 20 * US
    later = {(PortRef("s1", "plc"), CYCLIC.number): latest}
    return by_hand(wanted, later_ns=later, spare_ns=spare_ns)


def line(
    switches: int,
    streams: int,
    *,
    clock_error_ns: int = 1000,
    frames: int = 1,
    spare_ns: int = 0,
    **choices: object,
) -> Plan:
    """From talkers at each switch but the last to one listener behind the last."""
    net = network(
        *(f"s{n}-s{n + 1}" for n in range(1, switches)),
        *(f"t{n}-s{1 + n % (switches - 1)}" for n in range(streams)),
        f"s{switches}-l",
        clock_error_ns=clock_error_ns,
    )
    its = (stream(f"f{n}", f"t{n}", "l", frames=frames) for n in range(streams))
    return by_hand(wanted_by(net, *its, **choices), spare_ns=spare_ns)


def ring(
    switches: int,
    streams_each: int,
    *,
    spare_ns: int = 0,
    apart_ns: int = 0,
    **choices: object,
) -> Plan:
    """Around a ring one way, each over half of it: frames that pass from the last switch to the
    first go on in the next slot. From the last they leave so much later that they come there
    `apart_ns` after its windows opened."""
    names = [f"s{n}" for n in range(switches)]
    net = network(
        *(f"{one}-{other}" for one, other in pairwise([*names, names[0]])),
        *(f"t{n}x{m}-s{n}" for n in range(switches) for m in range(streams_each)),
        *(f"l{n}-s{n}" for n in range(switches)),
    )
    streams = [
        stream(
            f"f{n}x{m}", f"t{n}x{m}", f"l{(n + switches // 2) % switches}", max_latency_ns=3 * MS
        )
        for n in range(switches)
        for m in range(streams_each)
    ]
    wanted = wanted_by(net, *streams, **choices)
    around = ways(wanted, one_way(net))
    found = cuts(around, net)
    later = {(before, CYCLIC.number): apart_ns for before, _ in found}
    return by_hand(wanted, ways=around, cuts=found, later_ns=later, spare_ns=spare_ns)


def together(
    streams: int,
    *,
    frames: int = 1,
    clock_error_ns: int = 1000,
    spare_ns: int = 0,
    **choices: object,
) -> Plan:
    """Of one talker that starts to send all its streams at once."""
    net = network("t-s1", "s1-s2", "s2-l", clock_error_ns=clock_error_ns)
    its = (stream(f"f{n}", "t", "l", frames=frames) for n in range(streams))
    return by_hand(wanted_by(net, *its, **choices), spare_ns=spare_ns)


def slot_after_slot(streams: int) -> Plan:
    """Frames go one switch further in each slot, or as many as they can: the windows of all ports
    are at the same time, and longer than those that come in time need. With them goes one frame
    from a talker nearby."""
    switches, slot = [f"s{n}" for n in range(1, 6)], 800 * US
    net = network(
        *(f"{one}-{other}" for one, other in pairwise(switches)),
        *(f"a{n}-s1" for n in range(streams)),
        "b-s5",
        "s5-l",
        clock_error_ns=0,
        processing_ns=(1000, 450 * US),
    )
    facts = {"period_ns": slot, "max_latency_ns": 6 * slot}
    wanted = wanted_by(
        net,
        *(stream(f"a{n}", f"a{n}", "l", payload_octets=400, **facts) for n in range(streams)),
        stream("b", "b", "l", **facts),
        classes=WITHOUT_CONTROL,
    )
    ports = [*(PortRef(one, other) for one, other in pairwise(switches)), PortRef("s5", "l")]
    planned = by_hand(
        wanted,
        slot,
        cuts=list(pairwise(ports)),
        later_ns={(port, CYCLIC.number): slot // 2 for port in ports},
    )
    for hop in planned.streams["a0"].hops[2:-1]:
        less = hop.window_ns - 130 * US
        planned = with_shorter_windows(planned, hop.egress, CYCLIC.number, less)
    return planned


def two_goes(**choices: object) -> Plan:
    """More frames than the kernel sends from one opening, which opens when all are there."""
    net = network(*(f"d{n}-s1" for n in range(12)), "s1-plc", clock_error_ns=0)
    facts = {"period_ns": 4 * MS, "max_latency_ns": 4 * MS, "payload_octets": 46, "frames": 100}
    wanted = wanted_by(
        net, *(stream(f"f{n}", f"d{n}", "plc", **facts) for n in range(12)), **choices
    )
    return by_hand(wanted, 4 * MS, later_ns={(PortRef("s1", "plc"), CYCLIC.number): 200 * US})


def two_classes(**choices: object) -> Plan:
    """Windows of one class and then of another, on each port."""
    net = network(*(f"t{n}-s1" for n in range(4)), "s1-s2", "s2-l")
    streams = (
        stream(f"{name}{n}", f"t{n}", "l", traffic_classes=(name,), payload_octets=octets)
        for n in range(4)
        for name, octets in (("cyclic", 100), ("slower", 700))
    )
    return by_hand(wanted_by(net, *streams, **choices))


def beside_exact(**choices: object) -> Plan:
    """A window of one class, and later in the cycle frames of two classes with times of their
    own."""
    net = network(*(f"t{n}-s1" for n in range(6)), "s1-s2", "s2-l", clock_error_ns=100)
    sharing = [stream(f"f{n}", f"t{n}", "l") for n in range(6)]
    exact = [
        stream(f"exact-{name}", f"t{n}", "l", traffic_classes=(name,), earliest_ns=600 * US)
        for n, name in enumerate(("cyclic", "slower"))
    ]
    placed = plan(wanted_by(net, *exact, **choices))
    return by_hand(wanted_by(net, *sharing, *exact, **choices), exact=placed)


def early(**choices: object) -> Plan:
    """A window in which two frames of a stream may leave: that of its slot, which came late, and
    that of the next, which is there already when a frame from a talker nearby comes."""
    net = network("a-s1", "s1-s2", "b-s2", "s2-l", clock_error_ns=0)
    late = {"a": 100 * US, "b": 45 * US}
    stations = {
        name: replace(its, lateness_ns=late.get(name)) for name, its in net.end_stations.items()
    }
    slot = 250 * US
    facts = {"period_ns": slot, "max_latency_ns": 2 * slot}
    wanted = wanted_by(
        replace(net, end_stations=stations),
        stream("a", "a", "l", payload_octets=1500, **facts),
        stream("b", "b", "l", **facts),
        **choices,
    )
    last = PortRef("s2", "l"), CYCLIC.number
    return by_hand(wanted, slot, starts_ns={"b": slot - 1}, later_ns={last: 290 * US})


def passages(
    found: Mapping[str, tuple[PortRef, ...]], net: Network
) -> set[tuple[PortRef, PortRef]]:
    """From a port of one switch to one of the next."""
    return {
        (before, port)
        for way in found.values()
        for before in way
        for port in way
        if net.links[before].target.node == port.node and before.node in net.bridges
    }


def cuts(found: Mapping[str, tuple[PortRef, ...]], net: Network) -> set[tuple[PortRef, PortRef]]:
    """Passages without which no ports feed each other in a ring."""
    onward: dict[PortRef, set[PortRef]] = {}
    for before, port in passages(found, net):
        onward.setdefault(before, set()).add(port)
    back: set[tuple[PortRef, PortRef]] = set()
    done: set[PortRef] = set()

    def visit(port: PortRef, above: tuple[PortRef, ...]) -> None:
        for following in sorted(onward.get(port, ())):
            if following in above:
                back.add((port, following))
            elif following not in done:
                visit(following, (*above, following))
        done.add(port)

    for port in sorted(onward):
        if port not in done:
            visit(port, (port,))
    return back


def random_windows(seed: int) -> Iterator[Plan]:
    """A plan of a random network of 2 to 6 switches and 5 to 60 streams, in the shortest of a few
    slots that has room for it; none, if there is none. In some of them a few streams have times of
    their own."""
    random = seeded(seed)
    net = _random_network(random)
    classes = _random_classes(random)
    counts = random.randint(5, 60)
    stations = sorted(net.end_stations)
    most = random.choice((1, 1, 2, 4))  # slots of a period
    drawn = [_random_stream(random, f"f{n}", stations, classes) for n in range(counts)]
    # Around a ring one way, so that ports feed each other.
    closed = one_way(net) if random.random() < 0.7 else []
    slots = {its.name: random.choice([n for n in (1, 2, 4) if n <= most]) for its in drawn}
    phases = {name: random.randrange(each) for name, each in slots.items()}
    scattered = SLOWER not in classes and random.random() < 0.2
    starts = {its.name: random.randrange(100 * US) for its in drawn if scattered}
    exact = {its.name for its in drawn[:5]} if random.random() < 0.25 else set()
    is_slotted = random.random() < 0.15
    shifted = random.random() < 0.3
    windows = [
        (port, number) for port in sorted(net.links) for number in (CYCLIC.number, SLOWER.number)
    ]
    later = {window: random.choice((0, 500, 20 * US)) for window in windows if shifted}
    for slot in (MS // 4, MS // 2, MS, 2 * MS, 4 * MS, 16 * MS):
        streams = [
            replace(its, period_ns=slots[its.name] * slot, max_latency_ns=16 * slot)
            for its in drawn
        ]
        choices: dict[str, object] = {"starts_ns": starts, "phases": phases, "later_ns": later}
        if exact:
            # At the end of the slot.
            last = [
                replace(its, earliest_ns=its.period_ns - slot * 2 // 5)
                for its in streams
                if its.name in exact
            ]
            choices["exact"] = plan(intent(net, *last, classes=classes), best_effort=True)
            placed = choices["exact"].streams
            streams = [its for its in streams if its.name not in exact]
            streams += [its for its in last if its.name in placed]
        wanted = intent(net, *streams, classes=classes)
        found = ways(wanted, closed)
        cut = cuts(found, net)
        if is_slotted:
            # One switch further in each slot.
            cut = passages(found, net)
            choices["later_ns"] = dict.fromkeys(windows, slot // 2)
        try:
            planned = by_hand(
                wanted,
                slot,
                ways={name: way for name, way in found.items() if name not in exact},
                cuts=cut,
                **choices,
            )
        except DoesNotFitError:
            continue
        # What is exact may be behind frames that come early through a cut.
        if not exact or not judge(planned):
            yield planned
        return


def random_spare_room(seed: int) -> Iterator[Plan]:
    """A plan of a random network of 2 to 6 switches and 4 to 25 streams of one class, with more or
    less spare room behind its windows; none, if they do not fit. What passes a cut leaves the port
    before it in the second half of a slot."""
    random = seeded(seed)
    net = _random_network(random)
    net = replace(net, gate_margin_ns=min(net.gate_margin_ns, 50 * US))
    slot = random.choice((MS, 2 * MS, 4 * MS))
    stations = sorted(net.end_stations)
    classes = tuple(c for c in _random_classes(random) if c != SLOWER)
    streams = []
    for n in range(random.randint(4, 25)):
        its = _random_stream(random, f"f{n}", stations, classes)
        slots = random.choice((1, 1, 1, 2))
        streams.append(replace(its, period_ns=slots * slot, max_latency_ns=16 * slot))
    wanted = intent(net, *streams, classes=classes)
    found = ways(wanted, one_way(net) if random.random() < 0.8 else ())
    cut = cuts(found, net)
    scattered = random.random() < 0.4
    choices: dict[str, object] = {
        "starts_ns": {its.name: random.randrange(slot // 4) for its in streams if scattered},
        "phases": {its.name: random.randrange(its.period_ns // slot) for its in streams},
        "later_ns": {(before, CYCLIC.number): slot // 2 for before, _ in cut},
        "spare_ns": random.choice((slot, slot, slot // 2, random.randrange(slot // 2))),
    }
    try:
        yield by_hand(wanted, slot, ways=found, cuts=cut, **choices)
    except DoesNotFitError:
        return


def one_way(net: Network) -> list[PortRef]:
    """The ports of one direction around a ring of switches; none, if that is what they are not."""
    names = sorted(net.bridges)
    around = [PortRef(other, one) for one, other in pairwise([*names, names[0]])]
    return around if len(names) > 2 and all(port in net.links for port in around) else []


def _random_network(random: Random) -> Network:
    bridges = [f"s{n}" for n in range(random.randint(2, 6))]
    stations = [f"e{n}" for n in range(random.randint(3, 12))]
    pairs = cables(random.choice(("line", "star", "ring", "ring")), bridges)
    pairs += [(station, random.choice(bridges)) for station in stations]
    rates = random.choice(((10**9,), (10**8,), (10**8, 10**9)))
    links = {}
    for one, other in pairs:
        rate, propagation = random.choice(rates), random.choice((0, 100, 500))
        for source, target in ((one, other), (other, one)):
            links[PortRef(source, target)] = Link(
                PortRef(source, target),
                PortRef(target, source),
                rate,
                propagation,
                gate_early_ns=random.choice((0, 0, 0, 100, 3000)) if source[0] == "s" else 0,
                fits_only=source[0] == "s" and random.random() < 0.3,
            )
    least, jitter = random.choice((0, 1000)), random.choice((0, 700, 4000, 30_000))
    margin = random.choice((0, 0, 1000, 50 * US, 200 * US))
    return Network(
        {
            name: Bridge(name, least, least + jitter, gate_mode=GateMode.FULL_OFFLOAD)
            for name in bridges
        },
        {
            name: EndStation(
                name,
                interference=random.choice((TalkerInterference.NONE, TalkerInterference.ONE_FRAME)),
                lateness_ns=random.choice((None, None, 0, 20 * US)),
            )
            for name in stations
        },
        links,
        clock_error_ns=random.choice((0, 100, 1000, 2000)),
        clock_error_neighbours_ns=random.choice((None, None, None, 50, 300)),
        gate_margin_ns=margin,
    )


def _random_classes(random: Random) -> tuple[TrafficClass, ...]:
    scheduled = [replace(CYCLIC, max_frame_octets=random.choice((1522, 1522, 400)))]
    if random.random() < 0.4:
        scheduled.append(SLOWER)
    best_effort = replace(BEST_EFFORT, max_frame_octets=random.choice((64, 1522)))
    control = replace(
        CONTROL,
        max_frame_octets=random.choice((128, 1522)),
        burst_frames=random.choice((None, 1, 3)),
    )
    return (*scheduled, best_effort, *((control,) if random.random() < 0.7 else ()))


def _random_stream(
    random: Random, name: str, stations: list[str], classes: tuple[TrafficClass, ...]
) -> Stream:
    talker, *others = random.sample(stations, len(stations))
    scheduled = [c for c in classes if c.name in {CYCLIC.name, SLOWER.name}]
    chosen = random.choice(scheduled)
    most = min(1500, chosen.max_frame_octets - 22)
    return stream(
        name,
        talker,
        *others[: random.choice((1, 1, 1, 2))],
        traffic_classes=(chosen.name,),
        payload_octets=min(most, random.choice((46, 100, 100, 350, 1500))),
        frames=random.choice((1, 1, 1, 2, 5)),
    )
