"""Networks, streams and problems that the tests of the planner work on.

At 1 Gb/s an octet takes 8 ns. The frame of a 100-octet payload keeps a link busy for 142 octets
(1136 ns) and is received after 130 (1040 ns), within 100 millionths.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from random import Random

from hypothesis import settings
from hypothesis import strategies as st

from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateMode,
    Intent,
    Link,
    Network,
    PortRef,
    Stream,
    TalkerInterference,
    TrafficClass,
    Windows,
)
from cnc.planner.problem import Problem
from cnc.planner.routing import Router

US = 1_000
MS = 1_000_000

CONTROL = TrafficClass(
    "control", 7, 7, (48,), ClassRole.CONTROL, max_frame_octets=128, burst_frames=1
)
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)
SLOWER = TrafficClass("slower", 4, 4, (40,), ClassRole.SCHEDULED)
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT)
CLASSES = (CONTROL, CYCLIC, SLOWER, BEST_EFFORT)
SHORT_BEST_EFFORT = (CONTROL, CYCLIC, SLOWER, replace(BEST_EFFORT, max_frame_octets=64))

# Of a frame with a payload of 100 octets at 1 Gb/s, on the slowest and the fastest link.
BUSY_NS = 1137
RECEIVED_NS, RECEIVED_MIN_NS = 1041, 1039
# By control, of which a frame of 148 octets (1185 ns) comes when one of 1542 octets (12338 ns) has
# just begun to leave, and a tenth of the rate after that: (1185 + 12338 / 10) / (1 - 1 / 10), on a
# link 100 millionths slower than its rate; at 1 Gb/s and 100 Mb/s.
BLOCKING_NS, SLOW_BLOCKING_NS = 2_688, 26_868
# At a bridge with two scheduled classes: by the longest frame, 1542 octets, that fitted before its
# gate shut at the nominal rate.
OUTLASTS_NS = 2

NO_LIMIT = st.just(0)  # of a port's gate control list

# The same examples in every run: what fails here fails everywhere.
examples = partial(settings, deadline=None, derandomize=True)


def seeded(seed: int) -> Random:
    """Chance that is the same in every run."""
    return Random(seed)  # noqa: S311  not for secrets


def network(
    *cables: str,
    clock_error_ns: int = 1000,
    rate_bps: int = 10**9,
    processing_ns: tuple[int, int] = (1000, 5000),
) -> Network:
    """Nodes named s… are switches, others end stations; a cable is written `a-b`."""
    pairs = [tuple(cable.split("-")) for cable in cables]
    nodes = sorted({node for pair in pairs for node in pair})
    links = {}
    for a, b in [*pairs, *(pair[::-1] for pair in pairs)]:
        links[PortRef(a, b)] = Link(PortRef(a, b), PortRef(b, a), rate_bps, 100)
    return Network(
        bridges={n: Bridge(n, *processing_ns) for n in nodes if n[0] == "s"},
        end_stations={n: EndStation(n) for n in nodes if n[0] != "s"},
        links=links,
        clock_error_ns=clock_error_ns,
    )


LINE = network("t-s1", "s1-s2", "s2-l")
RING = network("t-s1", "s1-s2", "s2-s3", "s3-s4", "s4-s1", "s3-l", "s2-m")


def stream(name: str, talker: str, *listeners: str, **requirements: object) -> Stream:
    """A stream in windows of its own, unless `windows` says otherwise."""
    given = {
        "windows": Windows.EXACT,
        "traffic_classes": ("cyclic",),
        "period_ns": MS,
        "payload_octets": 100,
        "max_latency_ns": MS,
        **requirements,
    }
    return Stream(name, talker, listeners, **given)


def intent(net: Network, *streams: Stream, classes: tuple[TrafficClass, ...] = CLASSES) -> Intent:
    return Intent("test", net, {c.name: c for c in classes}, {s.name: s for s in streams}, {})


def problem(wanted: Intent, **facts: object) -> Problem:
    """What `plan` would hand to an algorithm if each stream has a way."""
    router = Router(wanted)
    trees = router.route_all(wanted.streams.values())
    return Problem(wanted, trees, router=router, **facts)


def with_links(wanted: Intent, *ports: PortRef, **facts: object) -> Intent:
    """The intent on a network where some links, or all, differ in `facts`."""
    links = dict(wanted.network.links)
    for port in ports or links:
        links[port] = replace(links[port], **facts)
    return replace(wanted, network=replace(wanted.network, links=links))


def with_streams(wanted: Intent, *streams: Stream) -> Intent:
    return replace(wanted, streams={s.name: s for s in streams})


def zonal(*, entries_max: int) -> Intent:
    """A car: four zone controllers in a ring around a central switch, 168 streams in one class
    with periods from 1 to 20 ms, and ports that hold `entries_max` gate entries."""
    random = seeded(168)
    zones = [f"s{zone}" for zone in range(1, 5)]
    devices = [f"d{zone[1]}{number}" for zone in zones for number in range(6)]
    computers = ["c1", "c2"]
    car = network(
        *(f"s0-{zone}" for zone in zones),
        *(f"{one}-{other}" for one, other in pairwise([*zones, zones[0]])),
        *(f"{device}-s{device[1]}" for device in devices),
        *(f"{computer}-s0" for computer in computers),
        clock_error_ns=500,
    )
    streams = []
    for number in range(168):
        device, other = random.sample(devices, 2)
        computer = random.choice(computers)
        ends = random.choice([(device, computer), (device, computer), (computer, device)])
        period = random.choice((1, 2, 5, 10, 20)) * MS
        talker, listener = ends if number % 4 else (device, other)
        streams.append(
            stream(
                f"f{number}",
                talker,
                listener,
                period_ns=period,
                payload_octets=random.choice((46, 64, 128, 256, 1000)),
                max_latency_ns=period,
            )
        )
    wanted = intent(with_full_offload(car), *streams)
    return with_links(wanted, gate_entries_max=entries_max)


def with_full_offload(net: Network) -> Network:
    bridges = {n: replace(b, gate_mode=GateMode.FULL_OFFLOAD) for n, b in net.bridges.items()}
    return replace(net, bridges=bridges)


def cables(topology: str, bridges: list[str]) -> list[tuple[str, str]]:
    match topology:
        case "star":
            return [(bridges[0], other) for other in bridges[1:]]
        case "ring" if len(bridges) > 2:
            return [*pairwise(bridges), (bridges[-1], bridges[0])]
        case _:
            return list(pairwise(bridges))


@st.composite
def networks(draw: st.DrawFn, *, entries_max: st.SearchStrategy[int] = NO_LIMIT) -> Network:
    """Up to five switches and six stations; no two links need be alike."""
    bridges = [f"s{i}" for i in range(draw(st.integers(2, 5)))]
    stations = [f"e{i}" for i in range(draw(st.integers(2, 6)))]
    pairs = cables(draw(st.sampled_from(["line", "star", "ring"])), bridges)
    pairs += [(station, draw(st.sampled_from(bridges))) for station in stations]
    rates = draw(st.sampled_from([(10**8,), (10**9,), (10**8, 10**9), (10**9, 10**10)]))
    links = {}
    for a, b in pairs:
        rate, propagation = draw(st.sampled_from(rates)), draw(st.integers(0, 1000))
        for source, target in ((a, b), (b, a)):
            links[PortRef(source, target)] = Link(
                PortRef(source, target),
                PortRef(target, source),
                rate,
                propagation,
                gate_entries_max=draw(entries_max),
                gate_interval_min_ns=draw(st.sampled_from([0, 0, 1000, 2000])),
            )
    nodes = {}
    for name in bridges:
        least, jitter = draw(st.integers(0, 5000)), draw(st.sampled_from([0, 1, 700, 4000]))
        mode = draw(st.sampled_from([GateMode.SOFTWARE, GateMode.FULL_OFFLOAD]))
        nodes[name] = Bridge(name, least, least + jitter, gate_mode=mode)
    return Network(
        nodes,
        {name: draw(end_stations(name)) for name in stations},
        links,
        clock_error_ns=draw(st.sampled_from([0, 1, 500, 2000])),
        gate_margin_ns=draw(st.sampled_from([0, 0, 800])),
    )


@st.composite
def end_stations(draw: st.DrawFn, name: str) -> EndStation:
    """One that sends best effort or none, or keeps it back with gates."""
    kind = draw(st.sampled_from([*TalkerInterference, GateMode.SOFTWARE]))
    if kind is GateMode.SOFTWARE:
        return EndStation(name, interference=TalkerInterference.NONE, gate_mode=kind)
    return EndStation(name, interference=kind)


HARMONIC_US = (500, 1000, 2000)
MIXED_US = (500, 600, 750, 1000, 1200)


@st.composite
def intents(
    draw: st.DrawFn,
    *,
    streams_max: int = 6,
    entries_max: st.SearchStrategy[int] = NO_LIMIT,
) -> Intent:
    """Streams of all kinds on a random network; not all of them need have a place."""
    net = draw(networks(entries_max=entries_max))
    classes = [
        CYCLIC,
        SLOWER,
        replace(BEST_EFFORT, max_frame_octets=draw(st.sampled_from([128, 1522]))),
    ]
    if draw(st.booleans()):
        number = draw(st.sampled_from([7, 5]))
        octets = draw(st.sampled_from([64, 128, 1522]))
        classes.append(replace(CONTROL, number=number, max_frame_octets=octets))
    periods = draw(st.sampled_from([HARMONIC_US, HARMONIC_US, MIXED_US]))
    streams = [
        draw(streams_on(net, f"f{index}", periods))
        for index in range(draw(st.integers(1, streams_max)))
    ]
    return intent(net, *streams, classes=tuple(classes))


@st.composite
def talkative(draw: st.DrawFn) -> Intent:
    """One or two talkers with many streams, one right after the other, through one or two switches
    to as many ports."""
    count = draw(st.integers(4, 16))
    listeners = [f"l{n}" for n in range(draw(st.integers(2, count)))]
    bridges = ["s1", "s2"][: draw(st.integers(1, 2))]
    talkers = ["t", "u"][: draw(st.integers(1, 2))]
    net = network(
        *(f"{talker}-s1" for talker in talkers),
        *(f"{one}-{other}" for one, other in pairwise(bridges)),
        *(f"{bridges[-1]}-{listener}" for listener in listeners),
        rate_bps=draw(st.sampled_from([10**8, 10**9])),
        processing_ns=draw(st.sampled_from([(1000, 1000), (1000, 5000)])),
    )
    station = draw(end_stations("any"))
    net = replace(
        net,
        end_stations={n: replace(station, name=n) for n in net.end_stations},
        gate_margin_ns=draw(st.sampled_from([0, 0, 800])),
    )
    streams = []
    for number in range(count):
        period = draw(st.sampled_from([1, 2, 2, 4])) * MS
        listener = listeners[number % len(listeners)]
        streams.append(
            stream(
                f"f{number}",
                draw(st.sampled_from(talkers)),
                listener,
                traffic_classes=(draw(st.sampled_from(["cyclic", "cyclic", "slower"])),),
                period_ns=period,
                payload_octets=draw(st.sampled_from([46, 400, 1500])),
                max_latency_ns=period,
                frames=draw(st.sampled_from([1, 1, 1, 3])),
            )
        )
    return intent(net, *streams, classes=draw(st.sampled_from([CLASSES, SHORT_BEST_EFFORT])))


@st.composite
def streams_on(draw: st.DrawFn, net: Network, name: str, periods_us: tuple[int, ...]) -> Stream:
    talker, *others = draw(st.permutations(sorted(net.end_stations)))
    period = draw(st.sampled_from(periods_us)) * US
    latest = draw(st.sampled_from([None, None, period - 1, period // 2]))
    return stream(
        name,
        talker,
        *others[: draw(st.integers(1, 3))],
        traffic_classes=draw(st.sampled_from([("cyclic",), ("slower",), ("cyclic", "slower")])),
        period_ns=period,
        payload_octets=draw(st.sampled_from([46, 100, 100, 700, 1500])),
        max_latency_ns=draw(st.sampled_from([300, 2000, 2000])) * US,
        earliest_ns=draw(st.sampled_from([0, 0, 100 * US]) | st.integers(0, period // 2)),
        latest_ns=latest,
        paths=draw(st.sampled_from([1, 1, 1, 2])),
        frames=draw(st.sampled_from([1, 1, 1, 2, 3, 7])),
    )
