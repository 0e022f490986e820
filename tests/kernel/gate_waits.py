"""Whether frames waited at closed gates as the lists say that the kernels of a lab run, and whether
what events of the kernel tell apart of that adds up to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from cnc.data_tree.tree import KernelSchedule
from cnc.model import NS_PER_S
from cnc.rollout import status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.record import Trace

# Reading a clock takes this much virtual time, and every time stamp is a reading.
CLOCK_NS = 256
ON_LINK_OCTETS = 24  # preamble and delimiter, frame check sequence, gap


def listed_ns(schedule: KernelSchedule, gate: int, duration_ns: int, arrived_ns: int) -> int:
    """How long a frame that arrives then waits by the list that a kernel runs."""
    cycle_ns = schedule.gates.cycle_ns
    phase_ns = (arrived_ns - schedule.base_time_ns) % cycle_ns
    begin_ns = now_ns = 0
    for entry in schedule.gates.entries * 3:
        now_ns += entry.interval_ns
        if not entry.gate_states >> gate & 1:
            begin_ns = now_ns
        elif (start_ns := max(begin_ns, phase_ns)) + duration_ns < now_ns:
            return start_ns - phase_ns
    raise AssertionError("its gate opens for no frame of this length")


def wrong(traced: Trace, running: Lab) -> list[str]:
    """The frames at ports with gates whose wait is not what the kernel's list says, of a reading of
    the clock more or less."""
    links = running.intent.network.links
    lists = {
        each.port: each.running
        for each in status(traced.plan, connect=running.connect)
        if each.running
    }
    found = []
    checked = 0
    for account in traced.accounts():
        waits_ns = {p.place: p.duration_ns for p in account.parts if p.layer is Layer.GATE_CLOSED}
        for port, entered_ns, _, place, _ in account.row.crossings:
            if port not in lists:
                assert waits_ns[str(port)] == 0
                continue
            assert entered_ns is not None
            assert place is not None
            octets = traced.taps[port].left[place].octets + ON_LINK_OCTETS
            duration_ns = octets * 8 * NS_PER_S // links[port].rate_bps
            said_ns = [
                listed_ns(lists[port], account.row.flow.traffic_class, duration_ns, instant_ns)
                for instant_ns in (entered_ns, entered_ns + CLOCK_NS)
            ]
            wait_ns = waits_ns[str(port)]
            checked += 1
            if wait_ns is None or min(abs(wait_ns - each) for each in said_ns) > CLOCK_NS:
                found.append(
                    f"{account.row.flow.name}/{account.row.seq} {port}: {wait_ns} {said_ns}"
                )
    print(f"{checked} waits at gates")
    assert checked
    return found


def check(traced: Trace, running: Lab) -> None:
    rows = 0
    for each in traced.accounts():  # one at a time: there may be a million
        rows += 1
        durations_ns = [part.duration_ns or 0 for part in each.parts]
        assert each.row.is_complete, each.row
        assert min(durations_ns) >= 0, each
        assert sum(durations_ns) == each.total_ns, each
    print(running.intent.name, rows, "rows")
    assert rows
    assert wrong(traced, running) == []


def check_events(traced: Trace) -> None:
    by_taps, by_events = list(replace(traced, events=None).accounts()), list(traced.accounts())
    assert [each for each in by_events if each.total_ns is None] == []
    changed = 0
    for coarse, fine in zip(by_taps, by_events, strict=True):
        assert [part for part in fine.parts if (part.duration_ns or 0) < 0] == []
        assert _by_place(coarse) == _by_place(fine)
        changed += sum(
            coarse.layer_ns(each) != fine.layer_ns(each) for each in (Layer.QDISC, Layer.LISTENER)
        )
    print(f"{len(by_events)} rows add up, {changed} layers of them are told apart by events")
    assert changed


def _by_place(account: Account) -> dict[tuple[str, bool], int]:
    """The time at each place, that on the cable apart."""
    sums: dict[tuple[str, bool], int] = defaultdict(int)
    for part in account.parts:
        assert part.duration_ns is not None
        sums[part.place, part.layer is Layer.WIRE] += part.duration_ns
    return sums
