"""How late timers wake up as the agent measures it, in a kernel whose timers are never late."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from agent.kernel import clock
from agent.kernel.link import WAKE_UP_PROBE
from agent.kernel.ports import KernelPorts
from agent.kernel.timer_probe import BATCH_S, INTERVAL_NS, TimerProbe
from agent.kernel.wake_up_monitor import WakeUpMonitor
from agent.mechanisms import MECHANISMS
from agent.model import Clock
from tests.kernel.conftest import NS_PER_S

# Reading a clock takes 256 ns in virtual time; so many readings of other programs a timer may meet.
EXACT_NS = 4 * 256
A_BATCH = round(BATCH_S * NS_PER_S / INTERVAL_NS)

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def kernel_ports(ports, tmp_path: Path) -> Iterator[KernelPorts]:
    """Ports whose timers are measured."""
    opened = KernelPorts(MECHANISMS)
    opened.measure_wake_ups(tmp_path / "wake-ups.json")
    yield opened
    opened.close()


def interfaces() -> set[str]:
    with IPRoute() as ipr:
        return {message.get("IFLA_IFNAME") for message in ipr.get_links()}


def test_where_only_sleeping_takes_time_no_timer_is_late(kernel_ports: KernelPorts):
    time.sleep(10 * BATCH_S)
    wake_ups = kernel_ports.wake_ups()
    assert wake_ups.count >= 8 * A_BATCH
    assert wake_ups.maximum_ns <= EXACT_NS


def test_the_interface_that_measures_is_no_port_and_goes_with_the_agent(ports, tmp_path: Path):
    opened = KernelPorts(MECHANISMS)
    opened.measure_wake_ups(tmp_path / "wake-ups.json")
    assert WAKE_UP_PROBE in interfaces()
    assert set(ports) <= set(opened.read())
    assert WAKE_UP_PROBE not in opened.read()
    opened.close()
    assert WAKE_UP_PROBE not in interfaces()


def test_what_a_killed_agent_left_is_taken_over_and_can_be_removed(ports):
    killed = TimerProbe()
    probe = TimerProbe()
    probe.send()
    time.sleep(2 * BATCH_S)
    assert len(probe.receive()) == A_BATCH
    opened = KernelPorts(MECHANISMS)
    opened.remove_probe()
    opened.close()
    assert WAKE_UP_PROBE not in interfaces()
    probe.close()
    killed.close()


def assert_next_batch_is_exact(probe: TimerProbe):
    """Whether what is sent after a step is counted again."""
    probe.send()
    time.sleep(2 * BATCH_S)
    lateness_ns = probe.receive()
    assert len(lateness_ns) == A_BATCH
    assert max(lateness_ns) <= EXACT_NS


def test_wake_ups_around_a_step_of_the_clock_are_not_counted(ports):
    probe = TimerProbe()
    probe.send()
    time.sleep(BATCH_S / 2)
    time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + NS_PER_S // 2)
    time.sleep(2 * BATCH_S)
    assert probe.receive() == []
    assert_next_batch_is_exact(probe)
    probe.close()


def test_wake_ups_around_a_step_that_is_taken_back_are_not_counted(ports):
    """As where ptp4l brings a clock back that some program has set: frames were due meanwhile."""
    probe = TimerProbe()
    probe.send()
    time.sleep(BATCH_S / 2)
    for step_ns in (NS_PER_S, -NS_PER_S):
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + step_ns)
        time.sleep(0.1)
    time.sleep(2 * BATCH_S)
    assert probe.receive() == []
    probe.send()
    time.sleep(2 * BATCH_S)
    assert len(probe.receive()) == A_BATCH
    probe.close()


def test_wake_ups_of_a_step_that_is_seen_before_they_are_noted_are_not_counted(
    ports, monkeypatch: pytest.MonkeyPatch
):
    """The clock is set after the probe has read its notes, and before it looks at the clock: the
    frames that the step makes late are noted for the next call, which sees no step."""
    probe = TimerProbe()
    probe.send()
    time.sleep(BATCH_S / 2)
    read = clock.offsets_ns

    def set_and_read() -> dict[Clock, int]:
        monkeypatch.setattr(clock, "offsets_ns", read)
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + NS_PER_S)
        return read()

    monkeypatch.setattr(clock, "offsets_ns", set_and_read)
    assert probe.receive() == []
    time.sleep(BATCH_S)
    assert probe.receive() == []
    assert_next_batch_is_exact(probe)
    probe.close()


def test_a_restarted_agent_knows_what_was_measured_before(ports, tmp_path: Path):
    path = tmp_path / "wake-ups.json"
    first = WakeUpMonitor(path)
    time.sleep(3 * BATCH_S)
    first.close()
    known = first.wake_ups()
    assert known.count >= 2 * A_BATCH
    second = WakeUpMonitor(path)
    assert second.wake_ups() == known
    second.close()


def test_a_file_that_is_no_record_is_replaced(ports, tmp_path: Path):
    path = tmp_path / "wake-ups.json"
    path.write_text('{"boot-id": 1')
    monitor = WakeUpMonitor(path)
    assert monitor.wake_ups() is None
    time.sleep(2 * BATCH_S)
    monitor.close()
    restarted = WakeUpMonitor(path)
    assert restarted.wake_ups() == monitor.wake_ups()
    restarted.close()
