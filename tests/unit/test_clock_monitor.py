"""How far the clock was from its time transmitter's in the last seconds."""

from __future__ import annotations

import pytest

from agent.kernel.clock_monitor import WINDOW_S, ClockMonitor, ManagedClock, Measured
from agent.kernel.ptp_management import Domain
from agent.model import PtpPortState, PtpStatus

CLOCK = ManagedClock(0, "/nowhere", Domain(1, 0))


def follows(offset_ns, state=PtpPortState.SLAVE):
    return PtpStatus(
        "own", "gm", "gm", is_grandmaster=False, offset_from_master_ns=offset_ns, ports={1: state}
    )


class Answers:
    """A monitor that is read once a second, by the test alone."""

    def __init__(self, monkeypatch):
        self.status = None
        self.now_s = 100.0
        self.monitor = ClockMonitor(lambda _: self.status, lambda: self.now_s)
        monkeypatch.setattr(self.monitor, "_run", lambda: None)
        self.monitor.follow(CLOCK)

    def read(self, status, times=1):
        for _ in range(times):
            self.status = status
            self.now_s += 1
            self.monitor.read()
        return self.monitor.measured()


@pytest.fixture
def answers(monkeypatch):
    return Answers(monkeypatch)


def test_the_greatest_distance_counts_whatever_its_sign(answers):
    answers.read(follows(100))
    answers.read(follows(-900))

    assert answers.read(follows(300)) == Measured(900, 2)


def test_what_is_older_than_the_window_counts_no_more(answers):
    answers.read(follows(50_000))
    assert answers.read(follows(200), WINDOW_S) == Measured(50_000, WINDOW_S)

    assert answers.read(follows(200)) == Measured(200, WINDOW_S)


@pytest.mark.parametrize(
    "gap", [None, follows(5, PtpPortState.UNCALIBRATED), follows(5, PtpPortState.LISTENING)]
)
def test_a_clock_that_ceases_to_follow_begins_anew(answers, gap):
    answers.read(follows(100), WINDOW_S + 1)

    assert answers.read(gap) == Measured()
    assert answers.read(follows(100), 4) == Measured(100, 3)


def test_the_grandmaster_is_not_away_from_itself(answers):
    grandmaster = PtpStatus("own", "own", "own", True, None, {1: PtpPortState.MASTER})

    assert answers.read(grandmaster, WINDOW_S + 1) == Measured(0, WINDOW_S)


def test_another_daemon_begins_anew_and_the_same_one_does_not(answers):
    answers.read(follows(100), 5)
    answers.monitor.follow(CLOCK)
    assert answers.monitor.measured() == Measured(100, 4)

    answers.monitor.follow(ManagedClock(1, "/elsewhere", Domain(1, 0)))
    assert answers.monitor.measured() == Measured()
    answers.monitor.follow(None)
    assert answers.read(follows(100)) == Measured()
