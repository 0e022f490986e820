"""What a port's gates can take, by mode and driver."""

from __future__ import annotations

import platform
import time

import pytest

from agent.mechanisms.gates import limits, taprio
from agent.mechanisms.gates.model import GateLimits, TaprioMode


def test_in_software_the_kernels_own_bounds_hold_whatever_the_driver():
    of_software = limits.limits_for(TaprioMode.SOFTWARE, "tsnep")
    assert (of_software.list_max, of_software.cycle_max_ns) == (430, 2**31 - 1)
    assert of_software.interval_max_ns == 2**31 - 1


@pytest.mark.parametrize(("resolution_s", "tenths"), [(1e-9, 10), (4e-3, 40_000_000)])
def test_the_tick_is_the_resolution_of_the_kernels_timers(monkeypatch, resolution_s, tenths):
    monkeypatch.setattr(time, "clock_getres", lambda _: resolution_s)
    assert limits.limits_for(TaprioMode.SOFTWARE, None).tick_tenth_ns == tenths


def test_offloaded_the_driver_decides_and_nothing_is_guessed():
    assert limits.limits_for(TaprioMode.FULL_OFFLOAD, "tsnep").list_max == 255
    assert limits.limits_for(TaprioMode.FULL_OFFLOAD, "igc") == GateLimits()
    assert limits.limits_for(TaprioMode.FULL_OFFLOAD, None) == GateLimits()


@pytest.mark.parametrize(
    ("release", "works"),
    [
        ("5.10.0-30-amd64", False),
        ("6.0.19", False),
        ("6.1.0-26-amd64", True),
        ("6.12", True),
        ("7.0-rc1", True),
        ("6.13-rc2+", True),
    ],
)
def test_frame_size_limits_need_linux_6_1(monkeypatch, release, works):
    monkeypatch.setattr(platform, "release", lambda: release)
    reason = taprio.no_max_sdu()
    assert (reason is None) == works
    assert works or reason == f"queue-max-sdu needs Linux 6.1; this is {release}"
