"""What switches are told of streams that share windows: filters, and histories of copies.

t ── s1 ── s2 ── s3 ── l
      └─── s4 ───┘         and m at s2
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cnc.check import judge
from cnc.check.lists import readable_lists
from cnc.check.mechanisms import judge_entering
from cnc.check.streams import judge_streams
from cnc.mechanisms.composition import bridge_forwardings
from cnc.mechanisms.frer.model import Recovery, SequenceFunctions
from cnc.mechanisms.stream_filters.model import Policing, PolicingRules, StreamFilters, WindowGate
from cnc.model import BridgeForwarding, Elimination, Intent, Plan, Stream
from tests.unit.bridged_networks import bridged
from tests.unit.planner_networks import MS, RING, US, stream
from tests.unit.shared_windows import sharing

PROPAGATION_NS = RING.links[next(iter(RING.links))].propagation_ns
PROCESSING_NS = RING.bridges["s1"].processing_max_ns
GAP_NS = 95  # 12 octets at 1 Gb/s and 100 millionths more, rounded down


def wanted(*streams: Stream) -> Intent:
    intent = bridged(RING, *streams).having(PolicingRules(Policing.DROP))
    return replace(intent, network=replace(intent.network, disturbance_ns=None))


def found(of: Plan, told: dict[str, BridgeForwarding]) -> list[str]:
    """What the judge of mechanisms says of what the switches are told."""
    transmissions, violations = judge_streams(of, readable_lists(of))
    assert violations == []
    found = judge_entering(of, told, transmissions)
    return [f"{each.code} {each.where}: {each.text}" for each in found]


def gates(of: Plan) -> list[WindowGate]:
    filters = bridge_forwardings(of)["s1"][StreamFilters].filters
    return [its.gate for its in filters if isinstance(its.gate, WindowGate)]


def test_a_filter_is_open_for_as_long_as_frames_of_a_shared_window_may_come() -> None:
    planned = sharing(
        wanted(stream("once", "t", "l", frames=3), stream("other", "t", "m")), 80 * US, 200 * US
    )
    assert judge(planned) == []
    # As its talker starts, of the shortest frame on the fastest link; and when all have left.
    first_ns = 1039 + PROPAGATION_NS - RING.clock_error_ns
    last_ns = 80 * US - GAP_NS + PROPAGATION_NS + PROCESSING_NS + RING.clock_error_ns
    once, other = gates(planned)
    assert (once.start_ns, once.start_ns + once.open_ns - 1) == (first_ns, last_ns)
    assert (other.start_ns, other.open_ns) == (once.start_ns, once.open_ns)
    # Filters are of streams, and count what theirs sends.
    assert (once.octets_max, other.octets_max) == (300, 100)


def with_gate(of: Plan, **changes: Any) -> dict[str, BridgeForwarding]:
    """What switches are told, with another gate of the first stream at s1."""
    told = bridge_forwardings(of)
    first, *others = told["s1"][StreamFilters].filters
    assert isinstance(first.gate, WindowGate)
    first = replace(first, gate=replace(first.gate, **changes))
    return {**told, "s1": told["s1"].having(StreamFilters((first, *others)))}


def test_the_judge_finds_a_filter_that_shuts_before_the_window_is_over() -> None:
    planned = sharing(wanted(stream("once", "t", "l")), 80 * US, 200 * US)
    (its,) = gates(planned)
    exact = "policing once: may come from 139 to 86005 ns, its gate opens from 139 to"
    assert found(planned, with_gate(planned, open_ns=its.open_ns)) == []
    assert found(planned, with_gate(planned, open_ns=its.open_ns - 1)) == [
        f"{exact} 86005 ns at s1/t"
    ]
    wide_ns = its.open_ns + RING.clock_error_ns + 1
    assert found(planned, with_gate(planned, open_ns=wide_ns)) == [
        f"{exact} 87007 ns, wider by more than the clock error of 1000 ns at s1/t"
    ]


def recovery(of: Plan) -> Recovery:
    (its,) = bridge_forwardings(of)["s3"][SequenceFunctions].by_stream.values()
    assert isinstance(its, Recovery)
    return its


def test_a_switch_remembers_numbers_until_the_last_window_of_a_copy_is_over() -> None:
    once = stream("once", "t", "l", paths=2, elimination=Elimination.SWITCH, max_latency_ns=4 * MS)
    short, long = (sharing(wanted(once), its, 550 * US) for its in (100 * US, 400 * US))
    assert found(short, bridge_forwardings(short)) == found(long, bridge_forwardings(long)) == []
    # s3 sends the last copy on in a window that opens after 1.65 ms: it has left by 1.75 ms, in the
    # second period, or by 2.05. A reset is due after that and two periods of silence.
    assert (recovery(short).history_length, recovery(short).reset_timeout_ms) == (2 + 4, 4)
    assert (recovery(long).history_length, recovery(long).reset_timeout_ms) == (3 + 5, 5)
