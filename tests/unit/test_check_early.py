"""A gate that is open before the planned time lets a frame go on early, and that may spoil order.

One stream, `far`, crosses three switches; `near` joins its queue at the last. Frames take
804 ns to the far end of a link, a nanosecond more or less as the link is slow or fast, at least
1000 and at most 2000 ns through a switch, and clocks differ by up to 500 ns:

    t ── s1 ── s2 ── s3 ── l
                      └─ u
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cnc.check import Violation, judge
from cnc.model import (
    Bridge,
    ClassRole,
    EndStation,
    GateControlList,
    GateEntry,
    Hop,
    Intent,
    Link,
    Network,
    Plan,
    PortRef,
    Stream,
    StreamPlan,
    TrafficClass,
)

MS = 1_000_000
CYCLIC = TrafficClass("cyclic", 6, 6, (46,), ClassRole.SCHEDULED)
BEST_EFFORT = TrafficClass("best-effort", 0, 0, (0,), ClassRole.BEST_EFFORT, 64)
CABLES = [("t", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "l"), ("u", "s3")]
FRAME_NS = 801  # 58 octets of payload, 42 around them, at 1 Gbit/s less 100 ppm
LATEST_NS = 805 + 500 + 2000  # from the start at the talker to the frame surely in the queue
GUARD_NS = (64 + 20) * 8 + 1
SOONEST_NS = 803 + 1000  # from the start at a switch to the queue of the next

# When each hop of `far` is planned to start, and `near` at s3.
AT_S1, AT_S2, AT_S3 = 10_000, 20_000, 40_000
NEAR_AT_S3 = 30_000
# When `far` is at s3 at the earliest if s2 holds it until it is planned to leave.
HELD = AT_S2 + SOONEST_NS - 500


def network() -> Network:
    links = {}
    for one, other in CABLES:
        for source, target in ((one, other), (other, one)):
            egress = PortRef(source, target)
            links[egress] = Link(egress, PortRef(target, source), 10**9, 100)
    bridges = {name: Bridge(name, 1000, 2000) for name in ("s1", "s2", "s3")}
    return Network(bridges, {n: EndStation(n) for n in "tul"}, links, clock_error_ns=500)


def stream(name: str, talker: str, period_ns: int = MS) -> Stream:
    return Stream(name, talker, ("l",), ("cyclic",), period_ns, 58, max_latency_ns=10 * MS)


def gates(cycle_ns: int, *windows: tuple[int, int]) -> GateControlList:
    """Cyclic open in the windows, nothing in the guard time before, else best effort."""
    entries = []
    time = 0
    for start, end in windows:
        entries += [
            GateEntry(0x01, start - GUARD_NS - time),
            GateEntry(0x00, GUARD_NS),
            GateEntry(0x40, end - start),
        ]
        time = end
    return GateControlList(cycle_ns, (*entries, GateEntry(0x01, cycle_ns - time)))


def frame(offset_ns: int) -> tuple[int, int]:
    return offset_ns, offset_ns + FRAME_NS


def violations(
    near_talker_ns: int,
    at_s2: GateControlList | None,
    *,
    at_s1: GateControlList | None = None,
    far_at_s3_ns: int = AT_S3,
    near_period_ns: int = MS,
) -> list[Violation]:
    """The judge's words on the plan with these gates, `near` sent at this time."""
    at_s3 = gates(MS, *map(frame, sorted((NEAR_AT_S3, far_at_s3_ns % MS))))
    lists: Mapping[PortRef, GateControlList | None] = {
        PortRef("s1", "s2"): at_s1 or gates(MS, frame(AT_S1)),
        PortRef("s2", "s3"): at_s2,
        PortRef("s3", "l"): at_s3,
    }
    far = [("t", "s1", 0), ("s1", "s2", AT_S1), ("s2", "s3", AT_S2), ("s3", "l", far_at_s3_ns)]
    near = [("u", "s3", near_talker_ns), ("s3", "l", NEAR_AT_S3)]
    streams = [stream("far", "t"), stream("near", "u", near_period_ns)]
    plan = Plan(
        Intent(
            "early",
            network(),
            {c.name: c for c in (CYCLIC, BEST_EFFORT)},
            {s.name: s for s in streams},
            {},
        ),
        {
            name: StreamPlan((tuple(Hop(PortRef(a, b), o, 6) for a, b, o in hops),), 10 * MS)
            for name, hops in (("far", far), ("near", near))
        },
        {port: entries for port, entries in lists.items() if entries is not None},
        "by hand",
    )
    return judge(plan)


OPENINGS = {
    "it is held until the planned time": (gates(MS, frame(AT_S2)), HELD),
    "the gate opens 5 us too soon": (gates(MS, (AT_S2 - 5_000, AT_S2 + FRAME_NS)), HELD - 5_000),
    # It reaches s2 by 11_303 of that clock or later, 11_803 of s1's: s1's says when it is at s3.
    "the gate does not hold it back": (
        gates(MS, (11_000, AT_S2 + FRAME_NS)),
        AT_S1 + 2 * SOONEST_NS - 500,
    ),
    "the gate opens between its arrival by one clock and by another": (
        gates(MS, (11_600, AT_S2 + FRAME_NS)),
        AT_S1 + 2 * SOONEST_NS - 500,
    ),
    "the gate opens for another frame before": (
        gates(MS, frame(13_000), frame(AT_S2)),
        13_000 + SOONEST_NS - 500,
    ),
    "the gate has closed when it comes": (gates(MS, (10_000, 11_303), frame(AT_S2)), HELD),
    "the gate closes a nanosecond later": (
        gates(MS, (10_000, 11_304), frame(AT_S2)),
        AT_S1 + 2 * SOONEST_NS - 500,
    ),
}


@pytest.mark.parametrize("case", OPENINGS)
def test_an_early_frame_may_come_early_to_later_switches(case: str) -> None:
    """A frame planned to leave first must be there before that: one instant has no order."""
    at_s2, earliest_at_s3_ns = OPENINGS[case]
    assert violations(earliest_at_s3_ns - LATEST_NS - 1, at_s2) == []
    [found] = violations(earliest_at_s3_ns - LATEST_NS, at_s2)
    assert (found.code, found.where) == ("fifo", "s3/l")
    assert f"far may lie in the queue of class 6 from {earliest_at_s3_ns} ns" in found.text


def test_an_opening_in_any_period_counts() -> None:
    """The cycle holds two periods of `far`; the gate opens too soon in the second."""
    second = gates(2 * MS, frame(AT_S2), (MS + AT_S2 - 5_000, MS + AT_S2 + FRAME_NS))
    sent = HELD - 5_000 - LATEST_NS - 1
    assert violations(sent, second, near_period_ns=2 * MS) == []
    found = violations(sent + 1, second, near_period_ns=2 * MS)
    assert [v.code for v in found] == ["fifo"]


def test_without_a_gate_control_list_nothing_holds_a_frame() -> None:
    unheld = AT_S1 + 2 * SOONEST_NS - 500
    assert [v.code for v in violations(unheld - LATEST_NS - 1, None)] == ["gate-missing"]
    codes = [v.code for v in violations(unheld - LATEST_NS, None)]
    assert codes == ["fifo", "gate-missing"]


def test_an_early_start_at_one_switch_is_carried_through_the_next() -> None:
    early_at_s1 = gates(MS, (AT_S1 - 4_000, AT_S1 + FRAME_NS))
    unheld = AT_S1 - 4_000 + 2 * SOONEST_NS - 500
    open_at_s2 = gates(MS, (7_000, AT_S2 + FRAME_NS))
    assert violations(unheld - LATEST_NS - 1, open_at_s2, at_s1=early_at_s1) == []
    found = violations(unheld - LATEST_NS, open_at_s2, at_s1=early_at_s1)
    assert [v.code for v in found] == ["fifo"]


def test_a_frame_that_waits_for_more_than_a_period_meets_those_of_the_next() -> None:
    """`near` leaves every period, so one comes while `far` lies in the queue."""
    sent = HELD - LATEST_NS - 1
    assert violations(sent, gates(MS, frame(AT_S2))) == []
    [found] = violations(sent, gates(MS, frame(AT_S2)), far_at_s3_ns=AT_S3 + MS)
    assert (found.code, found.where) == ("fifo", "s3/l")


def test_the_order_holds_over_the_end_of_the_hyperperiod() -> None:
    """`far` is planned to leave 10 us into the next period: `near` has left long before."""
    held, at_s3 = gates(MS, frame(AT_S2)), MS + 10_000
    assert violations(HELD - LATEST_NS - 1, held, far_at_s3_ns=at_s3) == []
    [found] = violations(HELD - LATEST_NS, held, far_at_s3_ns=at_s3)
    assert (found.code, found.where) == ("fifo", "s3/l")
