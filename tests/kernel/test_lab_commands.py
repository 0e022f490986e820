"""`cnc lab` as its users have it: a Mininet topology comes up, is looked into, and goes again."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.kernel.link import WAKE_UP_PROBE
from cnc.testbed.cli.lab import lab
from cnc.testbed.lab import lifecycle, mininet, namespaces
from cnc.testbed.lab.addressing import next_hops
from cnc.testbed.lab.switch import PROGRAMS
from cnc.testbed.lab.wires import travel_ns
from tests.kernel.test_lab import traces

TOPO = Path(__file__).parents[2] / "schedules" / "mininet-line.py"
CHOSEN = "line,2,hosts=1"  # h1 ─ s1 ─ s2 ─ h2, and 10 Mbit/s and 2 ms in the middle
NAME = "mininet-line"
PORT = 5000
SO_TIMESTAMPNS = 35
SO_SNDBUFFORCE = 32
UDP_HEADER_OCTETS, IP_HEADER_OCTETS = 8, {4: 20, 6: 40}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}
CNC = [sys.executable, "-m", "cnc"]


def cnc(*argv: object) -> str:
    done = CliRunner().invoke(lab, [str(word) for word in argv], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def running() -> Iterator[None]:
    assert "with timed wires" in cnc("up", TOPO, "--topo", CHOSEN)
    yield
    cnc("down")
    assert traces(NAME) == []


def latency_ns(source: str, target: str, version: int, payload_octets: int) -> int:
    """From sendto to the kernel's stamp of arrival, over the address that `status` shows."""
    (reached,) = (n.addresses for n in lifecycle.status(NAME) if n.node == target)
    address = reached[0 if version == 4 else 1]

    def receiver() -> socket.socket:
        opened = socket.socket(FAMILY[version], socket.SOCK_DGRAM)
        opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        opened.bind((address, PORT))
        opened.settimeout(10)
        return opened

    def sender() -> socket.socket:
        return socket.socket(FAMILY[version], socket.SOCK_DGRAM)

    home, far = (namespaces.of_node(NAME, node) for node in (source, target))
    headers_octets = UDP_HEADER_OCTETS + IP_HEADER_OCTETS[version]
    with namespaces.inside(far, receiver) as arriving, namespaces.inside(home, sender) as leaving:
        sent_ns = time.time_ns()
        leaving.sendto(bytes(payload_octets - headers_octets), (address, PORT))
        _, ((_, _, stamp),), _, _ = arriving.recvmsg(2048, 64)
    seconds, nanoseconds = struct.unpack("=qq", stamp)
    return seconds * 10**9 + nanoseconds - sent_ns


@pytest.mark.virtual_time
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("payload_octets", [100, 1400])
def test_frames_take_the_rate_and_the_delay_that_mininet_was_told(
    running: None, version: int, payload_octets: int
):
    network = mininet.read(TOPO, CHOSEN).intent.network
    for source, target in (("h1", "h2"), ("h2", "h1")):
        hop, expected_ns = next_hops(network, target), 0
        node = source
        while node != target:
            expected_ns += travel_ns(network, hop[node], payload_octets)
            node = hop[node].target.node
        assert expected_ns > 2_000_000 + payload_octets * 8 * 100
        assert latency_ns(source, target, version, payload_octets) == pytest.approx(
            expected_ns, abs=2_000
        )


def test_interfaces_are_named_as_mininet_names_them(running: None):
    for node, expected in (("h1", {"h1-eth0"}), ("s1", {"br0", "s1-eth1", "s1-eth2", "mgmt"})):
        found = namespaces.inside(namespaces.of_node(NAME, node), socket.if_nameindex)
        assert {name for _, name in found} - {"lo", "sit0", WAKE_UP_PROBE} == expected


@pytest.mark.parametrize("words", [["s1"], [NAME, "s1"]])
def test_a_command_runs_on_a_node_of_the_only_lab_without_naming_it(
    running: None, words: list[str], capfd
):
    command = ["sh", "-c", "cat /sys/class/net/s1-eth1/ifindex; exit 7"]
    done = CliRunner().invoke(lab, ["exec", *words, "--", *command])
    assert done.exit_code == 7
    assert int(capfd.readouterr().out) > 0


def test_a_shell_knows_where_it_is_and_reads_what_it_is_told(running: None):
    done = subprocess.run(
        [*CNC, "lab", "shell", "s2"],
        input='echo "$CNC_NODE $SYSREPO_SHM_PREFIX"\nls -d /sys/class/net/s2-eth*\nexit 3\n',
        capture_output=True,
        text=True,
        check=False,
    )
    first, *interfaces = done.stdout.splitlines()
    assert first == f"{NAME}/s2 tsn-{NAME}-s2."
    assert interfaces == ["/sys/class/net/s2-eth1", "/sys/class/net/s2-eth2"]
    assert done.returncode == 3


def test_status_names_every_node_its_addresses_and_programs(running: None):
    shown = json.loads(cnc("status", "--json"))
    assert [node["node"] for node in shown] == ["s1", "s2", "h1", "h2"]
    assert all(node["present"] and len(node["addresses"]) == 2 for node in shown)
    assert [sorted(node["processes"]) for node in shown] == [sorted(PROGRAMS)] * 2 + [[]] * 2
    assert "10.128." in cnc("status", NAME)


def test_a_lab_does_not_go_down_from_inside(running: None, capfd):
    assert lifecycle.execute(NAME, "h1", [*CNC, "lab", "down"]) == 1
    assert "cannot go down from inside" in capfd.readouterr().err
    assert lifecycle.names() == [NAME]


def alone(name: str, directory: Path) -> Path:
    """One switch and two hosts as an intent, managed on another subnet."""
    file = directory / f"{name}.yaml"
    cnc("import", TOPO, "--topo", "line,1", "-o", file)
    text = file.read_text().replace(f"name: {NAME}", f"name: {name}")
    file.write_text(text.replace("10.99.0", "10.96.0"))
    return file


def test_a_topology_alone_comes_up_and_all_that_runs_in_it_ends_with_it(tmp_path: Path):
    file = alone("alone", tmp_path)
    assert "streams: {}" in file.read_text()
    assert "with instant wires" in cnc("up", file, "--wires", "instant")
    homes = [namespaces.of_node("alone", "h1"), *namespaces.inner("alone")]
    strangers = [
        subprocess.Popen(["ip", "netns", "exec", home, "sh", "-c", "trap '' TERM; sleep 1000"])
        for home in homes
    ]
    while not all(map(namespaces.members, homes)):
        time.sleep(0.01)
    cnc("down", "alone")
    assert not any(Path(f"/proc/{stranger.pid}").exists() for stranger in strangers)
    assert traces("alone") == []
    assert cnc("status", "alone") == "no lab alone is up\n"


def test_nothing_is_left_of_a_lab_that_crashed_while_its_timed_wires_were_laid(tmp_path: Path):
    starting = subprocess.Popen(
        [*CNC, "lab", "up", alone("crashed", tmp_path), "--wires", "timed"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not Path("/run/netns/tsn-crashed.wires").exists():
            assert starting.poll() is None
            time.sleep(0.01)
    finally:
        starting.kill()
        starting.wait()
    assert traces("crashed")
    cnc("down", "crashed")
    assert traces("crashed") == []


def waiting(namespace: str, device: str, kind: str) -> int:
    """How many frames wait in the qdisc of that kind."""
    shown = subprocess.run(
        ["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", device],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (qlen,) = (each["qlen"] for each in json.loads(shown) if each["kind"] == kind)
    return int(qlen)


@pytest.mark.virtual_time
def test_what_is_more_than_a_slow_link_carries_waits_in_its_port_and_not_on_the_wire(
    running: None,
):
    (reached,) = (n.addresses[0] for n in lifecycle.status(NAME) if n.node == "h2")
    home = namespaces.of_node(NAME, "h1")
    with namespaces.inside(
        home, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ) as sender:
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20)
        for _ in range(300):
            sender.sendto(bytes(1400 - 28), (reached, PORT))
        time.sleep(0.04)  # at 100 Mb/s all have reached s1, at 10 Mb/s 35 have left it
        queued = waiting(namespaces.of_node(NAME, "s1"), "s1-eth2", "tbf")
        wires = namespaces.of_wires(NAME)
        names = [line.split()[4] for line in tc_lines(wires) if "rate 10Mbit" in line]
        on_the_wire = max(waiting(wires, name, "netem") for name in names)
        time.sleep(1)
    assert queued > 200
    # Two milliseconds of delay hold two of these frames, and the burst of the shaper is seven.
    assert on_the_wire <= 10


def tc_lines(namespace: str) -> list[str]:
    return subprocess.run(
        ["tc", "-n", namespace, "qdisc", "show"], check=True, capture_output=True, text=True
    ).stdout.splitlines()
