"""One boot, the short way through all of it: a bare Debian, the playbook, a bridge, a push, gates
that run beside filtering entries.

What a life of reboots, crashes and upgrades does is in test_switch.py, what playbooks do to a whole
testbed in test_ansible.py.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.emulated import Emulated
from tests.boot.playbooks import play
from tests.boot.switch import AGENT, BROKER, FILES, SERVER, UNITS, Switch, until

NAME = "s1"
EXAMPLES = Path(__file__).parents[2] / "scripts/debian/examples"
SYSREPO = re.compile(r"/etc/sysrepo/|/dev/shm/sr")
DESCRIPTION = """<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">
  <interfaces xmlns="urn:ietf:params:xml:ns:yang:ietf-interfaces"><interface>
    <name>p1</name><type xmlns:t="urn:ietf:params:xml:ns:yang:iana-if-type">t:ethernetCsmacd</type>
    <description>nobody confirms this</description>
  </interface></interfaces>
</config>"""


@pytest.fixture(scope="module")
def brought_up(
    boot: Callable[..., Emulated], package: Path, tmp_path_factory: pytest.TempPathFactory
) -> Switch:
    """A switch that was a bare Debian before bring-up.yml."""
    machine = boot(NAME, files=FILES).wait()
    machine.run("touch /var/lib/apt/lists")  # as fresh as it gets without a network
    directory = tmp_path_factory.mktemp("controller")
    (directory / "inventory.yml").write_text(inventory(machine, package), encoding="utf-8")
    run = play(directory, "bring-up.yml", f"--limit={NAME}")
    assert run.code == 0, run.output
    switch = Switch(machine, directory)
    switch.trust()
    return switch


def inventory(machine: Emulated, package: Path) -> str:
    """One switch whose operator logs in with the machine's own key, and no controller."""
    key = machine.identity.with_suffix(".pub").read_text(encoding="ascii")
    host = {
        "ansible_user": "root",
        "ansible_ssh_common_args": f"-F {machine.ssh_config}",
        "switch_package": str(package),
        "bridge_ports": ["p1", "p2"],
        "switch_netconf_users": [{"name": "operator", "group": "tsn-operator", "keys": [key]}],
        # Each costs seconds under emulation, and this one without a clock of PTP changes none.
        "linuxptp_other_clock_services": [],
    }
    groups = {"switches": {"hosts": {NAME: host}}, "controllers": {}, "end_stations": {}}
    return json.dumps({"all": {"children": groups}})


def test_the_package_has_an_example_of_a_bridge(package: Path):
    listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, check=True)
    examples = re.findall(r"\./usr/share/doc/tsn-switch/examples/(\S+)", listed.stdout.decode())
    assert sorted(examples) == sorted(each.name for each in EXAMPLES.iterdir())


def test_the_playbook_starts_every_service_of_the_switch(brought_up: Switch):
    assert {unit: brought_up.property(unit, "ActiveState") for unit in UNITS} == dict.fromkeys(
        UNITS, "active"
    )


def test_the_playbook_makes_a_bridge_that_streams_can_use(brought_up: Switch):
    (bridge,) = brought_up.machine.json("ip -details -json link show br0")
    settings = bridge["linkinfo"]["info_data"]
    wanted = {"vlan_filtering": 1, "mcast_snooping": 1, "stp_state": 0}
    assert {name: settings[name] for name in wanted} == wanted
    members = brought_up.machine.json("ip -json link show master br0")
    assert sorted(each["ifname"] for each in members) == ["p1", "p2"]


def test_a_push_to_it_ends_with_gates_and_filtering_entries_in_the_kernel(brought_up: Switch):
    brought_up.push("bridged")
    until(lambda: brought_up.schedule().count("base-time") == 1, "the schedule's base time")
    assert "qdisc taprio 7a0: root" in brought_up.schedule()
    (groups,) = brought_up.machine.json("bridge -json mdb show dev br0")
    (entry,) = [each for each in groups["mdb"] if each["state"] == "permanent"]
    assert entry["port"] == "p2"
    (member,) = brought_up.machine.json("bridge -json vlan show dev p2")
    assert entry["vid"] in [each["vlan"] for each in member["vlans"]]


def test_the_agent_keeps_a_stream_filter_where_its_rights_suffice(brought_up: Switch):
    """As a user with two capabilities, in a file system that is not the agent's to mount."""
    pins = "/run/tsn-agent/bpf"
    assert brought_up.machine.run(f"stat -f -c %T {pins}").stdout.strip() == "bpf_fs"
    assert brought_up.machine.run(f"stat -c %U {pins}").stdout.strip() == "tsn-agent"
    listed = brought_up.machine.run("tc filter show dev p1 ingress").stdout
    assert "stream_filters" in listed
    brought_up.machine.run("systemctl restart tsn-agent.service")
    until(lambda: brought_up.property(AGENT, "ActiveState") == "active", "another agent")
    assert brought_up.machine.run("tc filter show dev p1 ingress").stdout == listed


def test_the_agent_may_set_one_sysctl_and_no_other(brought_up: Switch):
    """Gates in software count on a quota of the kernel, which the sandbox lets the agent raise."""
    assert brought_up.machine.run("sysctl -n net.core.dev_weight_tx_bias").stdout.strip() == "16"
    seen_by_it = f"nsenter --mount --target {brought_up.property(AGENT, 'MainPID')}"
    refused = brought_up.machine.run(
        f"{seen_by_it} sh -c 'echo 64 > /proc/sys/net/core/dev_weight'", check=False
    )
    assert "Read-only file system" in refused.stderr


def test_the_kernel_takes_all_that_the_agent_may_ask_of_it(brought_up: Switch):
    """Its BPF programs, too, which a verifier of another Linux may refuse to these rights."""
    said = brought_up.machine.run(f"journalctl --quiet --unit {AGENT}").stdout
    assert "agent" in said
    assert "will be refused" not in said


def test_no_process_that_a_client_reaches_reaches_sysrepo(brought_up: Switch):
    group = brought_up.machine.run("getent group sysrepo | cut -d: -f3").stdout.strip()
    with brought_up.connect():
        processes = brought_up.processes(SERVER)
        held = {unit: what_is_held(brought_up, unit) for unit in (SERVER, BROKER)}
    # The server itself, the process that starts the others, and one for the session.
    assert len(processes) == 3
    assert group not in groups(held[SERVER])
    assert SYSREPO.findall(held[SERVER]) == []
    # That it would have been seen.
    assert group in groups(held[BROKER])
    assert SYSREPO.findall(held[BROKER]) != []


def test_the_deadline_of_a_confirmed_commit_is_kept_when_the_server_is_killed(brought_up: Switch):
    broker, server = (brought_up.property(unit, "MainPID") for unit in (BROKER, SERVER))
    client = brought_up.connect()
    client.edit_config(target="candidate", config=DESCRIPTION)
    client.commit(confirmed=True, timeout="20", persist="rollout-7")
    brought_up.machine.run(f"kill -KILL {server}")
    until(
        lambda: any("commit reverted" in text for text in brought_up.messages(BROKER)),
        "the revert",
    )
    reverted = [text for text in brought_up.messages(BROKER) if "commit reverted" in text]
    assert reverted == ["confirmed commit reverted: not confirmed in time"]
    assert brought_up.property(BROKER, "MainPID") == broker
    until(lambda: brought_up.property(SERVER, "ActiveState") == "active", "another server")
    with brought_up.connect() as client:
        assert "nobody confirms this" not in client.get_config("running").data_xml


def what_is_held(switch: Switch, unit: str) -> str:
    """Groups, open files and mapped files of all processes of a unit."""
    places = " ".join(f"/proc/{pid}" for pid in switch.processes(unit))
    command = f"for each in {places}; do cat $each/status $each/maps && ls -l $each/fd; done"
    return switch.machine.run(command).stdout


def groups(held: str) -> set[str]:
    """The numbers of the groups that `what_is_held` names."""
    lines = re.findall(r"^(?:Gid|Groups):(.*)$", held, re.MULTILINE)
    return {number for line in lines for number in line.split()}
