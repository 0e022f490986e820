"""Random networks for the planner, by the number: what is planned, kept, added or removed.

`single_plan` plans a network, `steady_plan` one in which jitter is limited, twice, `kept_plan` half
of its streams and then all around them, `live_plans` adds and removes streams twelve times (fewer
events never showed some faults), `promising_plans` does so where the network recovers from
disturbances, `sharing_live_plans` where streams share windows, `both_live_plans` where some do,
`shaped_plans` where most leave by a shaper.
`ticked_plan` plans a network on ports that count in ticks, and takes a refusal for a fault that
nothing but the ticks explains.
`stated_plan` plans one whose operator states what most leave unsaid, `sharing_plan` one whose
streams may share windows, `turning_plan` one of so many that classes may take turns.
`python -m tests.simulator.long` judges and simulates many of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from cnc.check import Violation, judge
from cnc.errors import Unschedulable
from cnc.model import (
    NS_PER_S,
    Bridge,
    ClassRole,
    EndStation,
    GateMode,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    Stream,
    Windows,
)
from cnc.planner import Budget, Live, moves, plan
from tests.unit import shaped_networks
from tests.unit.planner_networks import (
    BEST_EFFORT,
    CONTROL,
    CYCLIC,
    MS,
    SLOWER,
    US,
    cables,
    intent,
    seeded,
    stream,
    with_links,
    with_streams,
)

SHORT_LISTS = (4, 5, 6, 8, 10, 12, 16)  # entries that a port may be limited to

TICK_NS = 8
DISTURBANCES_NS = (0, 1000, 100 * US)

_FRAMES = (1, 1, 2, 3, 7)  # that a talker sends back to back
_EVENTS = 12
_BUDGET = Budget(ejections=200)


def random_intent(seed: int, *, entries_max: tuple[int, ...] = (0,)) -> Intent:
    """Up to six switches and twenty streams; `entries_max` are the list limits ports may have."""
    random = seeded(seed)
    net = _network(random, entries_max)
    classes = [CYCLIC, SLOWER, replace(BEST_EFFORT, max_frame_octets=random.choice((64, 1522)))]
    if random.random() < 0.5:
        classes.append(CONTROL)
    periods = random.choice(((500, 1000, 2000), (1000,), (1000, 5000), (400, 500, 600, 1000)))
    narrow = random.random() < 0.5
    streams = [
        _stream(random, f"f{number}", sorted(net.end_stations), periods, narrow=narrow)
        for number in range(random.randint(1, 20))
    ]
    counts = seeded(~seed)  # apart, so that everything else is what it is without
    streams = [replace(each, frames=counts.choice(_FRAMES)) for each in streams]
    return intent(net, *streams, classes=tuple(classes))


def _network(random: Random, entries_max: tuple[int, ...]) -> Network:
    bridges = [f"s{number}" for number in range(random.randint(1, 6))]
    stations = [f"e{number}" for number in range(random.randint(2, 8))]
    pairs = set(cables(random.choice(("line", "star", "ring", "ring")), bridges))
    if len(bridges) > 3 and random.random() < 0.5:
        one, other = random.sample(bridges, 2)
        if (other, one) not in pairs:
            pairs.add((one, other))
    ends = [*sorted(pairs), *((station, random.choice(bridges)) for station in stations)]
    rates = random.choice(((10**9,), (10**8, 10**9), (10**7, 10**8), (10**10,)))
    tick = random.choice((1, 1, 1, 8, 100))
    links = {}
    for one, other in ends:
        rate = random.choice(rates)
        for source, target in ((one, other), (other, one)):
            links[PortRef(source, target)] = Link(
                PortRef(source, target),
                PortRef(target, source),
                rate,
                random.choice((0, 100, 500)),
                gate_entries_max=random.choice(entries_max),
                gate_tick_ns=tick,
            )
    least, jitter = random.choice((0, 1000)), random.choice((0, 700, 4000))
    mode = random.choice((GateMode.SOFTWARE, GateMode.FULL_OFFLOAD))
    return Network(
        {name: Bridge(name, least, least + jitter, gate_mode=mode) for name in bridges},
        {name: EndStation(name) for name in stations},
        links,
        clock_error_ns=random.choice((0, 100, 1000, 2000)),
        gate_margin_ns=random.choice((0, 0, 500)),
    )


def _stream(
    random: Random, name: str, stations: list[str], periods_us: tuple[int, ...], *, narrow: bool
) -> Stream:
    talker, *others = random.sample(stations, len(stations))
    period = random.choice(periods_us) * US
    start = random.choice((0, 0, random.randrange(period)))
    latest = min(period - 1, start + random.choice((0, 0, 50 * US)))
    return stream(
        name,
        talker,
        *others[: random.choice((1, 1, 1, 2))],
        traffic_classes=random.choice((("cyclic",), ("cyclic",), ("cyclic", "slower"))),
        period_ns=period,
        payload_octets=random.choice((46, 100, 100, 700, 1500)),
        max_latency_ns=random.choice((period, 2 * MS, 200 * US)),
        earliest_ns=start if narrow else 0,
        latest_ns=latest if narrow else None,
        paths=random.choice((1, 1, 1, 1, 2)),
    )


def single_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 16, 64)) -> Iterator[Plan]:
    """A plan by the default algorithm."""
    planned = _planned(random_intent(seed, entries_max=entries_max))
    if planned:
        yield planned


def sharing_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 8, 16, 64)) -> Iterator[Plan]:
    """A plan whose streams share windows, or may, beside some that do not."""
    random = seeded(seed ^ 0x5A)
    wanted = random_intent(seed, entries_max=entries_max)
    asked = random.choice(((Windows.SHARED,), (Windows.AUTO,), tuple(Windows)))
    streams = [replace(each, windows=random.choice(asked)) for each in wanted.streams.values()]
    network = replace(
        wanted.network,
        gate_margin_ns=random.choice((0, 500, 10 * US, 50 * US, 200 * US)),
        disturbance_ns=random.choice((None, None, *DISTURBANCES_NS)),
    )
    planned = _planned(with_streams(replace(wanted, network=network), *streams))
    if planned:
        yield planned


def turning_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 64)) -> Iterator[Plan]:
    """A plan of so many streams that several classes take turns, where more have a place so."""
    random = seeded(seed ^ 0xA5)
    net = _network(random, entries_max)
    numbers = (6, 5, 4, 3)[: random.choice((2, 3, 4, 4))]
    classes = [replace(CYCLIC, name=f"c{n}", number=n, priority=n, dscps=(8 * n,)) for n in numbers]
    periods = random.choice(((500,), (500, 1000), (1000, 2000), (2000,)))
    streams = [
        replace(
            _stream(random, f"f{number}", sorted(net.end_stations), periods, narrow=False),
            traffic_classes=tuple(its.name for its in classes),
            windows=Windows.SHARED,
        )
        for number in range(random.randint(20, 120))
    ]
    net = replace(net, gate_margin_ns=random.choice((10 * US, 50 * US)))
    planned = _planned(intent(net, *streams, classes=(*classes, BEST_EFFORT)))
    if planned:
        yield planned


def kept_plan(seed: int, entries_max: tuple[int, ...] = (0, 8, 16, 24)) -> Iterator[Plan]:
    """A plan around half of its streams, on ports with short lists.

    Raises:
        Moved: a stream that was to be kept was not.
    """
    random = seeded(seed)
    wanted = random_intent(seed, entries_max=entries_max)
    names = [name for name in wanted.streams if random.random() < 0.5]
    running = _planned(with_streams(wanted, *(wanted.streams[name] for name in names)))
    planned = _planned(wanted, running) if running else None
    if running is None or planned is None:
        return
    if moves(running, planned) or not running.streams.keys() <= planned.streams.keys():
        raise Moved("a stream that was to be kept is not")
    yield planned


def steady_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 16, 64)) -> Iterator[Plan]:
    """A plan in which half of the streams limit their jitter, and then one around half of them."""
    random = seeded(seed)
    wanted = random_intent(seed, entries_max=entries_max)
    limited = [
        replace(its, max_jitter_ns=min(_jitter_ns(random, wanted, its), its.max_latency_ns))
        if random.random() < 0.5
        else its
        for its in wanted.streams.values()
    ]
    wanted = with_streams(wanted, *limited)
    running = _planned(wanted)
    if running is None:
        return
    yield running
    yield from _around_half(wanted, running)


def _around_half(wanted: Intent, planned: Plan) -> Iterator[Plan]:
    """A plan around one with half of the streams that have a place in `planned`."""
    kept = [its for name, its in wanted.streams.items() if name in planned.streams][::2]
    running = _planned(with_streams(wanted, *kept))
    if running and (around := _planned(wanted, running)):
        yield around


def _jitter_ns(random: Random, wanted: Intent, its: Stream) -> int:
    """From a little less than the last port allows to the time of a few hops more."""
    net = wanted.network
    links = [link for link in net.links.values() if link.target.node in its.listeners]
    control = max(wanted.control_burst_octets() * 8 * NS_PER_S // link.rate_bps for link in links)
    least = control + net.gate_margin_ns + 2 * net.clock_error_ns
    hop = max(net.occupation_ns(link, its.payload_octets) for link in links) + 10 * US
    return max(1, least + random.choice((-1, 1, 100, hop, 2 * hop, 4 * hop)))


def ticked_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 16, 64)) -> Iterator[Plan]:
    """A plan that recovers from disturbances, on ports whose gates change every 8 ns.

    Its streams are those that have a place without ticks even if frames take two of them longer.

    Raises:
        RefusedForTicks: they have none.
    """
    drawn = with_links(random_intent(seed, entries_max=entries_max), gate_tick_ns=1)
    disturbance_ns = DISTURBANCES_NS[seed % len(DISTURBANCES_NS)]
    wanted = replace(drawn, network=replace(drawn.network, disturbance_ns=disturbance_ns))
    first = _planned(_with_slack(wanted))
    if first is None or not first.streams:
        return
    wanted = with_streams(wanted, *(wanted.streams[name] for name in first.streams))
    try:
        plan(_with_slack(wanted), budget=_BUDGET)
    except Unschedulable:
        return  # those that had no place were in the way of another order
    try:
        yield plan(with_links(wanted, gate_tick_ns=TICK_NS), budget=_BUDGET)
    except Unschedulable as refused:
        raise RefusedForTicks(str(refused)) from refused


def _with_slack(wanted: Intent) -> Intent:
    """Where everything takes longer than ticks can make it: a tick lets a frame out up to one
    early, and reserves the link for up to one more."""
    net = wanted.network
    fastest_bps = max(link.rate_bps for link in net.links.values())
    octets = -(-2 * TICK_NS * fastest_bps // (8 * NS_PER_S))
    longer = [
        replace(its, payload_octets=its.payload_octets + octets) for its in wanted.streams.values()
    ]
    classes = {
        name: replace(its, max_frame_octets=its.max_frame_octets + octets)
        for name, its in wanted.classes.items()
    }
    unsure = replace(net, clock_error_ns=net.clock_error_ns + 3 * TICK_NS)
    return replace(with_streams(wanted, *longer), classes=classes, network=unsure)


def stated_plan(seed: int, entries_max: tuple[int, ...] = (0, 0, 16, 64)) -> Iterator[Plan]:
    """A plan, and one around half of its streams, where some ports hold back what does not fit, or
    have gates that may be early, best effort is to keep a share of all, and clocks differ by their
    hops."""
    random = seeded(~seed)
    wanted = random_intent(seed, entries_max=entries_max)
    if random.random() < 0.3:
        limited = (
            replace(its, max_jitter_ns=min(_jitter_ns(random, wanted, its), its.max_latency_ns))
            for its in wanted.streams.values()
        )
        wanted = with_streams(wanted, *limited)
    for port in sorted(wanted.network.links):
        if port.node in wanted.network.bridges:
            early_ns = random.choice((0, 1, 100, 3000))
            wanted = with_links(
                wanted, port, fits_only=random.random() < 0.7, gate_early_ns=early_ns
            )
    share = random.choice((None, 0.25, 0.8, 0.95))
    best_effort = replace(
        wanted.classes[BEST_EFFORT.name], min_share_ppb=share and int(share * 10**9)
    )
    wanted = replace(wanted, classes={**wanted.classes, BEST_EFFORT.name: best_effort})
    if each_ns := random.choice((0, 50, 300)):
        most_ns = wanted.network.clock_error_ns
        by_hops = replace(
            wanted.network,
            clock_error_ns=max(most_ns, each_ns + 1),
            clock_error_neighbours_ns=each_ns,
        )
        wanted = replace(wanted, network=by_hops)
    recovering = replace(
        wanted.network, disturbance_ns=random.choice((None, None, *DISTURBANCES_NS))
    )
    wanted = replace(wanted, network=recovering)
    running = _planned(wanted)
    if running is None:
        return
    yield running
    yield from _around_half(wanted, running)


class RefusedForTicks(AssertionError):
    """The planner refused what ticks do not make impossible."""


class Moved(AssertionError):
    """The planner did not keep what it was to keep."""


def live_plans(seed: int, entries_max: tuple[int, ...] = (6, 8, 12, 16, 24)) -> Iterator[Plan]:
    """What a live plan has become after each event."""
    random = seeded(seed)
    wanted = random_intent(seed, entries_max=entries_max)
    wanted = with_links(wanted, gate_interval_min_ns=random.choice((0, 0, 1000, 5000)))
    yield from _while_streams_come_and_go(random, wanted)


def promising_plans(seed: int, entries_max: tuple[int, ...] = (0, 0, 8, 16, 64)) -> Iterator[Plan]:
    """The same of networks that are to recover from disturbances."""
    random = seeded(seed)
    wanted = random_intent(seed, entries_max=entries_max)
    network = replace(
        wanted.network,
        disturbance_ns=random.choice((*DISTURBANCES_NS, 20 * US)),
        recovery_required=random.random() < 0.2,
    )
    streams = [replace(each, windows=Windows.EXACT) for each in wanted.streams.values()]
    reserve_ppb = seeded(~seed).choice((0, 0, 100_000_000, 300_000_000))
    classes = {
        name: replace(its, reserve_ppb=reserve_ppb) if its.role is ClassRole.SCHEDULED else its
        for name, its in wanted.classes.items()
    }
    wanted = with_streams(replace(wanted, network=network, classes=classes), *streams)
    yield from _while_streams_come_and_go(random, wanted)


def moving_plans(seed: int, entries_max: tuple[int, ...] = (0, 0, 8, 16, 64)) -> Iterator[Plan]:
    """The same where a few streams may move for one that has no room, in networks with little."""
    random = seeded(seed)
    wanted = random_intent(seed, entries_max=entries_max)
    network = replace(wanted.network, disturbance_ns=random.choice((None, None, 20 * US)))
    streams = [
        replace(each, windows=Windows.EXACT, payload_octets=1500, frames=random.randint(1, 4))
        for each in wanted.streams.values()
    ]
    wanted = with_streams(replace(wanted, network=network), *streams)
    yield from _while_streams_come_and_go(random, wanted, moving_at_most=3)


def _with_late_gates(
    random: Random, seed: int, entries_max: tuple[int, ...]
) -> tuple[Intent, Network]:
    """A random intent, and its network with late gates, and disturbances to recover from."""
    wanted = random_intent(seed, entries_max=entries_max)
    network = replace(
        wanted.network,
        gate_margin_ns=random.choice((0, 500, 10 * US, 50 * US)),
        disturbance_ns=random.choice((None, *DISTURBANCES_NS)),
    )
    return wanted, network


def sharing_live_plans(
    seed: int, entries_max: tuple[int, ...] = (0, 0, 8, 16, 64)
) -> Iterator[Plan]:
    """The same of streams that share windows, with and without a promise of recovery."""
    random = seeded(seed)
    wanted, network = _with_late_gates(random, seed, entries_max)
    streams = [replace(each, windows=Windows.SHARED) for each in wanted.streams.values()]
    wanted = with_streams(replace(wanted, network=network), *streams)
    yield from _while_streams_come_and_go(random, wanted)


def both_live_plans(seed: int, entries_max: tuple[int, ...] = (0, 0, 8, 16, 64)) -> Iterator[Plan]:
    """The same where others have windows of their own, most of them in another class."""
    random = seeded(seed)
    wanted, network = _with_late_gates(random, seed, entries_max)
    kinds = (
        (Windows.EXACT, ("slower",)),
        (Windows.SHARED, ("cyclic",)),
        (Windows.SHARED, ("cyclic",)),
        (Windows.AUTO, ("cyclic", "slower")),
    )
    streams = []
    for each in wanted.streams.values():
        windows, classes = random.choice(kinds)
        steady = windows is Windows.AUTO and random.random() < 0.5
        streams.append(
            replace(
                each,
                windows=windows,
                traffic_classes=("slower",) if steady else classes,
                max_latency_ns=max(each.max_latency_ns, 2 * each.period_ns),
                max_jitter_ns=each.max_latency_ns // 2 if steady else None,
                earliest_ns=0,
                latest_ns=None,
            )
        )
    wanted = with_streams(replace(wanted, network=network), *streams)
    yield from _while_streams_come_and_go(random, wanted)


def shaped_plans(seed: int) -> Iterator[Plan]:
    """The same of streams of classes with a shaper, beside planned ones."""
    random = seeded(seed)
    reserve = random.choice((None, "20%", "60%"))
    wanted = shaped_networks.random_intent(seed, axes=random.randrange(5), reserve=reserve)
    yield from _while_streams_come_and_go(random, wanted)


def _while_streams_come_and_go(
    random: Random, wanted: Intent, moving_at_most: int = 0
) -> Iterator[Plan]:
    """A live plan of every other stream after each event.

    Raises:
        Moved: a promise to another stream is not what it was, or a refusal changed something.
    """
    names = list(wanted.streams)
    running = _planned(with_streams(wanted, *(wanted.streams[n] for n in names[::2])))
    if running is None or not running.streams:
        return
    running = replace(
        running,
        intent=with_streams(wanted, *(wanted.streams[n] for n in running.streams)),
        refused={},
    )
    live = Live(running)
    for _ in range(_EVENTS):
        before = live.plan
        some = _an_event(random, wanted, live, moving_at_most)
        for name in before.streams.keys() & live.plan.streams.keys() - some:
            if _promise(before, name) != _promise(live.plan, name):
                raise Moved(f"what {name} was promised is another")
        yield live.plan
    Live(live.plan)  # it goes on from a stored plan


def _promise(planned: Plan, name: str) -> tuple[object, ...]:
    parts = planned.streams, planned.recovery_ns, planned.jitter_ns, planned.addresses
    return tuple(its.get(name) for its in parts)


def first_faults(plans: Iterable[Plan]) -> list[Violation]:
    """What the judge says of the first plan that is not sound."""
    return next(filter(None, map(judge, plans)), [])


def _an_event(random: Random, wanted: Intent, live: Live, moving_at_most: int) -> set[str]:
    """Let a few streams come or go; those of which that was asked and granted."""
    before = live.plan
    absent = [name for name in wanted.streams if name not in before.streams]
    adds = absent and (not before.streams or random.random() < 0.5)
    some = random.sample(
        absent if adds else list(before.streams),
        1 + (random.random() < 0.3) * (len(absent if adds else before.streams) > 1),
    )
    try:
        if adds:
            changes = live.add([wanted.streams[n] for n in some], moving_at_most=moving_at_most)
        else:
            changes = live.remove(some)
    except Unschedulable:
        if live.plan != before:
            raise Moved("a refusal changed something") from None
        return set()
    touched = {
        port
        for port in live.plan.gates.keys() | before.gates.keys()
        if live.plan.gates.get(port) != before.gates.get(port)
    }
    if not touched <= changes.gates.keys() <= changes.ports:
        raise Moved("a port runs another list, and is not among the changes")
    _must_be_no_worse(before, live.plan, changes.moved)
    return {*some, *changes.moved}


def _must_be_no_worse(before: Plan, after: Plan, moved: Iterable[str]) -> None:
    for name in moved:
        was, now = before.streams[name], after.streams[name]
        if now.latency_bound_ns > was.latency_bound_ns:
            raise Moved(f"{name} takes longer where it moved to")
        if before.recovery_ns.get(name) != after.recovery_ns.get(name):
            raise Moved(f"{name} is promised another recovery")


def _planned(wanted: Intent, keep: Plan | None = None) -> Plan | None:
    """None where a port cannot do its work, which no choice of streams can put right."""
    try:
        return plan(wanted, keep=keep, best_effort=True, budget=_BUDGET)
    except Unschedulable:
        return None
