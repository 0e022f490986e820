"""What is wrong with the lists of ports that an operator gives: by the standard, and beside what
is given. Where streams leave beside windows by share, only these are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate

from cnc.account.judge import Judge
from cnc.account.openings import GateCycle
from cnc.account.violation import Violation
from cnc.account.wire import slot_ns, wire_ns
from cnc.mechanisms.gates.given import GivenList, GivenLists
from cnc.model import ClassRole, GateControlList, Intent, Link, Plan, PortRef, TrafficClass

_WHOLE_PPB = 10**9


def _whole(plan: Plan) -> Collection[PortRef]:
    """The ports that run what they are given: those with windows by share, too, where these leave
    nothing to streams."""
    given = plan.intent[GivenLists]
    return {
        port
        for port in given.by_port.keys() & plan.gates.keys()
        if port not in given.shared or _is_as_given(port, given.by_port[port], plan.gates[port])
    }


def _repeats_ns(intent: Intent) -> dict[PortRef, int]:
    given = intent[GivenLists]
    return {port: given.by_port[port].cycle_ns for port in given.shared}


def _lists(plan: Plan, ports: Collection[PortRef] | None) -> Iterator[Violation]:
    lists = plan.intent[GivenLists]
    for port, given in lists.by_port.items():
        if ports is not None and port not in ports:
            continue
        gates = plan.gates.get(port)
        link = plan.intent.network.links.get(port)
        if gates is None or link is None:
            yield Violation("gate-given", str(port), "no gate control list, but one is given")
            continue
        if sum(each.interval_ns for each in gates.entries) != gates.cycle_ns:
            continue  # which the rules for all lists report
        classes: Collection[TrafficClass] = plan.intent.classes.values()
        if port in lists.shared and not _is_as_given(port, given, gates):
            yield from _by_share(plan.intent, port, given, gates)
            classes = [its for its in classes if its.windows_are_given]
        else:
            yield from _as_given(port, given, gates)
        yield from _classes(plan.intent, link, gates, classes)


def _is_as_given(port: PortRef, given: GivenList, gates: GateControlList) -> bool:
    return next(_as_given(port, given, gates), None) is None


def _by_share(
    intent: Intent, port: PortRef, given: GivenList, gates: GateControlList
) -> Iterator[Violation]:
    """Whether the windows of classes by share are as they are given, whatever the list opens
    between these."""
    shared = sum(1 << its.number for its in intent.classes.values() if its.windows_are_given)
    if gates.cycle_ns % given.cycle_ns:
        text = f"the cycle is {gates.cycle_ns} ns, no multiple of the {given.cycle_ns} ns given"
        yield Violation("gate-given", str(port), text)
        return
    due_at = _changes(GateControlList(given.cycle_ns, given.entries), gates.cycle_ns)
    run_at = _changes(gates, gates.cycle_ns)
    wanted = found = 0
    for at in sorted(due_at.keys() | run_at.keys()):
        wanted, found = due_at.get(at, wanted), run_at.get(at, found)
        opened = wanted if wanted & shared else found & ~shared
        if found != opened:
            text = f"gates are {found:#04x} at {at} ns of the cycle, {opened:#04x} by share"
            yield Violation("gate-given", str(port), text)
            return


def _changes(gates: GateControlList, until_ns: int) -> dict[int, int]:
    """The states from each time on, over several cycles."""
    begins = accumulate((each.interval_ns for each in gates.entries), initial=0)
    once = dict(zip(begins, (each.gate_states for each in gates.entries), strict=False))
    turns = range(0, until_ns, gates.cycle_ns)
    return {turn + at: states for turn in turns for at, states in once.items()}


def _as_given(port: PortRef, given: GivenList, gates: GateControlList) -> Iterator[Violation]:
    """Whether all gates are at all times as the state machines of 802.1Q-2022 8.6.9 have them."""
    if gates.cycle_ns != given.cycle_ns:
        text = f"the cycle is {gates.cycle_ns} ns, {given.cycle_ns} ns are given"
        yield Violation("gate-given", str(port), text)
        return
    begins = [0, *accumulate(each.interval_ns for each in given.entries)]
    changes = {(at + given.base_offset_ns) % given.cycle_ns for at in begins if at < given.cycle_ns}
    ends = accumulate(each.interval_ns for each in gates.entries)
    planned = dict(zip([0, *ends][:-1], gates.entries, strict=True))
    now = 0
    for at in sorted({0, *changes, *(at for at in planned if at < gates.cycle_ns)}):
        now = planned[at].gate_states if at in planned else now
        due = _states(given, begins, (at - given.base_offset_ns) % given.cycle_ns)
        if now != due:
            text = f"gates are {now:#04x} at {at} ns of the cycle, {due:#04x} are given"
            yield Violation("gate-given", str(port), text)
            return


def _states(given: GivenList, begins: list[int], phase_ns: int) -> int:
    """Which gates are open so long after the list has begun: those of the last entry from its
    beginning on."""
    number = min(bisect_right(begins, phase_ns), len(given.entries)) - 1
    return given.entries[number].gate_states


def _classes(
    intent: Intent, link: Link, gates: GateControlList, classes: Iterable[TrafficClass]
) -> Iterator[Violation]:
    cycle = GateCycle(gates, gated=0, best_effort=0, guard_ns=0)
    known = sum(1 << its.number for its in intent.classes.values())
    for index, entry in enumerate(gates.entries):
        if strange := entry.gate_states & ~known:
            text = f"entry {index} opens gates {strange:#04x} of no class"
            yield Violation("gate-mask", str(link.source), text)
    for its in classes:
        yield from _class(intent, link, cycle, its)


def _class(intent: Intent, link: Link, cycle: GateCycle, its: TrafficClass) -> Iterator[Violation]:
    bit = 1 << its.number
    runs = list(cycle.runs_ns(bit, bit))
    if not runs and its.role is ClassRole.SCHEDULED:
        return
    frame_ns, slot = wire_ns(intent, link, its), slot_ns(intent, link, its)
    longest_ns = max(runs, default=0)
    if longest_ns < min(slot, cycle.cycle_ns):
        off = f" and its gate may be off by {slot - frame_ns} ns" if slot > frame_ns else ""
        text = (
            f"class {its.name} is never open for more than {longest_ns} ns, its largest frame "
            f"takes {frame_ns} ns{off}"
        )
        yield Violation("gate-frame", str(link.source), text)
    opened_ns = sum(run - link.gate_early_ns for run in runs if run >= slot)
    wanted = its.min_share_ppb or 0
    if longest_ns < cycle.cycle_ns and opened_ns * _WHOLE_PPB < wanted * cycle.cycle_ns:
        text = (
            f"class {its.name} is open for {opened_ns} ns of {cycle.cycle_ns} ns in turns long "
            f"enough for its largest frame, its min-share is {wanted * 100 / _WHOLE_PPB:g}%"
        )
        yield Violation("best-effort-share", str(link.source), text)


JUDGE = Judge(given=_whole, repeats=_repeats_ns, lists=_lists, is_local=True)
