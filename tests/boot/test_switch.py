"""A switch that comes up by itself: the package on a Debian that boots, is killed and is upgraded.

The tests follow one machine through its life, in this order. It is emulated, where starting Python
takes seconds: how long a killed daemon is away is judged by what its unit promises and by when
systemd starts the new process; until it serves again is printed, not judged.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.emulated import Emulated
from tests.boot.switch import AGENT, BROKER, DAEMONS, FILES, PORT, SERVER, UNITS, Switch, until

CHECKOUT = Path(__file__).parents[2]
# MESSAGE_ID of systemd's own entries, see `journalctl --catalog`.
UNIT_STARTING = "7d4958e842da4a758f6c1cdc7b36dcc5"
UNIT_STARTED = "39f53479d3a045ac8e11786248231fbf"
PROCESS_EXITED = "98e322203f7a4ed290d09fe03c09fe15"
BACK_WITHIN_US = 2_000_000
EXPOSURE_LIMIT = 3.0


@pytest.fixture(scope="module")
def switch(
    boot: Callable[..., Emulated], package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Switch:
    """From a bare Debian to a schedule that runs: package, key, push."""
    machine = boot("switch", files=FILES).wait()
    machine.wait_booted()
    switch = Switch(machine, tmp_path_factory.mktemp("controller"))
    switch.install(package)
    switch.enrol()
    switch.push()
    until(lambda: switch.schedule().count("base-time") == 1, "the schedule's base time")
    return switch


@pytest.fixture(scope="module")
def newer_package(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same package with a higher version."""
    work = tmp_path_factory.mktemp("newer")
    tree, newer = work / "tree", work / "tsn-switch_newer.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True)
    control = tree / "DEBIAN" / "control"
    text = control.read_text(encoding="utf-8")
    version = next(line for line in text.splitlines() if line.startswith("Version: "))
    control.write_text(text.replace(version, f"{version}+newer"), encoding="utf-8")
    command = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, newer]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return newer


def test_a_pushed_schedule_runs_on_a_debian_that_had_nothing_but_the_package(switch: Switch):
    assert "qdisc taprio 7a0: root" in switch.schedule()
    assert "-j TSN-CLASSIFY" in switch.rules()


def test_each_unit_is_exposed_no_more_than_promised(switch: Switch):
    switch.machine.put(CHECKOUT / "scripts" / "check-units", "/root/check-units")
    done = switch.machine.run(f"python3 /root/check-units --json /root/x {' '.join(UNITS)}")
    print(done.stdout)
    measured = switch.machine.json("cat /root/x")
    assert set(measured) == set(UNITS)
    assert max(measured.values()) <= EXPOSURE_LIMIT


def test_after_a_reboot_the_same_schedule_is_there_before_the_port_comes_up(switch: Switch):
    before = switch.schedule()
    switch.machine.reboot()
    assert switch.machine.wait_booted() == "running"
    until(lambda: switch.property(SERVER, "ActiveState") == "active", "the NETCONF server")
    assert switch.schedule() == before
    # In the kernel's own words: what the port had when it was first told to be up.
    first_up = next(line for line in switch.link_events() if ",UP" in line or "<UP" in line)
    assert " qdisc taprio " in first_up
    # And it is left to run: to set it anew would open all its gates for up to a cycle.
    assert switch.gates_removed() == 0


def test_nothing_that_we_start_complains(switch: Switch):
    complaints = switch.machine.journal("-b", "-p", "err", *(f"-u{unit}" for unit in UNITS))
    assert [entry["MESSAGE"] for entry in complaints] == []


@pytest.mark.parametrize("page", ["tsn-agent.8", "tsn-netconfd.8", "tsn-netconf-broker.8"])
def test_the_programs_of_the_switch_have_manual_pages(switch: Switch, page: str):
    written = switch.machine.run(f"zcat /usr/share/man/man8/{page}.gz").stdout
    assert ".SH OPTIONS" in written


@pytest.mark.parametrize("unit", DAEMONS)
def test_a_killed_daemon_is_started_again_at_once_and_the_schedule_runs_on(
    switch: Switch, unit: str
):
    before, removed = switch.schedule(), switch.gates_removed()
    # The server is started again with the broker.
    until(lambda: switch.property(unit, "ActiveState") == "active", unit)
    pid = switch.property(unit, "MainPID")
    switch.machine.run(f"kill -KILL {pid}")
    until(
        lambda: (
            switch.property(unit, "ActiveState") == "active"
            and switch.property(unit, "MainPID") != pid
        ),
        f"another {unit}",
    )
    times_us = {
        entry["MESSAGE_ID"]: int(entry["__MONOTONIC_TIMESTAMP"])
        for entry in switch.machine.journal("-b", "_PID=1", f"UNIT={unit}")
        if "MESSAGE_ID" in entry
    }
    away_us = times_us[UNIT_STARTING] - times_us[PROCESS_EXITED]
    serving_us = times_us[UNIT_STARTED] - times_us[PROCESS_EXITED]
    print(f"{unit}: started {away_us / 1e6:.2f} s after its end, ready {serving_us / 1e6:.2f} s")
    assert switch.restart_delay_us(unit) < BACK_WITHIN_US
    assert away_us > 0  # the start belongs to this end, not to an earlier one
    assert switch.schedule() == before
    assert switch.gates_removed() == removed


def test_the_broker_goes_on_without_the_server_and_takes_it_along_when_it_starts_anew(
    switch: Switch,
):
    until(lambda: switch.property(SERVER, "ActiveState") == "active", "the NETCONF server")
    broker, server = (switch.property(unit, "MainPID") for unit in (BROKER, SERVER))
    switch.machine.run(f"systemctl stop {SERVER} && systemctl start {SERVER}")
    assert switch.property(BROKER, "MainPID") == broker
    second_server = switch.property(SERVER, "MainPID")
    assert second_server not in (server, "0")
    switch.machine.run(f"systemctl restart {BROKER}")
    until(
        lambda: (
            switch.property(SERVER, "ActiveState") == "active"
            and switch.property(SERVER, "MainPID") not in (second_server, "0")
        ),
        "another server",
    )
    switch.push()


def test_an_agent_that_hangs_is_replaced_by_its_watchdog(switch: Switch):
    before, removed = switch.schedule(), switch.gates_removed()
    pid = switch.property(AGENT, "MainPID")
    switch.machine.run(f"kill -STOP {pid}")
    until(
        lambda: (
            switch.property(AGENT, "MainPID") not in (pid, "0")
            and switch.property(AGENT, "ActiveState") == "active"
        ),
        "the watchdog",
    )
    said = [entry["MESSAGE"] for entry in switch.machine.journal("-b", "_PID=1", f"UNIT={AGENT}")]
    assert any("Watchdog timeout" in message for message in said)
    assert switch.schedule() == before
    assert switch.gates_removed() == removed


def test_an_upgrade_keeps_the_configuration_and_never_takes_the_schedule_away(
    switch: Switch, newer_package: Path
):
    before, removed = switch.schedule(), switch.gates_removed()
    switch.install(newer_package)
    version = switch.machine.run("dpkg-query -W -f '${Version}' tsn-switch").stdout
    assert version.endswith("+newer")
    assert switch.schedule() == before
    assert switch.gates_removed() == removed


def test_removing_the_package_takes_our_qdiscs_and_rules_and_leaves_those_of_others(
    switch: Switch,
):
    assert switch.machine.run("sysctl -n net.core.dev_weight_tx_bias").stdout == "16\n"
    switch.machine.run("tc qdisc add dev p1 root handle 5: pfifo limit 77")
    foreign = f"-A POSTROUTING -o {PORT} -j DSCP --set-dscp 0x0a"
    switch.machine.run(f"iptables -t mangle {foreign}")
    switch.machine.run("dpkg --remove tsn-switch")
    assert "taprio" not in switch.machine.run("tc qdisc show").stdout
    assert switch.machine.run("sysctl -n net.core.dev_weight_tx_bias").stdout == "1\n"
    assert "TSN-CLASSIFY" not in switch.rules()
    assert foreign in switch.rules()
    qdiscs = json.loads(switch.machine.run("tc -j qdisc show dev p1").stdout)
    assert [qdisc["handle"] for qdisc in qdiscs if qdisc.get("root")] == ["5:"]


def test_installed_again_it_has_the_configuration_that_it_had(switch: Switch, newer_package: Path):
    switch.install(newer_package)
    until(lambda: "taprio 7a0:" in switch.schedule(), "the schedule")
    assert "-j TSN-CLASSIFY" in switch.rules()
