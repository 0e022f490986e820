"""Which clocks may run a schedule, and what is said of those that may not."""

from __future__ import annotations

import pytest

from cnc.rollout.preflight import Check, Verdict
from cnc.rollout.preflight.clocks import examine_clocks
from cnc.rollout.preflight.settled import trust
from cnc.switch.device import SwitchState
from cnc.switch.tree import AgentReport, ClockReport, ClockSource, PtpReport

CLOCK_ERROR_NS = 1_000


def managed(offset_max_ns, measured_s=10):
    return ClockReport(ClockSource.MANAGED, 0, offset_max_ns, measured_s)


def unmanaged(synchronised):
    return ClockReport(ClockSource.UNMANAGED, synchronised=synchronised)


SHARED = ClockReport(ClockSource.SHARED)

# clock, TAI offset in seconds, whether it is settled, what is said
CASES = [
    (managed(300), 37, True, "managed by PTP instance 0: at most 300 ns off in the last 10 s"),
    (managed(1_000), 37, True, "managed by PTP instance 0: at most 1 µs off in the last 10 s"),
    (
        *(managed(1_001), 37, False),
        "managed by PTP instance 0: at most 1.001 µs off in the last 10 s; the plan allows 1 µs",
    ),
    (
        *(managed(300, 4), 37, False),
        "managed by PTP instance 0: at most 300 ns off in the last 4 s, of the 10 s that it takes",
    ),
    (
        *(managed(None, 0), 37, False),
        "managed by PTP instance 0: it does not follow a grandmaster",
    ),
    (unmanaged(True), 37, True, "unmanaged: synchronised, TAI offset 37 s"),
    (unmanaged(True), 0, False, "unmanaged: the kernel has no TAI offset"),
    (
        *(unmanaged(False), 37, False),
        "unmanaged: the kernel says that no program synchronises it",
    ),
    (
        *(unmanaged(None), 37, None),
        "unmanaged: the agent cannot ask the kernel whether it is synchronised",
    ),
    (SHARED, 0, True, "shared: all switches have the clock of one machine"),
]


@pytest.mark.parametrize(("clock", "tai_offset_s", "is_settled", "text"), CASES)
def test_a_clock_is_settled_or_not_and_it_is_said_why(clock, tai_offset_s, is_settled, text):
    found = trust(clock, tai_offset_s, CLOCK_ERROR_NS)

    assert found.is_settled is is_settled
    assert found.text == text


def findings(clock, ptp=None, *, tai_offset_s=37, others=()):
    state = SwitchState(AgentReport(tai_offset_s, 100, ptp=ptp, clock=clock), {}, 0, 0)
    states = dict.fromkeys(("s1", *others), state)
    found = examine_clocks(states, CLOCK_ERROR_NS)
    return [each for each in found if each.check is Check.PTP and each.switch == "s1"]


def test_a_push_is_refused_while_a_managed_clock_has_not_settled():
    (finding,) = findings(managed(2_000))

    assert finding.verdict is Verdict.FAILED
    assert "2 µs off" in finding.text
    assert "clock-error" in finding.hint


def test_a_managed_clock_that_has_settled_is_compared_with_the_others_as_well():
    follows = PtpReport("001122.fffe.334455", False, 300, ("slave",))

    assert [each.verdict for each in findings(managed(300), follows)] == [Verdict.OK] * 2


def test_one_clock_for_all_needs_no_ptp():
    (finding,) = findings(SHARED)

    assert finding.verdict is Verdict.OK


def test_a_ptp4l_beside_a_shared_clock_is_judged_by_what_it_says():
    (finding,) = findings(SHARED, PtpReport("001122.fffe.334455", False, None, ("listening",)))

    assert finding.verdict is Verdict.FAILED
    assert finding.text == "not locked: listening"


def test_an_agent_that_does_not_say_what_keeps_its_clock_is_judged_as_before():
    (finding,) = findings(None, others=["s2"])

    assert finding.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("clock", "tai_offset_s", "verdict"),
    [
        (unmanaged(True), 37, Verdict.OK),
        (unmanaged(False), 37, Verdict.FAILED),
        (unmanaged(True), 0, Verdict.FAILED),
        (unmanaged(None), 37, Verdict.UNKNOWN),
    ],
)
def test_switches_whose_clocks_nobody_keeps_together_take_no_schedule(clock, tai_offset_s, verdict):
    (finding,) = findings(clock, tai_offset_s=tai_offset_s, others=["s2"])

    assert finding.verdict is verdict
    assert finding.text.startswith("unmanaged: ")
    assert verdict is not Verdict.FAILED or "chrony" in finding.hint


def test_one_switch_alone_takes_a_schedule_on_whatever_clock_it_has():
    (finding,) = findings(unmanaged(False))

    assert finding.verdict is Verdict.WARNING


def test_a_ptp4l_that_nobody_manages_says_more_than_the_kernel_does():
    leads = PtpReport("001122.fffe.334455", True, 0, ("master",))
    (finding,) = findings(unmanaged(False), leads, others=["s2"])

    assert finding.verdict is Verdict.OK
    assert finding.text.startswith("grandmaster")
