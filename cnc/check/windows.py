"""Gate control lists against frames: do they let out what is planned, with nothing beside it?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from cnc.account.frames import Transmission
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import guard_ns
from cnc.check.lists import is_gated_port
from cnc.model import ClassRole, Intent, Link, Plan, PortRef


def judge_windows(
    plan: Plan, lists: Mapping[PortRef, GateCycle], transmissions: Iterable[Transmission]
) -> Iterator[Violation]:
    """Each planned frame on a gated port, in every period until the cycle repeats with it."""
    network = plan.intent.network
    by_port = defaultdict(list)
    for t in transmissions:
        if is_gated_port(network, t.egress):
            by_port[t.egress].append(t)
    for port in sorted(by_port.keys() - plan.gates.keys()):
        streams = ", ".join(sorted({t.stream for t in by_port[port]}))
        yield Violation("gate-missing", str(port), f"no gate control list, but {streams} pass")
    known = {c.number for c in plan.intent.classes.values()}
    for port, gates in lists.items():
        for t in by_port[port]:
            if t.is_shared and port.node in network.bridges:
                continue  # `judge_shared` looks at those
            if t.traffic_class in known:  # another is reported as a wrong class
                gate, duration_ns = gates.gate(t.traffic_class), t.busy_until_ns - t.offset_ns
                if doubtful := gate.doubtful(t.offset_ns, duration_ns, t.period_ns):
                    yield from _judge_frame(plan.intent, network.links[port], gates, t, doubtful)


def _judge_frame(
    intent: Intent, link: Link, gates: GateCycle, t: Transmission, shifts: Iterable[int]
) -> Iterator[Violation]:
    """What is wrong in the first period in which anything is: one tells the story."""
    for shift in shifts:
        if found := list(_judge_period(intent, link, gates, t, shift)):
            yield from found
            return


def _judge_period(
    intent: Intent, link: Link, gates: GateCycle, t: Transmission, shift_ns: int
) -> Iterator[Violation]:
    where = str(t.egress)
    start, end = t.offset_ns + shift_ns, t.busy_until_ns + shift_ns
    frame = f"for {t.stream}, planned for {start} to {end} ns"
    if gates.early_ns:
        end += gates.early_ns
        frame += f", and gates may change {gates.early_ns} ns early"
    if shut := end - start - gates.open_ns(t.traffic_class, start, end):
        text = f"the gate of class {t.traffic_class} is closed for {shut} ns {frame}"
        yield Violation("gate-window", where, text)
    # What else a talker sends of the classes that streams have is planned, too.
    is_talker = t.egress.node in intent.network.end_stations
    with_it = intent.classes_with(ClassRole.CONTROL)
    with_it += intent.planned_classes() if is_talker else []
    for c in intent.classes.values():
        if c in with_it or c.number == t.traffic_class:
            continue
        if shared := gates.open_ns(c.number, start, end):
            text = f"class {c.name} is open for {shared} ns of the time {frame}"
            yield Violation("gate-exclusive", where, text)
    # A frame that is early may find the wire still busy; at its planned time it must be free.
    for c in intent.unplanned_classes():
        guard = guard_ns(intent, link, c)
        if gates.open_ns(c.number, start - guard, start):
            text = f"a frame of class {c.name} ({guard} ns) may still be on the wire {frame}"
            yield Violation("gate-guard", where, text)
