"""How late timers are while something is measured."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from cnc.errors import CncError
from cnc.support import exact_clock as clock
from cnc.testbed.lab import timer_latency
from cnc.testbed.lab.timer_latency import PERIOD_NS, TimerProbe


def test_on_a_real_clock_timers_are_measured_meanwhile():
    with TimerProbe() as timers:
        time.sleep(0.05)
    late = timers.latency
    assert late is not None
    assert late.timers >= 1
    assert 0 < late.p99_ns <= late.max_ns


def test_on_an_exact_clock_no_program_runs_beside_the_measurement(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clock, "is_exact", lambda: True)
    monkeypatch.setattr(subprocess, "Popen", None)
    with TimerProbe() as timers:
        pass
    assert timers.latency is None


def test_each_timer_that_a_standstill_covers_counts(monkeypatch: pytest.MonkeyPatch):
    now_ns = [0]

    def sleep_until(instant_ns: int) -> None:
        """The machine stands still for three periods once, after the second."""
        stands_still_ns = 3 * PERIOD_NS if instant_ns == 2 * PERIOD_NS else 0
        now_ns[0] = max(now_ns[0], instant_ns + stands_still_ns)

    monkeypatch.setattr(timer_latency, "sleep_until", sleep_until)
    monkeypatch.setattr(timer_latency, "tai_ns", lambda: now_ns[0])
    over = iter([False] * 5 + [True])
    late = [3 * PERIOD_NS, 2 * PERIOD_NS, PERIOD_NS]
    assert timer_latency.lateness_ns(lambda: next(over)) == [0, *late, 0, 0]


def test_a_program_that_fails_says_why(monkeypatch: pytest.MonkeyPatch):
    failing = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.exit('no such clock')"]
    real = subprocess.Popen
    monkeypatch.setattr(timer_latency.subprocess, "Popen", lambda _, **keys: real(failing, **keys))
    with pytest.raises(CncError) as raised, TimerProbe():
        pass
    assert raised.value.hint == "no such clock"


def test_an_interrupted_measurement_ends_its_program():
    timers = TimerProbe()
    begun_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt), timers:
        raise KeyboardInterrupt
    assert timers.latency is None
    assert time.monotonic() - begun_s < 30
