"""PTP instances of the agent as a real ptp4l runs them, beside another one at the far end.

Both ends are one machine with one clock, so ours only measures.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent import operational
from agent.datastore.desired import desired_ports
from agent.kernel.ports import KernelPorts
from agent.mechanisms import mechanisms
from agent.mechanisms.gates.model import GateConfig, GateState
from agent.model import AgentError, PortConfig
from agent.ptp_daemons import files, status
from agent.switch import Switch
from tests.kernel.conftest import FAR, MS

PATIENCE_S = 60
DOMAIN = 7
PTP = "ieee1588-ptp-tt:ptp"


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain for {what}"
        time.sleep(0.1)


def command(state_dir: Path) -> list[str]:
    return [sys.executable, "-m", "agent.clock_service.main", "--state-dir", str(state_dir)]


@pytest.fixture
def state_dir(ports, tmp_path) -> Iterator[Path]:
    """That of an agent with a tsn-clock."""
    with subprocess.Popen(command(tmp_path)) as service:
        wait_for(lambda: status.is_locked(tmp_path / "ptp"), "tsn-clock")
        yield tmp_path
        service.terminate()


@pytest.fixture
def switch(ports, state_dir) -> Iterator[Switch]:
    opened = Switch(KernelPorts(mechanisms(state_dir)))
    yield opened
    opened.ports.close()


@pytest.fixture
def grandmaster(ports, tmp_path) -> Iterator[None]:
    """A ptp4l behind p1, which leaves the clock alone and wins the election."""
    configuration = tmp_path / "far.conf"
    configuration.write_text(
        "[global]\ntime_stamping software\nnetwork_transport L2\ndelay_mechanism P2P\n"
        "transportSpecific 0x1\nptp_dst_mac 01:80:C2:00:00:0E\nfree_running 1\n"
        f"domainNumber {DOMAIN}\npriority1 1\nlogAnnounceInterval -2\nlogSyncInterval -3\n"
        "follow_up_info 1\npath_trace_enabled 1\nneighborPropDelayThresh 20000000\n"
        f"min_neighbor_prop_delay -20000000\nuds_address {tmp_path}/far\n[q1]\n"
    )
    daemon = ["ip", "netns", "exec", FAR, "ptp4l", "-f", str(configuration), "-q"]
    with subprocess.Popen(daemon) as process:
        yield
        process.kill()


def tree(port_ds=None, ports=("p1", "p2"), free_running=True, **default_ds):
    rows = [
        {"port-index": number, "underlying-interface": name, "port-ds": port_ds or {}}
        for number, name in enumerate(ports, start=1)
    ]
    instance = {
        "instance-index": 0,
        "default-ds": {
            "domain-number": DOMAIN,
            **{name.replace("_", "-"): value for name, value in default_ds.items()},
        },
        "ports": {"port": rows},
        "tsn-linux:ptp4l": {"free-running": free_running},
    }
    return {PTP: {"instances": {"instance": [instance]}}}


def apply(switch: Switch, configured, others=None):
    return switch.apply(desired_ports(configured, switch.read()) | (others or {}))


def instance_of(switch: Switch):
    node = operational.of_switch(switch.ports.mechanisms, switch.read())
    return node[PTP]["instances"]["instance"][0]


def pid(state_dir: Path) -> int:
    """Of the ptp4l of instance 0."""
    wanted = f"--uds_address={files.socket_address(state_dir / 'ptp', 0)}"
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        words = entry.read_bytes().decode().split("\0")
        if "ptp4l" in words[0] and wanted in words:
            return int(entry.parent.name)
    return 0


def pmc(state_dir: Path, data_set: str, specific: int = 1) -> dict[str, str]:
    """The daemon's answer as linuxptp's own client, a reader we did not write, prints it."""
    address = str(files.socket_address(state_dir / "ptp", 0))
    options = ["-u", "-b", "0", "-t", str(specific), "-d", str(DOMAIN), "-s", address]
    shown = subprocess.run(
        ["pmc", *options, f"GET {data_set}"],
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    ).stdout
    return dict(re.findall(r"^\t\t(\S+) +(\S+)$", shown, re.M))


def test_ptp4l_does_what_is_configured(switch, state_dir):
    port_ds = {
        "log-announce-interval": 2,
        "announce-receipt-timeout": 5,
        "log-sync-interval": -4,
        "log-min-delay-req-interval": 3,
        "log-min-pdelay-req-interval": 1,
        "delay-mechanism": "e2e",
        "ieee802-dot1as-gptp:mean-link-delay-thresh": str(900 * 65536),
    }
    default_ds = {"sdo_id": 0, "priority1": 11, "priority2": 12, "time_receiver_only": True}
    apply(switch, tree(port_ds, ports=("p1",), **default_ds))

    default = pmc(state_dir, "DEFAULT_DATA_SET", 0)
    assert (
        default.items()
        >= {
            "slaveOnly": "1",
            "numberPorts": "1",
            "priority1": "11",
            "priority2": "12",
            "domainNumber": str(DOMAIN),
        }.items()
    )
    assert (
        pmc(state_dir, "PORT_DATA_SET", 0).items()
        >= {
            "logAnnounceInterval": "2",
            "announceReceiptTimeout": "5",
            "logSyncInterval": "-4",
            "logMinDelayReqInterval": "3",
            "logMinPdelayReqInterval": "1",
            "delayMechanism": "1",
        }.items()
    )
    assert pmc(state_dir, "PORT_DATA_SET_NP", 0)["neighborPropDelayThresh"] == "900"
    shown = instance_of(switch)
    assert shown["default-ds"]["clock-identity"].replace("-", "").lower() == (
        default["clockIdentity"].replace(".", "")
    )
    assert shown["tsn-linux:ptp4l"] == {"time-stamping": "software", "free-running": True}


def test_a_clock_of_gptp_that_never_transmits_time_runs(switch, state_dir):
    apply(switch, tree(time_receiver_only=True))

    assert instance_of(switch)["default-ds"]["ieee802-dot1as-gptp:gm-capable"] is False


def test_the_same_instance_again_changes_nothing_and_restarts_nothing(switch, state_dir):
    apply(switch, tree())
    before = pid(state_dir)

    assert not apply(switch, tree()).steps
    assert pid(state_dir) == before


def test_a_switch_that_follows_a_grandmaster_says_whom_and_how_far_it_is(switch, grandmaster):
    apply(switch, tree())

    def follows() -> bool:
        return instance_of(switch)["current-ds"]["steps-removed"] == 1

    wait_for(follows, "a grandmaster")
    shown = instance_of(switch)
    parent = shown["parent-ds"]
    assert parent["grandmaster-identity"] != shown["default-ds"]["clock-identity"]
    assert parent["parent-port-identity"]["port-number"] == 1
    assert parent["grandmaster-priority1"] == 1
    first, second = (port["port-ds"] for port in shown["ports"]["port"])
    # Not time-receiver: a clock that is left alone is never in step.
    assert first["port-state"] == "uncalibrated"
    assert first["ieee802-dot1as-gptp:as-capable"] is True
    assert second["ieee802-dot1as-gptp:as-capable"] is False
    offset_ns = int(shown["current-ds"]["offset-from-time-transmitter"]) // 65536
    assert abs(offset_ns) < MS


def test_a_changed_instance_restarts_its_daemon_and_leaves_gates_alone(
    switch, state_dir, two_classes
):
    gates = PortConfig("p1", (GateConfig(two_classes((0b01, MS), (0b10, MS))),))

    def with_gates(configured):
        desired = desired_ports(configured, switch.read())
        return desired | {"p1": PortConfig("p1", (*gates.parts, *desired["p1"].parts))}

    def running():
        return switch.read()["p1"][GateState].running

    switch.apply(with_gates(tree()))
    wait_for(running, "the schedule")
    before, schedule = pid(state_dir), running()

    changed = switch.apply(with_gates(tree(priority1=99)))

    assert len(changed.steps) == 1
    assert pid(state_dir) not in (0, before)
    assert running() == schedule
    assert instance_of(switch)["default-ds"]["priority1"] == 99


def test_a_killed_daemon_is_told_and_comes_back(switch, state_dir):
    apply(switch, tree())
    os.kill(pid(state_dir), signal.SIGKILL)

    def failure() -> str | None:
        return instance_of(switch)["tsn-linux:ptp4l"].get("failure")

    # Until its end is known it does not answer.
    wait_for(lambda: failure() == "ended by SIGKILL", "the failure")
    wait_for(lambda: failure() is None, "a new one")
    assert not apply(switch, tree()).steps


def test_an_instance_that_is_removed_ends_its_daemon(switch, state_dir):
    before = operational.of_switch(switch.ports.mechanisms, switch.read())  # of multipath TCP
    apply(switch, tree())
    assert pid(state_dir)

    switch.apply({})

    wait_for(lambda: not pid(state_dir), "its end")
    left = operational.of_switch(switch.ports.mechanisms, switch.read())
    assert left.keys() == before.keys()
    assert not [name for name in left if "ptp" in name]


def test_a_port_without_the_stamps_that_are_asked_for_is_refused_by_name(switch, state_dir):
    configured = tree()
    (instance,) = configured[PTP]["instances"]["instance"]
    instance["tsn-linux:ptp4l"]["time-stamping"] = "hardware"

    with pytest.raises(AgentError, match=r"port p1: .* no hardware time stamps"):
        apply(switch, configured)
    assert not pid(state_dir)
    assert not list((state_dir / "ptp").glob("*.conf"))


def test_without_the_program_that_runs_ptp4l_an_instance_is_refused(kernel):
    with pytest.raises(AgentError, match="systemctl start tsn-clock"):
        kernel.apply(desired_ports(tree(), kernel.read()))


def test_the_kernel_knows_tai_once_the_service_runs(state_dir):
    def offset_s() -> int:
        return round(time.clock_gettime(time.CLOCK_TAI) - time.clock_gettime(time.CLOCK_REALTIME))

    wait_for(lambda: offset_s() >= 37, "the offset of TAI")


def test_a_managed_clock_is_measured_for_ten_seconds_and_another_one_is_the_kernels(switch):
    def clock():
        return switch.ports.leaves()["clock"]

    assert clock() == {"source": "unmanaged", "synchronised": False}
    apply(switch, tree(free_running=False))
    switch.read()
    begun = {"source": "managed", "instance": 0, "domain": DOMAIN, "measured-seconds": 0}
    assert clock() == begun

    # Nobody else is there: it is the grandmaster once no Announce message has come in time.
    wait_for(lambda: clock()["measured-seconds"] == 10, "ten seconds")
    assert clock()["offset-max-ns"] == "0"
    status = switch.ports.ptp_status()
    assert status is not None
    assert status.is_grandmaster
