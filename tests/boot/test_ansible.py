"""The playbooks against real machines: from bare Debian to a schedule that runs, and back.

    controller (cnc, an end station as well) ═══ enp0s17 ═══ enp0s17 switch (s1, ports p1 and p2)

Ansible reaches both over SSH, apart from the link; NETCONF and PTP take the link. In containers,
which share this machine's kernel, there are no gates, no PTP, no bridge and no VLAN, and nothing
else differs.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.boot.limits import patient
from tests.boot.machine import Machine, link
from tests.boot.playbooks import TOOLS, Run, play
from tests.boot.switch import PATIENCE

pytestmark = pytest.mark.timeout(patient(2400))

CHECKOUT = Path(__file__).parents[2]
LOCK = CHECKOUT / "scripts/locks/cnc.txt"

NETWORK = "/etc/systemd/network/20-link.network"
ADDRESS = "[Match]\nName=enp0s17\n\n[Network]\nAddress=10.99.0.{}/24\nIPv6AcceptRA=no\n"
PORTS = """#!/bin/sh -e
# Ports with a transmit queue for each traffic class, as a switch's NIC has them.
for port in p1 p2; do
    ip link add $port numtxqueues 8 numrxqueues 8 type veth peer name $port-far
    ip link set $port-far up
    ip link set $port up
done
"""
INTENT = """
name: testbed
forwarding: bridged
defaults:
  rate: 10Gbps
  propagation: 100ns
  processing: {min: 1us, max: 5us}
  clock-error: 1us
  gate-margin: 1ms
  gates: software
  user: tsn
  netconf-port: 830
classes:
  control: {traffic-class: 7, priority: 7, dscp: [48, 56], role: control, max-frame: 128B}
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort, max-frame: 1522B}
switches:
  s1: {management: 10.99.0.1, ports: [p1, p2]}
end-stations: [h1, h2]
links:
  - [h1/eth0, s1/p1]
  - [s1/p2, h2/eth0]
streams:
  motion:
    {talker: h1, listeners: [h2], class: cyclic, period: 100ms, payload: 200B, max-latency: 50ms}
"""
# A container may not set the kernel's TAI offset, so that the unit has nothing to do.
NO_TAI_OFFSET = {
    "/etc/systemd/system/tsn-tai-offset.service.d/container.conf": (
        "[Service]\nExecStart=\nExecStart=/bin/true\n"
    )
}
VLAN = {"end_station_vlan_id": 10, "end_station_vlan_addresses": ["10.98.0.2/24"]}
BRIDGE = {"bridge_ports": ["p1", "p2"], "bridge_ports_off_default_vlan": ["p2"]}
WHEELS_THERE = "/root/wheels"
PTP_LIMIT_S = patient(300)


@dataclass(frozen=True)
class Bed:
    """Two machines, and where the files for Ansible are."""

    switch: Machine
    controller: Machine
    directory: Path

    def play(self, playbook: str, *options: str) -> Run:
        """Run a playbook as docs/operate/ansible.md says.

        How late gates of an emulated processor are is no matter of what these tests are about.
        """
        return play(self.directory, playbook, "-e", "force_margin=true", *options)

    def gates(self) -> list[dict[str, Any]]:
        """The taprio qdiscs of the switch's port p2."""
        found = self.switch.json("tc -j qdisc show dev p2")
        return [qdisc for qdisc in found if qdisc["kind"] == "taprio"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, those that the extra cnc needs, and `lock.txt` with just these.

    The lock has the packages of other extras too, which would take minutes to install there.
    """
    directory = tmp_path_factory.mktemp("wheels")
    pip = [TOOLS / "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", directory, CHECKOUT],
        check=True,
    )
    (own,) = directory.glob("*.whl")
    blocks = re.findall(r"^\w\S*.*(?:\n    .*)*", LOCK.read_text(), re.MULTILINE)
    versions = directory / "versions.txt"  # the lock without hashes: our own wheel is not in it
    pins = [block.splitlines()[0].rstrip("\\ ") for block in blocks]
    versions.write_text("\n".join(pins))
    chosen = subprocess.run(
        [
            *(*pip, "install", "-q", "--dry-run", "--ignore-installed", "--report=-"),
            *(f"--constraint={versions}", f"{own}[cnc]"),
        ],
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    wanted = {
        f"{item['metadata']['name'].lower().replace('_', '-')}=={item['metadata']['version']}"
        for item in json.loads(chosen)["install"]
    }
    (directory / "lock.txt").write_text(
        "\n".join(block for block in blocks if block.split()[0] in wanted) + "\n"
    )
    subprocess.run(
        [
            *(*pip, "download", "-q", "--require-hashes", "--dest", directory),
            *("--requirement", directory / "lock.txt"),
        ],
        check=True,
    )
    return directory


@pytest.fixture(scope="module")
def testbed(
    boot: Callable[..., Machine],
    kind: type[Machine],
    package: Path,
    wheels: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Bare machines: nothing of ours on them."""
    common = PATIENCE if kind.own_kernel else NO_TAI_OFFSET
    with TemporaryDirectory(prefix="tsn") as ends:
        near, far = link(Path(ends))
        switch, controller = (
            boot(name, links=[end], files={**common, NETWORK: ADDRESS.format(number)})
            for name, end, number in (("s1", near, 1), ("cnc", far, 2))
        )
        bed = Bed(switch, controller, tmp_path_factory.mktemp("testbed"))
        for machine in (switch, controller):
            machine.wait()
            machine.run("touch /var/lib/apt/lists")  # as fresh as it gets without a network
        switch.write("/root/ports", PORTS.encode())
        switch.run("sh -e /root/ports")
        for wheel in wheels.glob("*.whl"):
            controller.put(wheel, f"{WHEELS_THERE}/{wheel.name}")
        write_inventory(bed, package, wheels)
        yield bed


def write_inventory(bed: Bed, package: Path, wheels: Path) -> None:
    """What an operator writes; and how to reach the machines, host keys included."""
    (own,) = wheels.glob("tsn_control_plane*.whl")
    own_kernel = bed.switch.own_kernel
    (bed.directory / "intent.yaml").write_text(INTENT)
    (bed.directory / "ssh_config").write_text(
        "".join(f"Include {machine.ssh_config}\n" for machine in (bed.switch, bed.controller))
    )
    inventory = {
        "all": {
            "vars": {
                "ansible_user": "root",
                "ansible_ssh_common_args": f"-F {bed.directory / 'ssh_config'}",
                "intent": str(bed.directory / "intent.yaml"),
                "switch_package": str(package),
                "controller_wheel": str(own),
                "controller_requirements": str(wheels / "lock.txt"),
                "controller_pip_options": ["--no-index", f"--find-links={WHEELS_THERE}"],
                "linuxptp_interfaces": ["enp0s17"] if own_kernel else [],
                "linuxptp_timestamping": "software",
                # Each more costs a minute under emulation.
                "linuxptp_other_clock_services": ["systemd-timesyncd"],
            },
            "children": {
                "controllers": {"hosts": {"cnc": {}}},
                "switches": {
                    "hosts": {
                        "s1": {
                            "switch_management_address": "10.99.0.1",
                            "linuxptp_priority1": 100,
                            **(BRIDGE if own_kernel else {}),
                        }
                    }
                },
                "end_stations": {
                    "hosts": {"cnc": {}},
                    "vars": {
                        "linuxptp_client_only": True,
                        "end_station_interface": "enp0s17",
                        **(VLAN if own_kernel else {}),
                    },
                },
            },
        }
    }
    (bed.directory / "inventory.yml").write_text(json.dumps(inventory))


@pytest.fixture(scope="module")
def brought_up(testbed: Bed) -> Bed:
    """The machines after bring-up.yml."""
    run = testbed.play("bring-up.yml")
    assert run.code == 0, run.output
    return testbed


@pytest.fixture(scope="module")
def pushed(brought_up: Bed) -> Bed:
    """The same after push.yml."""
    run = brought_up.play("push.yml")
    assert run.code == 0, run.output
    return brought_up


@pytest.fixture(scope="module")
def in_use(kind: type[Machine], request: pytest.FixtureRequest) -> Bed:
    """The machines as far as they come: with a schedule, where there are gates."""
    return request.getfixturevalue("pushed" if kind.own_kernel else "brought_up")


def test_a_dry_run_on_bare_machines_tells_much_and_changes_nothing(testbed: Bed) -> None:
    run = testbed.play("bring-up.yml", "--check")
    assert run.code == 0, run.output
    assert all(run.changed.values())
    for machine in (testbed.switch, testbed.controller):
        left = machine.run(
            "ls -d /etc/cnc /etc/tsn /etc/linuxptp/tsn.conf /var/cache/tsn*; id cnc", check=False
        )
        assert left.stdout == ""


@pytest.mark.own_kernel
def test_bringing_up_ends_with_clocks_that_know_tai(brought_up: Bed) -> None:
    for machine in (brought_up.switch, brought_up.controller):
        offset = "time.clock_gettime(time.CLOCK_TAI) - time.time()"
        printed = machine.run(f"python3 -c 'import time; print(round({offset}))'").stdout
        assert printed.strip() == "37"


@pytest.mark.own_kernel
def test_the_end_station_follows_the_switchs_clock(brought_up: Bed) -> None:
    state = "pmc -u -b 0 'GET PORT_DATA_SET' | grep -q 'portState *SLAVE'"
    brought_up.controller.run(f"until {state}; do sleep 1; done", timeout_s=PTP_LIMIT_S)
    brought_up.switch.run("pmc -u -b 0 'GET PORT_DATA_SET' | grep -q 'portState *MASTER'")


@pytest.mark.own_kernel
def test_the_switch_has_a_bridge_that_streams_can_use(brought_up: Bed) -> None:
    (bridge,) = brought_up.switch.json("ip -details -json link show br0")
    settings = bridge["linkinfo"]["info_data"]
    wanted = {"vlan_filtering": 1, "mcast_snooping": 1, "stp_state": 0, "vlan_default_pvid": 1}
    assert {name: settings[name] for name in wanted} == wanted
    members = brought_up.switch.json("ip -json link show master br0")
    assert sorted(each["ifname"] for each in members) == ["p1", "p2"]


@pytest.mark.own_kernel
def test_a_port_off_the_default_vlan_is_no_member_of_it(brought_up: Bed) -> None:
    listed = brought_up.switch.json("bridge -json vlan show")
    members = {(each["ifname"], vlan["vlan"]) for each in listed for vlan in each["vlans"]}
    assert ("p1", 1) in members
    assert ("p2", 1) not in members


def test_a_talkers_frames_get_the_priority_of_their_class(brought_up: Bed) -> None:
    rules = brought_up.controller.run("nft list table inet tsn-end-station").stdout
    assert re.search(r"ip dscp (ef|0x2e) meta priority set (0:6|:6)", rules)


@pytest.mark.own_kernel
def test_the_tag_of_a_talkers_frames_carries_their_priority(brought_up: Bed) -> None:
    mapped = brought_up.controller.run("ip -d link show enp0s17.10").stdout
    assert re.search(r"egress-qos-map \{.* 6:6 .*\}", mapped)


def test_a_second_run_changes_nothing(brought_up: Bed) -> None:
    run = brought_up.play("bring-up.yml")
    assert (run.code, run.changed) == (0, {"s1": 0, "cnc": 0}), run.output


def test_a_dry_run_on_finished_machines_foresees_no_change(brought_up: Bed) -> None:
    run = brought_up.play("bring-up.yml", "--check")
    assert (run.code, run.changed) == (0, {"s1": 0, "cnc": 0}), run.output


@pytest.mark.own_kernel
def test_a_dry_push_says_what_would_change_and_touches_no_port(brought_up: Bed) -> None:
    run = brought_up.play("push.yml", "--check")
    assert run.code == 0, run.output
    assert "s1/p2" in run.output
    assert brought_up.gates() == []


@pytest.mark.own_kernel
def test_after_a_push_the_kernel_runs_the_schedule(pushed: Bed) -> None:
    (qdisc,) = pushed.gates()
    assert qdisc["handle"] == "7a0:"
    assert qdisc["root"]
    groups = pushed.switch.run("bridge mdb show dev br0").stdout
    assert re.search(r"port p2 grp 03:54:53:\S+ permanent", groups)
    assert pushed.controller.run("systemctl is-active cnc-watch").stdout.strip() == "active"


@pytest.mark.own_kernel
def test_a_second_push_changes_nothing(pushed: Bed) -> None:
    run = pushed.play("push.yml")
    assert (run.code, run.changed) == (0, {"cnc": 0}), run.output


def test_who_has_another_netconf_host_key_gets_no_schedule(in_use: Bed) -> None:
    known = "/etc/cnc/known_hosts"
    other = in_use.controller.run("cut -d' ' -f1,2 /etc/cnc/id_ed25519.pub").stdout.strip()
    in_use.controller.run(f"cp -a {known} /root/known; echo '[10.99.0.1]:830 {other}' > {known}")
    run = in_use.play("push.yml")
    in_use.controller.run(f"cp -a /root/known {known}")
    assert run.code != 0
    assert "differs from the one in" in run.output


def test_who_has_another_ssh_host_key_is_not_set_up(testbed: Bed) -> None:
    known = testbed.switch.known_hosts
    right = known.read_text()
    host, _ = right.split(maxsplit=1)
    known.write_text(f"{host} {testbed.controller.host_key}\n")
    # A connection that is open has seen the right key; and no controller is asked for its own.
    others = ("-eansible_control_path=none", '-e{"switch_netconf_users": []}')
    try:
        run = testbed.play("bring-up.yml", "--limit=s1", *others)
    finally:
        known.write_text(right)
    assert run.code != 0
    assert "Host key verification failed" in run.output
    assert run.changed == {"s1": 0}


def test_tearing_down_leaves_what_is_not_ours(in_use: Bed) -> None:
    switch = in_use.switch
    switch.run("tc qdisc add dev p1-far root handle 5: tbf rate 1gbit burst 64k latency 10ms")
    switch.run("iptables -t mangle -A POSTROUTING -o p1-far -j MARK --set-mark 7")
    run = in_use.play("tear-down.yml")
    assert run.code == 0, run.output
    assert in_use.gates() == []
    rules = switch.run("iptables-save -t mangle").stdout
    assert "--set-xmark 0x7" in rules
    assert "TSN-CLASSIFY" not in rules
    assert "tbf 5:" in switch.run("tc qdisc show dev p1-far").stdout
    assert switch.run("test -e /usr/bin/tsn-agent", check=False).code == 1
    for machine in (switch, in_use.controller):
        units = machine.run(
            "find /etc/systemd/system -type f -name '*tsn*' -o -type f -name '*cnc*'"
        ).stdout
        assert units == ""
    assert switch.run("ip link show br0", check=False).code != 0
    assert switch.run("ls /etc/systemd/network").stdout.split() == [
        "10-management.network",
        "20-link.network",
    ]
    again = in_use.play("tear-down.yml")
    assert (again.code, again.changed) == (0, {"s1": 0, "cnc": 0}), again.output
