"""Comparison of the switches' clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cnc.data_tree.state import SwitchState
from cnc.support.format import duration

# Allowed difference of two reads of one clock, beyond the time that request and reply took.
READ_TOLERANCE_NS = 1_000_000
# How fast a clock may move against the controller's while its last reading grows old: 100 ppm.
DRIFT_PER_NS = 10_000


@dataclass(frozen=True, slots=True)
class Offset:
    """Offset of a clock from the median of the network: the estimate and the proven part.

    `certain_ns` has the sign of the offset, and is 0 if the readings do not exclude agreement.
    """

    estimate_ns: int
    certain_ns: int
    reference: str


def offsets(states: Mapping[str, SwitchState], now_ns: int) -> dict[str, Offset]:
    """The offset of each switch that reports a clock. `now_ns` is on the controller's monotonic.

    The reference is the median clock, which a minority of wrong clocks cannot shift.
    """
    bounds = {}
    for name, state in states.items():
        if read := state.tai_minus_monotonic_ns():
            slack_ns = (now_ns - state.answered_ns) // DRIFT_PER_NS
            bounds[name] = (read[0] - slack_ns, read[1] + slack_ns)
    if not bounds:
        return {}
    by_time = sorted(bounds, key=lambda name: (sum(bounds[name]), name))
    reference = by_time[(len(by_time) - 1) // 2]
    low_ns, high_ns = bounds[reference]
    return {
        name: Offset(
            estimate_ns=(lower + upper - low_ns - high_ns) // 2,
            certain_ns=max(0, lower - high_ns) - max(0, low_ns - upper),
            reference=reference,
        )
        for name, (lower, upper) in bounds.items()
    }


def timed(pushed: SwitchState, reading: SwitchState) -> SwitchState | None:
    """A state that a switch sent unasked, with the earliest moment at which it can have read it.

    A request bounds that moment, of pushed data only the receipt is known. The time that the
    switch's clock shows in them is compared with a former `reading` of this clock by a request,
    since which it may have drifted. None: the clock was set in between, or `reading` has none.
    A state without a clock is returned as it is.
    """
    shown, known = pushed.tai_minus_monotonic_ns(), reading.tai_minus_monotonic_ns()
    if shown is None:
        return pushed
    if known is None:
        return None
    age_ns = abs(pushed.answered_ns - reading.asked_ns)
    earliest_ns = pushed.answered_ns + shown[1] - known[1] - age_ns // DRIFT_PER_NS
    if earliest_ns > pushed.answered_ns:
        return None
    return replace(pushed, asked_ns=earliest_ns)


def off_beyond(found: Mapping[str, Offset], clock_error_ns: int) -> dict[str, str]:
    """The switches whose offset exceeds the network's clock error, with a description."""
    return {
        name: f"its TAI clock is at least {duration(abs(offset.certain_ns))} "
        f"{'ahead of' if offset.certain_ns > 0 else 'behind'} that of {offset.reference}"
        for name, offset in found.items()
        if abs(offset.certain_ns) > clock_error_ns + READ_TOLERANCE_NS
    }


def odd_tai_offsets(states: Mapping[str, SwitchState]) -> dict[str, str]:
    """The switches whose kernel has a different TAI offset than most.

    In a tie the lesser offset is the odd one, because 0 is the value of an unset offset.
    """
    offsets_s = {
        name: state.agent.tai_offset_s
        for name, state in states.items()
        if state.agent and state.agent.tai_offset_s is not None
    }
    if not offsets_s:
        return {}
    counts = Counter(offsets_s.values())
    usual = max(counts, key=lambda offset: (counts[offset], offset))
    return {
        name: f"TAI is {offset} s ahead of UTC here, {usual} s on the other switches"
        for name, offset in offsets_s.items()
        if offset != usual
    }
