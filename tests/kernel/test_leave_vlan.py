"""`tsn-leave-vlan`, which Ansible's role `bridge` installs: ports that are in no default VLAN."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "scripts/ansible/roles/bridge/files/tsn-leave-vlan"
SWITCH = "tsn-leave-vlan"
WAIT_LIMIT_S = 30


def ip(*arguments: str) -> None:
    subprocess.run(["ip", "-n", SWITCH, *arguments], check=True)


def vlans(port: str) -> set[int]:
    command = ["bridge", "-n", SWITCH, "-json", "vlan", "show", "dev", port]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {vlan["vlan"] for each in listed for vlan in each["vlans"]}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def bridge() -> Iterator[None]:
    """A bridge with the port p1, and the port p2 that is in none yet."""
    subprocess.run(["ip", "netns", "add", SWITCH], check=True)
    try:
        ip("link", "add", "br0", "type", "bridge", "vlan_filtering", "1")
        for port in ("p1", "p2"):
            ip("link", "add", port, "type", "dummy")
        ip("link", "set", "p1", "master", "br0")
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", SWITCH], check=True)


@pytest.fixture
def leaving(bridge: None) -> Iterator[Callable[..., None]]:
    """Starts the program for these ports."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*ports: str) -> None:
        command = ["ip", "netns", "exec", SWITCH, PROGRAM, "1", *ports]
        running.append(subprocess.Popen(command))

    yield start
    for each in running:
        each.terminate()
        each.wait()


def test_a_port_that_is_in_the_vlan_leaves_it_and_stays_in_all_others(leaving):
    subprocess.run(["bridge", "-n", SWITCH, "vlan", "add", "dev", "p1", "vid", "10"], check=True)
    assert vlans("p1") == {1, 10}
    leaving("p1")
    until(lambda: vlans("p1") == {10})


def test_a_port_leaves_the_vlan_whenever_it_joins_the_bridge(leaving):
    leaving("p1", "p2", "p3")  # p3 is not there yet
    until(lambda: vlans("p1") == set())
    for _ in range(2):
        ip("link", "set", "p2", "master", "br0")
        until(lambda: vlans("p2") == set())
        ip("link", "set", "p2", "nomaster")
    ip("link", "add", "p3", "type", "dummy")
    ip("link", "set", "p3", "master", "br0")
    until(lambda: vlans("p3") == set())


def test_ports_that_are_not_named_stay_in_the_vlan(leaving):
    ip("link", "set", "p2", "master", "br0")
    leaving("p2")
    until(lambda: vlans("p2") == set())
    assert vlans("p1") == {1}
