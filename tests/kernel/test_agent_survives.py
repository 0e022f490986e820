"""Whatever ends the agent or stops a change half-way, the kernel does what is configured."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from contextlib import suppress

import pytest
import sysrepo
from pyroute2 import IPRoute

from agent import switch
from agent.datastore.desired import desired_ports
from agent.mechanisms import MECHANISMS
from agent.mechanisms.classification.model import DscpState
from agent.mechanisms.gates.model import GateState, TaprioMode
from tests.kernel.conftest import QUEUES
from tests.kernel.test_agent import START_TIMEOUT_S, start  # noqa: F401
from tests.kernel.test_agent_watch import in_phase, runs, with_priority_1_in_class_1  # noqa: F401
from tests.kernel.test_taprio import QdiscEvents
from tests.stack.sysrepo_client import BRIDGE_PORT, GATES, INTERFACES, entry, gated

OTHER_ENTRIES = (entry(0, 0b11, 250_000), entry(1, 0b01, 750_000))
MOMENTS_MAX = 60  # more than one change has


@pytest.fixture
def differences(client, kernel):
    """What the kernel does otherwise than the running datastore says."""

    def compare():
        states = kernel.read()
        return switch.differences(
            MECHANISMS, desired_ports(client.read(INTERFACES, "running"), states), states
        )

    return compare


@pytest.fixture
def start_killed(start, tmp_path):
    """Starts an agent that kills itself; returns it ready or dead."""

    def start_one(point, manager):
        command = [sys.executable, "-m", "tests.kernel.killed_agent", str(point)]
        command += ["--state-dir", str(tmp_path / "agent")]
        process = subprocess.Popen(command, env=os.environ | {"NOTIFY_SOCKET": "@tsn-killed-test"})
        end = os.pidfd_open(process.pid)
        try:
            ready, _, _ = select.select([manager, end], [], [], START_TIMEOUT_S)
        finally:
            os.close(end)
        if manager in ready:
            assert manager.recv(100) == b"READY=1"
        return process

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0tsn-killed-test")
        yield lambda point: start_one(point, manager)


def test_a_killed_agents_successor_brings_the_kernel_to_the_configuration(
    start, start_killed, client, differences
):
    """Killed before and after everything that lasts, while one change sets, changes and removes."""
    old, new = (gated("p1"), gated("p2")), (gated("p1", OTHER_ENTRIES),)
    outcomes = set()
    for point in range(MOMENTS_MAX):
        agent = start()
        client.replace(*old)
        agent.kill()
        agent.wait()
        victim = start_killed(point)
        with suppress(sysrepo.SysrepoError):
            client.replace(*new)
        if victim.poll() is None:
            victim.kill()
            victim.wait()
            break
        successor = start()
        assert differences() == {}, f"killed at point {point}"
        outcomes.add(client.interface("p2", "running") is None)
        successor.kill()
        successor.wait()
    else:
        pytest.fail("the change never came to its end")
    assert outcomes == {True, False}, "it was always or never killed too early"


@pytest.fixture
def eight_ports(ports, request):
    """Seven software ports, by name, and one of a driver with offload, in the middle of them."""
    software = list(ports)
    with IPRoute() as ipr:

        def add(name):
            queues = {"num_tx_queues": QUEUES, "num_rx_queues": QUEUES}
            ipr.link(
                "add", ifname=name, kind="veth", peer={"ifname": f"x{name}", **queues}, **queues
            )
            software.append(name)

        add("p3")
        offloading = request.getfixturevalue("offloading_port")
        for name in ("p4", "p5", "p6", "p7"):
            add(name)
    return software, offloading


def test_eight_ports_are_as_before_when_the_kernel_refuses_half_way(
    start, client, kernel, eight_ports, in_phase
):
    """The driver takes no frame size limits, and is asked when other ports have changed already."""
    software, offloading = eight_ports
    start()
    client.replace(*map(with_priority_1_in_class_1, software))
    assert in_phase()
    before = kernel.read()
    assert all(before[name][GateState].running for name in software)

    refused = gated(offloading, OTHER_ENTRIES)
    refused[BRIDGE_PORT]["tsn-linux:taprio"] = {"mode": str(TaprioMode.FULL_OFFLOAD)}
    limits = [{"traffic-class": 1, "queue-max-sdu": 300}]
    refused[BRIDGE_PORT][GATES]["queue-max-sdu-table"] = limits
    changed = [with_priority_1_in_class_1(name, OTHER_ENTRIES) for name in software]
    with QdiscEvents() as events:
        with pytest.raises(sysrepo.SysrepoError, match=f"port {offloading}: the kernel refused"):
            client.replace(*changed, refused)
        assert events.any(), "it was refused before anything had changed"

    assert in_phase()
    after = kernel.read()
    for name in software:
        assert after[name][GateState].pending is None
        assert after[name][GateState].running.is_congruent(before[name][GateState].running)
        assert after[name][DscpState].priorities == before[name][DscpState].priorities
    assert after[offloading][GateState].taprio is None


def test_on_a_full_disk_the_agent_serves_on_and_says_so(
    start, client, differences, tmp_path, capfd
):
    state_dir = tmp_path / "agent"
    state_dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "full", state_dir], check=True)
    try:
        with suppress(OSError), (state_dir / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        agent = start()
        client.replace(gated("p1"))
        assert differences() == {}
        assert client.port("p1")[GATES]["gate-enabled"] is True
        agent.kill()
        agent.wait()
        assert "a restarted agent will not know of this change" in capfd.readouterr().err
        assert [path.name for path in state_dir.iterdir()] == ["filler"]
        with QdiscEvents() as events:
            start()
            assert not events.any()
    finally:
        subprocess.run(["umount", "-l", state_dir], check=True)
