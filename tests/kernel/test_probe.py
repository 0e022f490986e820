"""tsn-probe where computing takes no time: cycles do not count there, and clocks do."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cnc.testbed.traffic.probe import PROGRAM
from tests.unit.silent_ptp4l import HARDWARE, SilentPtp4l

pytestmark = pytest.mark.virtual_time
A, B = "probe-a", "probe-b"  # hosts
FROM, TO = "192.0.2.1", "192.0.2.2"
NETDEVSIM = Path("/sys/bus/netdevsim")
UTC_OFFSET_S = 37


def test_cycles_that_pass_while_time_stands_still_are_refused():
    cost = subprocess.run([PROGRAM, "cost"], capture_output=True, text=True, check=True)
    assert "tsc refused: its cycles do not go with the clock, as in virtual time" in cost.stdout
    done = subprocess.run(
        [PROGRAM, "receive", "--clock", "tsc"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "use --clock realtime" in done.stderr


def test_a_stamp_costs_what_reading_a_clock_does_in_virtual_time():
    cost = subprocess.run([PROGRAM, "cost"], capture_output=True, text=True, check=True)
    (line,) = (line for line in cost.stdout.splitlines() if line.startswith("realtime_stamp_ns "))
    assert float(line.split()[1]) == pytest.approx(256, abs=2)


@pytest.fixture
def hosts(tmp_path) -> Iterator[tuple[Path, Path]]:
    """Two hosts on one cable, of which the second has the clock that the first one's ptp4l follows;
    where their ptp4l answer."""
    sockets = tmp_path / "a", tmp_path / "b"
    with ExitStack() as stack:
        for host in (A, B):
            ip("netns", "add", host)
            stack.callback(ip, "netns", "del", host)
        cable = ["link", "add", "eth0", "netns", A, "type", "veth", "peer", "eth0", "netns", B]
        ip(*cable)
        for host, address in ((A, FROM), (B, TO)):
            ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
        for host, its, options in ((B, sockets[1], []), (A, sockets[0], ["--slaveOnly=1"])):
            command = ["ptp4l", "-q", "-S", "-2", "-i", "eth0", f"--uds_address={its}", *options]
            daemon = stack.enter_context(subprocess.Popen(["ip", "netns", "exec", host, *command]))
            stack.callback(daemon.kill)
        yield sockets


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def test_packets_wait_until_two_real_ptp4l_have_been_in_step_for_ten_seconds(hosts, tmp_path):
    sent, received = tmp_path / "sent.csv", tmp_path / "received.csv"
    ours, theirs = (["--ptp4l", str(each)] for each in hosts)
    listen = ["ip", "netns", "exec", B, PROGRAM, "receive", *theirs, "--count", "10"]
    with subprocess.Popen([*listen, "-o", received]) as receiver:
        time.sleep(5)  # both ptp4l have a socket, and have not chosen a clock
        send = ["ip", "netns", "exec", A, PROGRAM, "send", TO, *ours, "--sync", "5us"]
        done = subprocess.run(
            [*send, "--count", "10", "-o", sent],
            check=True,
            timeout=300,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert receiver.wait(60) == 0
    assert "waiting for this host: its ptp4l has no port in the state slave" in done.stderr
    lines = sent.read_text().splitlines()
    header = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    assert header["sync_limit_ns"] == "5000"
    assert header["sync_source"] == f"{hosts[0]}, which keeps the system clock"
    assert abs(int(header["offset_ns"])) <= 5000
    assert header["receiver_offset_ns"] == "0"  # the grandmaster
    assert len(received.read_text().splitlines()) > 10


def test_clocks_in_step_are_watched_for_ten_seconds(tmp_path):
    here, there = tmp_path / "a", tmp_path / "b"
    listen = [PROGRAM, "receive", "127.0.0.1", "--ptp4l", there, "--count", "1", "-o", "/dev/null"]
    with SilentPtp4l(here), SilentPtp4l(there), subprocess.Popen(listen) as receiver:
        time.sleep(0.1)
        begun = time.monotonic()
        where = ["127.0.0.1", "--ptp4l", here, "--sync", "1us", "--count", "1", "-o", "/dev/null"]
        subprocess.run([PROGRAM, "send", *where], check=True, timeout=60)
        assert receiver.wait(60) == 0
    assert 10 <= time.monotonic() - begun < 13


DELAYED_NS = 3_000_000
SWITCH = "probe-switch"


@pytest.fixture
def switched() -> Iterator[None]:
    """Two hosts and a bridge between them, whose port to the second host holds frames for 3 ms."""
    with ExitStack() as stack:
        for host in (A, SWITCH, B):
            ip("netns", "add", host)
            stack.callback(ip, "netns", "del", host)
        ip("-n", SWITCH, "link", "add", "br0", "up", "type", "bridge")
        for host, port, address in ((A, "p1", FROM), (B, "p2", TO)):
            peer = ["peer", "eth0", "netns", host]
            ip("link", "add", port, "netns", SWITCH, "type", "veth", *peer)
            ip("-n", SWITCH, "link", "set", port, "up", "master", "br0")
            ip("-n", host, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", host, "link", "set", "eth0", "up")
        held = ["root", "netem", "delay", f"{DELAYED_NS // 1_000_000}ms"]
        tc = ["ip", "netns", "exec", SWITCH, "tc", "qdisc", "add", "dev", "p2", *held]
        subprocess.run(tc, check=True)
        yield


def test_the_residence_of_a_flow_is_from_port_to_port_with_what_did_not_go_on(switched, tmp_path):
    file = tmp_path / "residence.csv"
    inside = ["ip", "netns", "exec"]
    residence = [*inside, SWITCH, PROGRAM, "residence", "p1", "p2", "--dscp", "46", "--wait", "1s"]
    listen = [*inside, B, PROGRAM, "receive", "--wait", "1s", "-o", "/dev/null"]
    with (
        subprocess.Popen([*residence, "-o", file], stderr=subprocess.PIPE, text=True) as there,
        subprocess.Popen(listen),
    ):
        time.sleep(0.1)
        send = [*inside, A, PROGRAM, "send", TO, "-o", "/dev/null", "--period", "20ms"]
        subprocess.run([*send, "--count", "5"], check=True, timeout=60)  # of another flow
        with subprocess.Popen([*send, "--dscp", "46", "--count", "20"]) as sender:
            time.sleep(0.3)  # of which the first packet is 0.1 ahead
            ip("-n", SWITCH, "link", "set", "p2", "nomaster")
            assert sender.wait(60) == 0
        assert there.wait(60) == 0
        assert there.stderr
        said = there.stderr.read()
    lines = file.read_text().splitlines()
    header = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# "))
    assert (header["ports"], header["packets"], header["of_others"]) == ("p1 p2", "20", "0")
    rows = [line.split(",") for line in lines if line[0].isdigit()]
    stayed_ns = [int(out) - int(into) for _, into, out in rows if out]
    assert len(rows) == 20
    assert 5 < len(stayed_ns) < 15
    assert header["not_forwarded"] == str(20 - len(stayed_ns))
    assert f"20 packets came in, {20 - len(stayed_ns)} did not go on" in said
    assert stayed_ns == [pytest.approx(DELAYED_NS, abs=10_000)] * len(stayed_ns)


@pytest.fixture
def card(tmp_path) -> Iterator[tuple[str, int]]:
    """A port with a clock of its own, which the kernel computes, and the descriptor of that."""
    (NETDEVSIM / "new_device").write_text("7 1")
    try:
        device = NETDEVSIM / "devices" / "netdevsim7"
        (name,) = (each.name for each in (device / "net").iterdir())
        (clock,) = (each.name for each in (device / "ptp").iterdir())
        descriptor = os.open(f"/dev/{clock}", os.O_RDWR)
        yield name, ~descriptor << 3 | 3
        os.close(descriptor)
    finally:
        (NETDEVSIM / "del_device").write_text("7")


@pytest.mark.parametrize("off_ns", [0, 20_000])
def test_where_ptp4l_keeps_the_clock_of_a_card_the_system_is_compared_with_it(
    off_ns, card, tmp_path
):
    """The card is 300 ns ahead of the grandmaster and `off_ns` ahead of the system, in TAI."""
    name, clock = card
    here, there = tmp_path / "a", tmp_path / "b"
    time.clock_settime_ns(clock, time.time_ns() + UTC_OFFSET_S * 10**9 + off_ns)
    with (
        SilentPtp4l(here, ahead_ns=300, stamps=HARDWARE, interface=name),
        SilentPtp4l(there),
        subprocess.Popen(
            [PROGRAM, "receive", "127.0.0.1", "--ptp4l", there, "-o", "/dev/null"]
        ) as receiver,
    ):
        time.sleep(0.1)
        where = ["127.0.0.1", "--ptp4l", here, "--sync", "5us", "-o", "/dev/null"]
        with subprocess.Popen(
            [PROGRAM, "send", *where], stderr=subprocess.PIPE, text=True
        ) as sender:
            assert sender.stderr
            said = sender.stderr.readline()
            sender.terminate()
        receiver.terminate()
    assert ("waiting for this host" in said) == bool(off_ns)
    found_ns = int(said.split("clock ")[1].split()[0])
    assert found_ns == pytest.approx(300 - off_ns, abs=3_000)
    assert f"which keeps the clock of {name}" in said
