"""Two real ptp4l over a real link, in software time stamps: what the agent hears from them."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from agent.kernel import ptp
from agent.kernel.ptp_management import TIMEOUT_S
from agent.model import PtpPortState
from agent.switch import Switch
from tests.kernel.conftest import FAR, SWITCH, inside

MASTER = "/tmp/ptp4l-of-the-master"  # noqa: S108  in the guest
OURS = "/var/run/ptp4l"
LOCK_TIMEOUT_S = 120


@pytest.fixture(params=["0", "1"], ids=["IEEE 1588", "IEEE 802.1AS"])
def ptp4l(request, ports) -> Iterator[subprocess.Popen[bytes]]:
    """The daemon of the switch; it follows one at the far end."""
    common = [*("-S", "-2", f"--transportSpecific={request.param}"), "-q"]
    with ExitStack() as stack:
        daemons = []
        for namespace, options in (
            (FAR, ["-i", "q1", f"--uds_address={MASTER}", "--priority1=1"]),
            (SWITCH, ["-i", "p1", "-i", "p2", "--slaveOnly=1"]),
        ):
            command = ["ip", "netns", "exec", namespace, "ptp4l", *common, *options]
            daemons.append(stack.enter_context(subprocess.Popen(command)))
            stack.callback(daemons[-1].kill)
        yield daemons[-1]
    for address in (MASTER, OURS):
        Path(address).unlink(missing_ok=True)


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.5)


def is_slave() -> bool:
    status = ptp.status()
    return status is not None and PtpPortState.SLAVE in status.ports.values()


def pmc(data_set: str, specific: str) -> str:
    """The daemon's answer as linuxptp's own client, a reader we did not write, prints it."""
    command = ["pmc", "-u", "-b", "0", "-t", specific, f"GET {data_set}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_switch_that_follows_a_grandmaster_says_so(ptp4l, request) -> None:
    wait_until(is_slave, "a port in the state slave")
    status = ptp.status()
    assert status is not None
    specific = request.node.callspec.params["ptp4l"]
    shown = pmc("TIME_STATUS_NP", specific)
    assert re.findall(r"gmIdentity\s+(\S+)", shown) == [status.grandmaster_identity]
    assert re.findall(r"gmPresent\s+(\S+)", shown) == ["true"]
    assert not status.is_grandmaster
    states = re.findall(
        r"-(\d+) seq .*\n(?:.*\n)*?\s+portState\s+(\S+)", pmc("PORT_DATA_SET", specific)
    )
    assert {int(number): PtpPortState(state.lower()) for number, state in states} == status.ports
    assert abs(status.offset_from_master_ns or 0) < 1_000_000
    master = ptp.status((MASTER,))
    assert master is None  # it lives in another namespace, and belongs to another switch
    with inside(FAR):
        master = ptp.status((MASTER,))
        assert ptp.status() is None
    assert master is not None
    assert master.is_grandmaster
    assert master.offset_from_master_ns is None
    assert master.grandmaster_identity == status.grandmaster_identity


def test_a_daemon_that_hangs_costs_a_tenth_of_a_second(ptp4l) -> None:
    wait_until(ptp.status, "the daemon's first answer")
    ptp4l.send_signal(signal.SIGSTOP)
    for _ in range(20):  # more than its socket holds
        begun = time.monotonic()
        assert ptp.status() is None
        assert time.monotonic() - begun < 2 * TIMEOUT_S
    ptp4l.send_signal(signal.SIGCONT)
    wait_until(ptp.status, "the daemon to go on")


def test_without_a_daemon_there_is_no_answer_and_no_wait(kernel: Switch) -> None:
    begun = time.monotonic()
    assert kernel.ports.ptp_status() is None
    assert time.monotonic() - begun < TIMEOUT_S
