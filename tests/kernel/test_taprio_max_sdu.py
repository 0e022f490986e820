"""Frames against queue-max-sdu, and what the kernel counts of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.mechanisms.gates.model import ClassCounters, GateState
from agent.model import Clock
from tests.stack.recording_kernel import configured

MAC_OCTETS = 14
LIMIT_OCTETS = 500
ALWAYS_OPEN = (0x3, 400_000), (0x3, 600_000)
# Class 1 sends for 1 µs: 1250 octets at the 10 Gb/s of a veth, less 24 around and 14 in the frame.
SHORT_WINDOW = (0x1, 499_000), (0x3, 1_000), (0x1, 500_000)
LONGEST_IN_WINDOW = 1250 - 24 - MAC_OCTETS


@pytest.fixture
def run(kernel, eventually):
    """Set a taprio on p1 and wait until it runs."""

    def apply(taprio):
        kernel.apply({"p1": configured("p1", taprio)})
        eventually(lambda: kernel.read()["p1"][GateState].running == taprio.schedule)
        eventually(lambda: kernel.read()["p1"][GateState].pending is None)

    return apply


def discards(kernel):
    return kernel.read()["p1"].statistics["out-discards"]


@pytest.mark.reference
def test_a_frame_above_the_limit_is_dropped_and_counted_and_one_at_the_limit_passes(
    kernel, two_classes, run, passes
):
    limited = replace(two_classes(*ALWAYS_OPEN), max_sdu_octets=(0, LIMIT_OCTETS))
    run(limited)
    assert kernel.read()["p1"][GateState].taprio == limited
    before = discards(kernel)
    assert passes(LIMIT_OCTETS)
    assert discards(kernel) == before
    assert not passes(LIMIT_OCTETS + 1)
    assert discards(kernel) == before + 1


def test_a_limit_is_changed_and_removed_while_the_same_qdisc_runs_on(
    kernel, two_classes, run, passes
):
    """A new qdisc would begin to count at 0."""
    unlimited = two_classes(*ALWAYS_OPEN)
    for sent, limit in enumerate((LIMIT_OCTETS, LIMIT_OCTETS + 100, 0)):
        run(replace(unlimited, max_sdu_octets=(0, limit) if limit else ()))
        assert kernel.read()["p1"][GateState].counters[1].frames == sent
        assert passes(limit or 1500)
        assert not limit or not passes(limit + 1)
    assert kernel.read()["p1"][GateState].taprio == unlimited


def test_a_limit_set_again_causes_no_change(kernel, two_classes, run):
    limited = replace(two_classes(*ALWAYS_OPEN), max_sdu_octets=(1000, LIMIT_OCTETS))
    run(limited)
    assert kernel.apply({"p1": configured("p1", limited)}).steps == ()


def test_what_the_window_of_a_class_implies_is_not_taken_for_a_limit(
    kernel, two_classes, run, passes
):
    """The kernel shows the stricter of both. A frame as long as the window stays in its queue: it
    would have to begin in the very nanosecond the gate opens."""
    windowed = two_classes(*SHORT_WINDOW)
    run(windowed)
    assert kernel.read()["p1"][GateState].taprio == windowed
    before = discards(kernel)
    assert not passes(LONGEST_IN_WINDOW)
    assert discards(kernel) == before
    assert not passes(LONGEST_IN_WINDOW + 1)
    assert discards(kernel) == before + 1
    idle = replace(windowed, max_sdu_octets=(0, LONGEST_IN_WINDOW))
    assert kernel.apply({"p1": configured("p1", idle)}).steps == ()
    binding = replace(windowed, max_sdu_octets=(0, LONGEST_IN_WINDOW - 1))
    run(binding)
    assert kernel.read()["p1"][GateState].taprio == binding


def test_the_limits_of_a_waiting_list_are_remembered_since_the_kernel_hides_them(
    kernel, two_classes
):
    later_ns = kernel.ports.now_ns(Clock.TAI) + 3600 * 10**9
    waiting = two_classes(*ALWAYS_OPEN, base_time_ns=later_ns)
    waiting = replace(waiting, max_sdu_octets=(0, LIMIT_OCTETS))
    kernel.apply({"p1": configured("p1", waiting)})
    assert kernel.read()["p1"][GateState].taprio == waiting
    assert kernel.apply({"p1": configured("p1", waiting)}).steps == ()


def test_frames_and_octets_are_counted_by_class(kernel, two_classes, run, passes):
    run(two_classes(*ALWAYS_OPEN))
    assert passes(100)
    assert passes(200)
    assert kernel.read()["p1"][GateState].counters == (
        ClassCounters(frames=0, octets=0, drops=0),
        ClassCounters(frames=2, octets=300 + 2 * MAC_OCTETS, drops=0),
    )
