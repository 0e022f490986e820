"""The agent between a real sysrepo and a real kernel: pushed, run, read back, left alone."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sysrepo

from agent.kernel import timex
from agent.mechanisms.gates.model import GateState
from tests.kernel.test_taprio import QdiscEvents
from tests.stack.sysrepo_client import (
    BASE_TIME_S,
    BRIDGE_PORT,
    GATES,
    HALF_AND_HALF,
    gated,
)

START_TIMEOUT_S = 60
LOOKS_EVERY_S = 10
ADJ_MAXERROR, ADJ_STATUS = 0x0004, 0x0010  # linux/timex.h


@pytest.fixture
def start(
    ports: tuple[str, str],
    client: object,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `tsn-agent`; each call returns once that one is ready."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0tsn-agent-test")
        manager.settimeout(START_TIMEOUT_S)
        monkeypatch.setenv("NOTIFY_SOCKET", "@tsn-agent-test")
        started: list[subprocess.Popen[bytes]] = []

        def start_one() -> subprocess.Popen[bytes]:
            agent = [sys.executable, "-m", "agent.main", "--state-dir", str(tmp_path / "agent")]
            started.append(subprocess.Popen(agent))
            assert manager.recv(100) == b"READY=1"
            return started[-1]

        yield start_one
        for process in started:
            process.kill()
            process.wait()


@pytest.fixture
def synchronise() -> Iterator[Callable[[], None]]:
    """Does to the kernel's clock what chrony does, TAI apart; then it is as after a boot."""
    yield lambda: steer(0)
    steer(timex.STA_UNSYNC)
    timex.set_tai_offset(0)


def steer(status: int) -> None:
    modes = ADJ_STATUS | ADJ_MAXERROR
    timex._adjtimex(timex._Timex(modes=modes, status=status, maxerror=0))


def at_s(clock: int, seconds: int) -> int:
    return time.clock_gettime_ns(clock) // 10**9 + seconds


def kernel_says(reader, port):
    return reader.port(port)["tsn-linux:taprio"]["kernel"]


def test_what_is_pushed_is_what_the_kernel_shows(start, client, kernel, eventually):
    start()
    base_s = at_s(time.CLOCK_TAI, 1)
    client.replace(gated("p1", base_time_s=base_s))
    taprio = kernel.read()["p1"][GateState].taprio
    assert taprio.priority_map == (0, 0, 0, 0, 1, 1, 1, 1, *[0] * 8)
    assert taprio.schedule.base_time_ns == base_s * 10**9
    assert [(e.gate_states, e.interval_ns) for e in taprio.schedule.entries] == [
        (2, 500_000),
        (1, 500_000),
    ]
    assert client.port("p1")[GATES]["config-pending"] is True
    eventually(lambda: client.port("p1")[GATES]["config-pending"] is False)
    gates = client.port("p1")[GATES]
    assert gates["oper-control-list"]["gate-control-entry"] == list(HALF_AND_HALF)
    assert gates["oper-base-time"] == {"seconds": str(base_s), "nanoseconds": 0}
    assert kernel_says(client, "p1")["dscp-rule"] == [{"dscp": 46, "priority": 7}]
    assert kernel_says(client, "p2")["root-qdisc"] != "taprio"


def test_the_kernels_reason_reaches_the_client_and_no_port_changes(start, client):
    start()
    too_many = {
        "tsn-linux:taprio": {
            "queue": [
                {"traffic-class": 0, "count": 1, "offset": 0},
                {"traffic-class": 1, "count": 1, "offset": 8},
            ]
        }
    }
    wrong = gated("p2")
    wrong[BRIDGE_PORT] |= too_many
    with QdiscEvents() as events:
        with pytest.raises(
            sysrepo.SysrepoError, match=r"port p2: .*Multi-queue device is required"
        ):
            client.replace(gated("p1"), wrong)
        assert not events.any()


def test_schedules_outlive_a_killed_agent_and_its_successor_touches_nothing(
    start,
    client,
    kernel,
    eventually,
):
    victim = start()
    client.replace(gated("p1"), gated("p2"))
    eventually(lambda: kernel.read()["p1"][GateState].running is not None)
    with QdiscEvents() as events:
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        start()
        assert client.port("p1")[GATES]["oper-cycle-time"]["numerator"] == 1_000_000
        client.replace(gated("p1"), gated("p2"))
        assert not events.any()
    assert kernel.read()["p1"][GateState].running is not None


def test_stored_gates_wait_for_a_clock_that_a_program_synchronises(
    start, client, kernel, synchronise
):
    """As a kernel boots: no program does, and it knows no TAI."""

    def waits() -> str | None:
        return client.read("/tsn-linux:agent")["tsn-linux:agent"].get("gates-wait")

    interfaces = {"interface": [gated("p1")]}
    rollout = {"clock-error-ns": "1000"}
    client.merge({"ietf-interfaces:interfaces": interfaces, "tsn-linux:rollout": rollout})
    start()
    assert kernel.read()["p1"][GateState].taprio is None
    assert waits() == "unmanaged: the kernel says that no program synchronises it"
    synchronise()
    time.sleep(LOOKS_EVERY_S + 1)
    assert kernel.read()["p1"][GateState].taprio is None
    assert waits() == "unmanaged: the kernel has no TAI offset"
    timex.set_tai_offset(37)
    time.sleep(LOOKS_EVERY_S + 1)
    taprio = kernel.read()["p1"][GateState].taprio
    assert taprio.schedule.base_time_ns == BASE_TIME_S * 10**9
    assert waits() is None
