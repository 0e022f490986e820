"""What `cnc status` says of frames that do not leave as planned, of real kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.traffic.endpoint import tai_ns

# Its window of 114 ns is just long enough for a frame of 100 octets.
INTENT = """
name: starve
defaults:
  rate: 10Gbps
  propagation: 100ns
  processing: {min: 1us, max: 5us}
  clock-error: 0ns
  gate-margin: 0ns
  recovery: none
classes:
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches:
  s1: {ports: [p1, p2], management: 10.96.0.1}
end-stations: [talker, listener]
links:
  - [talker/eth0, s1/p1]
  - [s1/p2, listener/eth0]
streams:
  f: {talker: talker, listeners: [listener], period: 1ms, payload: 100B, max-latency: 900us}
"""
FRAMES = 20
SEND = f"""
import socket, sys, time
sender = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 46 << 2)
for _ in range({FRAMES}):
    sender.sendto(bytes(52), (sys.argv[1], 9))
    time.sleep(0.001)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Path]]:
    file = tmp_path_factory.mktemp("starve") / "starve.yaml"
    file.write_text(INTENT)
    with lab(intents.load(file)) as running:
        yield running, file


def run_plan_of(running: Lab, file: Path) -> None:
    report = push(compute(intents.load(file)), connect=running.connect)
    time.sleep(max(0, (report.base_time_ns or 0) - tai_ns()) / NS_PER_S)


def send(running: Lab) -> None:
    target = str(addresses(running.intent)["listener"].v6)
    argv = running.command("talker", [sys.executable, "-c", SEND, target])
    subprocess.run(argv, check=True, timeout=60)


def cnc(running: Lab, command: str, file: Path) -> tuple[int, str]:
    keys = {"CNC_IDENTITY": str(running.identity), "CNC_KNOWN_HOSTS": str(running.known_hosts)}
    done = subprocess.run(
        [sys.executable, "-m", "cnc", command, file],
        env={**os.environ, **keys, "CNC_STATE_DIR": str(file.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def make_frames_too_long(running: Lab) -> None:
    """Let the kernel take every frame for one of 500 octets: none fits, and it notices too late.

    Frames that are longer than every window it would drop, but not by what a size table adds.
    """
    shown = subprocess.run(
        running.command("s1", ["tc", "qdisc", "show", "dev", "p2", "root"]),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    base_time = re.findall(r"base-time (\d+)", shown)[-1]
    entries = re.findall(r"cmd S gatemask (\S+) interval (\d+)", shown)
    taprio = "num_tc 7 map 0 0 0 0 0 0 6 0 queues 1@0 1@1 1@2 1@3 1@4 1@5 1@6 clockid CLOCK_TAI"
    for command in (
        "del dev p2 root",
        "add dev p2 root handle 7a0: stab overhead 24 mpu 500 mtu 2047 tsize 512 taprio "
        f"{taprio} base-time {base_time} "
        + " ".join(f"sched-entry S {gates} {interval}" for gates, interval in entries),
    ):
        subprocess.run(running.command("s1", ["tc", "qdisc", *command.split()]), check=True)
    time.sleep(1)


@pytest.mark.virtual_time
def test_status_tells_of_frames_that_never_leave_and_its_hint_lets_them(network) -> None:
    running, file = network
    run_plan_of(running, file)
    send(running)
    exit_code, told = cnc(running, "status", file)
    assert (exit_code, "starved" in told) == (0, False)

    make_frames_too_long(running)
    send(running)
    exit_code, told = cnc(running, "status", file)
    assert f"running; starved: class 6 has {FRAMES} frames waiting and sent none in 2 s" in told
    assert "hint:" in told
    assert "gate-margin" in told
    assert exit_code == 1

    file.write_text(INTENT.replace("gate-margin: 0ns", "gate-margin: 50us"))
    run_plan_of(running, file)
    send(running)
    exit_code, told = cnc(running, "status", file)
    assert "starved" not in told
    assert "running" in told
    assert exit_code == 0


def test_the_agent_classifies_at_a_port_that_joins_a_bridge_and_status_sees_when_it_is_undone(
    network, eventually
) -> None:
    running, file = network
    run_plan_of(running, file)

    def on_s1(command: str) -> str:
        argv = running.command("s1", command.split())
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def filters() -> int:
        return on_s1("tc filter show dev p2 egress").count("skbedit")

    on_s1("ip link add br0 type bridge")
    on_s1("ip link set p2 master br0")
    eventually(lambda: filters() > 0)
    exit_code, told = cnc(running, "status", file)
    assert (exit_code, "not classified" in told) == (0, False)

    on_s1("tc qdisc del dev p2 clsact")
    words = "frames bridged by br0 are not classified: the filters at the port's egress differ"
    exit_code, told = cnc(running, "status", file)
    assert (exit_code, words in told) == (0, True)
    exit_code, told = cnc(running, "doctor", file)
    assert f"warning: classification: s1/p2: {words}" in told

    on_s1("ip link set p2 nomaster")
    exit_code, told = cnc(running, "status", file)
    assert (exit_code, "not classified" in told) == (0, False)
