"""One boot, the short way through all of it: a bare Debian, the playbook, a push, gates that run.

What a life of reboots, crashes and upgrades does is in test_switch.py, what playbooks do to a whole
testbed in test_ansible.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.boot.machine import Machine
from tests.boot.playbooks import play
from tests.boot.switch import FILES, UNITS, Switch, until

NAME = "s1"


@pytest.fixture(scope="module")
def brought_up(
    boot: Callable[..., Machine], package: Path, tmp_path_factory: pytest.TempPathFactory
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


def inventory(machine: Machine, package: Path) -> str:
    """One switch whose operator logs in with the machine's own key, and no controller."""
    key = machine.identity.with_suffix(".pub").read_text(encoding="ascii")
    host = {
        "ansible_user": "root",
        "ansible_ssh_common_args": f"-F {machine.ssh_config}",
        "switch_package": str(package),
        "switch_netconf_users": [{"name": "operator", "group": "tsn-operator", "keys": [key]}],
        # Each more costs seconds under emulation.
        "linuxptp_other_clock_services": ["systemd-timesyncd"],
    }
    groups = {"switches": {"hosts": {NAME: host}}, "controllers": {}, "end_stations": {}}
    return json.dumps({"all": {"children": groups}})


def test_the_playbook_starts_every_service_of_the_switch(brought_up: Switch):
    assert {unit: brought_up.property(unit, "ActiveState") for unit in UNITS} == dict.fromkeys(
        UNITS, "active"
    )


def test_a_push_to_it_ends_with_gates_and_rules_in_the_kernel(brought_up: Switch):
    brought_up.push()
    until(lambda: brought_up.schedule().count("base-time") == 1, "the schedule's base time")
    assert "qdisc taprio 7a0: root" in brought_up.schedule()
    assert "-j TSN-CLASSIFY" in brought_up.rules()
