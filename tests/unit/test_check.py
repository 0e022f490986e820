"""The judge finds nothing in a good plan, and every way to break one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent
from cnc.check import judge
from cnc.model import GateControlList, GateEntry, Hop, Plan, PortRef, StreamPlan

LINE3 = Path(__file__).parents[2] / "schedules" / "line3.yaml"
PORT = PortRef("s2", "s3")
CONTROL, CYCLIC, BEST_EFFORT = 0x80, 0x40, 0x01

# A sound plan, written down so that the judge is not asked about whatever a planner does today.
STREAMS = {
    "camera": (75920, "t2/eth0 34793, s1/s2 55023, s2/s3 75253, s3/l2 95483"),
    "motion": (37516, "t1/eth0 14500, s1/s2 25129, s2/s3 35758, s3/l1 46387"),
    "torque": (34316, "t1/eth0 0, s1/s2 9829, s2/s3 19658, s3/l1 29487"),
    "valves": (34188, "t2/eth0 31000, s1/s2 40797, s2/s3 50594, s3/l1 60391"),
}
GATES = {
    "s1/s2": (
        "80 9829, c0 3825, 80 11475, c0 4625, 80 11043, c0 3793, 80 10433, c0 14226, 81 428242, "
        "80 12338, c0 3825, 81 483837, 80 12338, c0 3825, 80 11475, c0 4625, 80 11043, c0 3793, "
        "81 452901, 80 12338, c0 3825, 81 483837, 80 2509"
    ),
    "s2/s3": (
        "81 7320, 80 12338, c0 3825, 80 12275, c0 4625, 80 10211, c0 3793, 81 8528, 80 12338, c0 "
        "14226, 81 417841, 80 12338, c0 3825, 81 483837, 80 12338, c0 3825, 80 12275, c0 4625, 80 "
        "10211, c0 3793, 81 452933, 80 12338, c0 3825, 81 476517"
    ),
    "s3/l1": (
        "81 17149, 80 12338, c0 3825, 81 737, 80 12338, c0 4625, 80 9379, c0 3793, 81 452965, 80 "
        "12338, c0 3825, 81 466688"
    ),
    "s3/l2": "81 83145, 80 12338, c0 14226, 81 1890291",
}


def port(text: str) -> PortRef:
    return PortRef(*text.split("/"))


def hop(text: str) -> Hop:
    egress, offset = text.split()
    return Hop(port(egress), int(offset), 6)


def gate_control_list(text: str) -> GateControlList:
    pairs = [entry.split() for entry in text.split(", ")]
    entries = tuple(GateEntry(int(states, 16), int(interval)) for states, interval in pairs)
    return GateControlList(sum(entry.interval_ns for entry in entries), entries)


def line3_plan() -> Plan:
    streams = {
        name: StreamPlan((tuple(map(hop, hops.split(", "))),), bound)
        for name, (bound, hops) in STREAMS.items()
    }
    gates = {port(name): gate_control_list(entries) for name, entries in GATES.items()}
    loaded = intent.load(LINE3)
    network = replace(loaded.network, disturbance_ns=None)
    return Plan(replace(loaded, network=network), streams, gates, "by hand")


@pytest.fixture(scope="module")
def good() -> Plan:
    return line3_plan()


def test_a_good_plan_has_no_violation(good: Plan) -> None:
    assert judge(good) == []


def with_stream(p: Plan, name: str, hops: tuple[Hop, ...], bound_ns: int | None = None) -> Plan:
    bound = p.streams[name].latency_bound_ns if bound_ns is None else bound_ns
    return replace(p, streams={**p.streams, name: StreamPlan((hops,), bound)})


def with_hop(p: Plan, name: str, index: int, **changes: object) -> Plan:
    hops = list(p.streams[name].hops)
    hops[index] = replace(hops[index], **changes)
    return with_stream(p, name, tuple(hops))


def moved(p: Plan, name: str, by_ns: int, first: int = 0) -> Plan:
    hops = p.streams[name].hops
    late = (replace(hop, offset_ns=hop.offset_ns + by_ns) for hop in hops[first:])
    return with_stream(p, name, (*hops[:first], *late))


def with_entries(p: Plan, change: Callable[[list[GateEntry]], None]) -> Plan:
    entries = list(p.gates[PORT].entries)
    change(entries)
    gates = GateControlList(p.gates[PORT].cycle_ns, tuple(entries))
    return replace(p, gates={**p.gates, PORT: gates})


def with_states(p: Plan, change: Callable[[int], int]) -> Plan:
    def apply(entries: list[GateEntry]) -> None:
        entries[:] = [replace(e, gate_states=change(e.gate_states)) for e in entries]

    return with_entries(p, apply)


def with_window_edge_moved(p: Plan, by_ns: int) -> Plan:
    """The first window of the port opens later, or sooner."""

    def apply(entries: list[GateEntry]) -> None:
        window = next(i for i, e in enumerate(entries) if e.gate_states & CYCLIC)
        before, at = entries[window - 1], entries[window]
        entries[window - 1] = replace(before, interval_ns=before.interval_ns + by_ns)
        entries[window] = replace(at, interval_ns=at.interval_ns - by_ns)

    return with_entries(p, apply)


def with_guard_band_halved(p: Plan) -> Plan:
    def apply(entries: list[GateEntry]) -> None:
        guard = next(
            i
            for i, e in enumerate(entries)
            if e.gate_states == CONTROL and entries[i - 1].gate_states & BEST_EFFORT
        )
        half = entries[guard].interval_ns // 2
        entries[guard] = replace(entries[guard], interval_ns=entries[guard].interval_ns - half)
        before = entries[guard - 1]
        entries[guard - 1] = replace(before, interval_ns=before.interval_ns + half)

    return with_entries(p, apply)


def with_cycle(p: Plan, cycle_ns: int) -> Plan:
    gates = GateControlList(cycle_ns, (GateEntry(CONTROL | BEST_EFFORT, cycle_ns),))
    return replace(p, gates={**p.gates, PORT: gates})


def with_port_limits(p: Plan, **limits: int) -> Plan:
    network = p.intent.network
    links = {**network.links, PORT: replace(network.links[PORT], **limits)}
    return replace(p, intent=replace(p.intent, network=replace(network, links=links)))


def with_control_below_the_scheduled_class(p: Plan) -> Plan:
    control = replace(p.intent.classes["control"], number=5)
    intent_ = replace(p.intent, classes={**p.intent.classes, "control": control})
    everything_open = GateEntry(0x61, p.gates[PORT].cycle_ns)
    gates = GateControlList(p.gates[PORT].cycle_ns, (everything_open,))
    return replace(p, intent=intent_, gates={PORT: gates})


def with_classes(p: Plan, name: str, *classes: str) -> Plan:
    stream = replace(p.intent.streams[name], traffic_classes=classes)
    return replace(p, intent=replace(p.intent, streams={**p.intent.streams, name: stream}))


def without(p: Plan, stream: str) -> Plan:
    return replace(p, streams={n: s for n, s in p.streams.items() if n != stream})


MUTATIONS: dict[str, tuple[str, str, Callable[[Plan], Plan]]] = {
    "a stream is forgotten": ("route", "camera", lambda p: without(p, "camera")),
    "a stream nobody asked for": (
        "route",
        "ghost",
        lambda p: replace(p, streams={**p.streams, "ghost": p.streams["camera"]}),
    ),
    "a stream is both planned and refused": (
        "route",
        "camera",
        lambda p: replace(p, refused={"camera": "no place"}),
    ),
    "a stream nobody asked for is refused": (
        "route",
        "ghost",
        lambda p: replace(p, refused={"ghost": "no place"}),
    ),
    "the last hop is missing": (
        "route",
        "motion",
        lambda p: with_stream(p, "motion", p.streams["motion"].hops[:-1]),
    ),
    "a hop in the middle is missing": (
        "route",
        "motion",
        lambda p: with_stream(
            p, "motion", p.streams["motion"].hops[:1] + p.streams["motion"].hops[2:]
        ),
    ),
    "a hop leaves by a port without a link": (
        "route",
        "motion",
        lambda p: with_hop(p, "motion", 2, egress=PortRef("s2", "nowhere")),
    ),
    "a link is crossed twice": (
        "route",
        "motion",
        lambda p: with_stream(
            p, "motion", p.streams["motion"].hops + p.streams["motion"].hops[-1:]
        ),
    ),
    "frames also go which is not a listener": (
        "route",
        "motion",
        lambda p: with_stream(
            p, "motion", (*p.streams["motion"].hops, Hop(PortRef("s3", "l2"), 10**6, 6))
        ),
    ),
    "the wrong queue": ("class", "motion", lambda p: with_hop(p, "motion", 1, traffic_class=0)),
    "another queue on the way, if one it may use": (
        "class",
        "motion",
        lambda p: with_hop(
            with_classes(p, "motion", "cyclic", "best-effort"), "motion", 1, traffic_class=0
        ),
    ),
    "a queue that the stream may not use": (
        "class",
        "motion",
        lambda p: with_classes(p, "motion", "best-effort"),
    ),
    "the talker starts after its window": (
        "talker-window",
        "motion",
        lambda p: moved(p, "motion", 600_000),
    ),
    "a frame is to leave more than a clock error before it is surely there": (
        "precedence",
        "motion",
        lambda p: moved(p, "motion", -1001, first=1),
    ),
    "a gate shuts a nanosecond too soon for a frame that may come after its planned start": (
        "gate-window",
        "s1/s2",
        lambda p: moved(p, "motion", -1, first=1),
    ),
    "a frame waits past its deadline": (
        "deadline",
        "motion",
        lambda p: moved(p, "motion", 50_000, first=3),
    ),
    "the promised latency is a nanosecond short": (
        "bound",
        "motion",
        lambda p: with_stream(
            p, "motion", p.streams["motion"].hops, p.streams["motion"].latency_bound_ns - 1
        ),
    ),
    "two frames are on a link at once": (
        "overlap",
        "s2/s3",
        lambda p: moved(
            p,
            "motion",
            p.streams["torque"].hops[2].offset_ns - p.streams["motion"].hops[2].offset_ns + 100,
        ),
    ),
    "a frame is overtaken in its queue": (
        "fifo",
        "s1/s2",
        lambda p: moved(p, "motion", 100_000, first=1),
    ),
    "a port in use has no gates": (
        "gate-missing",
        "s2/s3",
        lambda p: replace(p, gates={k: v for k, v in p.gates.items() if k != PORT}),
    ),
    "a gate control list for an end station": (
        "gate-stray",
        "t1/eth0",
        lambda p: replace(p, gates={**p.gates, PortRef("t1", "eth0"): p.gates[PORT]}),
    ),
    "the intervals do not fill the cycle": (
        "gate-cycle",
        "s2/s3",
        lambda p: with_entries(p, lambda entries: entries.pop()),
    ),
    "a list without entries": ("gate-cycle", "s2/s3", lambda p: with_entries(p, list.clear)),
    "a cycle out of step with the streams": (
        "gate-cycle",
        "s2/s3",
        lambda p: with_cycle(p, 1_999_999),
    ),
    "an entry too short for the kernel": (
        "gate-interval",
        "s2/s3",
        lambda p: with_entries(
            p,
            lambda entries: entries.__setitem__(
                slice(0, 1),
                [
                    replace(entries[0], interval_ns=479),
                    replace(entries[0], interval_ns=entries[0].interval_ns - 479),
                ],
            ),
        ),
    ),
    "an entry too short for the port": (
        "gate-interval",
        "s2/s3",
        lambda p: with_port_limits(p, gate_interval_min_ns=10_000),
    ),
    "an entry too long for the port": (
        "gate-interval",
        "s2/s3",
        lambda p: with_port_limits(p, gate_interval_max_ns=400_000),
    ),
    "an entry between two ticks of the port": (
        "gate-tick",
        "s2/s3",
        lambda p: with_port_limits(p, gate_tick_ns=32),
    ),
    "a cycle longer than the port's": (
        "gate-cycle",
        "s2/s3",
        lambda p: with_port_limits(p, gate_cycle_max_ns=1_999_999),
    ),
    "more entries than the port holds": (
        "gate-entries",
        "s2/s3",
        lambda p: with_port_limits(p, gate_entries_max=10),
    ),
    "an interval of nothing": (
        "gate-cycle",
        "s2/s3",
        lambda p: with_entries(p, lambda entries: entries.insert(0, GateEntry(CONTROL, 0))),
    ),
    "a gate of no class": ("gate-mask", "s2/s3", lambda p: with_states(p, lambda m: m | 0x08)),
    "control is shut out": ("gate-control", "s2/s3", lambda p: with_states(p, lambda m: m & 0x7F)),
    "the window never opens": (
        "gate-window",
        "s2/s3",
        lambda p: with_states(p, lambda m: m & ~CYCLIC),
    ),
    "the window opens 12 ns late": (
        "gate-window",
        "s2/s3",
        lambda p: with_window_edge_moved(p, 12),
    ),
    "best effort is open in a window": (
        "gate-exclusive",
        "s2/s3",
        lambda p: with_states(p, lambda m: m | BEST_EFFORT),
    ),
    "the guard band is half a frame": ("gate-guard", "s2/s3", with_guard_band_halved),
    "best effort is never open": (
        "starved-best-effort",
        "s2/s3",
        lambda p: with_states(p, lambda m: m & ~BEST_EFFORT),
    ),
    "scheduled frames always come before control": (
        "starved-control",
        "s2/s3",
        with_control_below_the_scheduled_class,
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_plan_is_found_out(good: Plan, mutation: str) -> None:
    code, where, breaks = MUTATIONS[mutation]
    violations = judge(breaks(good))
    assert (code, where) in [(v.code, v.where) for v in violations], violations


def test_a_violation_names_place_figures_and_rule(good: Plan) -> None:
    [violation] = judge(with_port_limits(good, gate_entries_max=10))
    count = len(good.gates[PORT].entries)
    assert str(violation) == f"s2/s3: {count} entries, the port holds 10 [gate-entries]"


def test_frames_of_different_periods_that_meet_late_in_the_hyperperiod_are_found(
    good: Plan,
) -> None:
    """Periods of 500 us and 2 ms: the collision is in the third period of the shorter one."""
    torque, camera = (good.streams[name].hops[2].offset_ns for name in ("torque", "camera"))
    broken = moved(good, "camera", torque + 1_000_000 - camera)
    assert ("overlap", "s2/s3") in [(v.code, v.where) for v in judge(broken)]


def test_frames_of_one_ingress_port_may_share_a_queue_in_their_order(good: Plan) -> None:
    """A bridge keeps their order: torque waits until motion, sent after it, is there as well."""
    gap = good.streams["motion"].hops[1].offset_ns - good.streams["torque"].hops[1].offset_ns
    waiting = moved(good, "torque", gap - 4_000, first=1)
    assert not [v for v in judge(waiting) if v.code == "fifo"]
    overtaken = moved(good, "torque", gap + 4_000, first=1)
    assert ("fifo", "s1/s2") in [(v.code, v.where) for v in judge(overtaken)]


def test_a_cycle_the_kernel_cannot_hold_is_found(good: Plan) -> None:
    longer = {n: replace(s, period_ns=2**32) for n, s in good.intent.streams.items()}
    slow = replace(good, intent=replace(good.intent, streams=longer))
    violations = judge(with_cycle(slow, 2**32))
    text = "the cycle is 4294967296 ns, the kernel takes at most 2147483647 ns"
    assert ("gate-cycle", "s2/s3", text) in violations


def test_a_stream_may_be_refused_instead_of_planned(good: Plan) -> None:
    assert judge(replace(without(good, "camera"), refused={"camera": "no place"})) == []


def test_a_plan_may_choose_any_class_that_the_stream_may_use(good: Plan) -> None:
    assert judge(with_classes(good, "motion", "best-effort", "cyclic")) == []


def test_what_is_wrong_in_every_period_is_told_once(good: Plan) -> None:
    found = judge(with_states(good, lambda states: states & ~CYCLIC))
    assert [v.code for v in found] == ["gate-window"] * len(good.streams)


def test_a_class_of_no_gate_is_told_as_a_wrong_class_only(good: Plan) -> None:
    assert {v.code for v in judge(with_hop(good, "motion", 1, traffic_class=3))} == {"class"}
