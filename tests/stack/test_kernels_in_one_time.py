"""Real kernels, each with a clock of its own, in one virtual time: what they measure, to the ns."""

from __future__ import annotations

import itertools
import os
import signal
import struct
from pathlib import Path

import pytest

from tests import pcapng_reader
from tests.kernels_in_one_time import Node, Run, run, started

NS_PER_S = 10**9
# What one clock read takes in a user-mode kernel.
CLOCK_READ_NS = 256
CABLE = "rate=1000000000 propagation=1000"
PING_PONG_FRAME_OCTETS = 14 + 20 + 8 + 19 + 24

PING_PONG = """
ip addr add 10.0.0.$NODE/24 dev eth0; ip link set eth0 up
ip neigh add 10.0.0.$((1 - NODE)) lladdr 02:00:00:00:0$((2 - NODE)):01 dev eth0
exec python3 - <<'END'
import os, socket, time
node, now = int(os.environ["NODE"]), time.CLOCK_REALTIME
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.bind((f"10.0.0.{node}", 5000))
time.sleep(1 - node)
for _ in range(5):
    if node == 0:
        link.sendto(b"%d" % time.clock_gettime_ns(now), ("10.0.0.1", 5000))
    sent_ns = int(link.recv(100))
    received_ns = time.clock_gettime_ns(now)
    print(received_ns - sent_ns)
    if node == 1:
        link.sendto(b"%d" % received_ns, ("10.0.0.0", 5000))
END
"""

PTP4L = """
ports=$(ls /sys/class/net | grep eth)
for port in $ports; do ip link set $port up; done
cat > /tmp/ptp4l.conf <<END
[global]
priority1 $((100 + NODE))
logAnnounceInterval 0
logSyncInterval -3
syncReceiptTimeout 3
neighborPropDelayThresh 20000000
min_neighbor_prop_delay -20000000
follow_up_info 1
assume_two_step 1
transportSpecific 0x1
ptp_dst_mac 01:80:C2:00:00:0E
network_transport L2
delay_mechanism P2P
time_stamping software
pi_proportional_const 0.7
pi_integral_const 0.3
first_step_threshold 0.00002
step_threshold 0.00002
END
timeout 30 ptp4l -f /tmp/ptp4l.conf $(printf -- '-i %s ' $ports) -m
"""

TAPRIO = """
ip link set eth0 up
ethtool -L eth0 combined 8
ip addr add 10.0.0.$NODE/24 dev eth0
ip neigh add 10.0.0.$((1 - NODE)) lladdr 02:00:00:00:0$((2 - NODE)):01 dev eth0
[ $NODE = 1 ] && exec sleep 3
tc qdisc replace dev eth0 parent root handle 100 taprio num_tc 2 map 0 1 queues 1@0 1@1 \\
    base-time 0 sched-entry S 01 800000 sched-entry S 02 200000 clockid CLOCK_TAI
python3 - <<'END'
import socket, time
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, 1)
time.sleep(1)
for _ in range(200):
    link.sendto(bytes(100), ("10.0.0.1", 5000))
    time.sleep(0.00137)
END
"""


def files_of(result: Run) -> dict[str, bytes]:
    """What a run left that must be the same in each run."""
    return {
        str(path.relative_to(result.directory)): path.read_bytes()
        for pattern in ("*.csv", "*.pcapng", "*/1")
        for path in sorted(result.directory.glob(pattern))
    }


def twice(directory: Path, *network) -> list[Run]:
    """Two runs, whose sockets and files are at other places."""
    return [run(directory / name, *network) for name in ("first", "again")]


def test_random_numbers_of_a_kernel_repeat_wherever_its_sockets_are(tmp_path):
    node = Node("head -c 16 /dev/urandom | od -An -tx8")
    first, again = twice(tmp_path, {"a": node, "b": node}, {("a/p", "b/p"): CABLE})
    assert first.printed == again.printed
    assert first.printed["a"] != first.printed["b"]


def test_a_message_takes_the_cable_and_a_clock_read_each_way_and_a_run_repeats(tmp_path):
    nodes = {"a": Node(PING_PONG), "b": Node(PING_PONG)}
    runs = twice(tmp_path, nodes, {("a/p", "b/p"): f"{CABLE} capture={{}}/cable.pcapng"})
    to_b_ns = 8 * PING_PONG_FRAME_OCTETS + 1000 + CLOCK_READ_NS
    assert runs[0].printed["b"].split() == [str(to_b_ns)] * 5
    # On the way back the answer waits for nothing, but a sees it a Python statement later.
    (to_a_ns,) = set(map(int, runs[0].printed["a"].split()))
    assert to_b_ns <= to_a_ns <= to_b_ns + 8 * CLOCK_READ_NS
    assert files_of(runs[0]) == files_of(runs[1])
    capture = pcapng_reader.read((runs[0].directory / "cable.pcapng").read_bytes())
    sent = [frame for frame in capture.frames if frame.octets[12:14] == b"\x08\x00"]
    assert len(sent) == 10
    assert {len(frame.octets) for frame in sent} == {PING_PONG_FRAME_OCTETS - 24}


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A grandmaster, a boundary clock and a slave, locked by ptp4l; run twice."""
    nodes = {
        "gm": Node(PTP4L),
        "bc": Node(PTP4L, 300_000_000, "oscillator-ppb=25000"),
        "slave": Node(PTP4L, -7_000_000, "oscillator-ppb=-40000"),
    }
    cables = {("gm/p", "bc/p"): CABLE, ("bc/q", "slave/p"): CABLE}
    directory = tmp_path_factory.mktemp("ptp4l")
    sampled = f"offsets {{}}/offsets.csv {NS_PER_S // 10}"
    return twice(directory, nodes, cables, sampled)


def test_ptp4l_locks_clocks_that_are_off_and_the_truth_is_known_to_the_ns(locked):
    offsets = locked[0].offsets
    early = {node: offset for at_ns, node, offset, _ in offsets if at_ns == NS_PER_S}
    assert early["gm"] == 0
    assert early["bc"] == pytest.approx(300_000_000 + 25_000, abs=2)
    assert early["slave"] == pytest.approx(-7_000_000 - 40_000, abs=2)
    late = [offset for at_ns, _, offset, _ in offsets if at_ns > 20 * NS_PER_S]
    assert len(late) > 3 * 90
    # The stamps of software: a clock read on the way.
    assert max(map(abs, late)) <= 2 * CLOCK_READ_NS


def test_clocks_that_lock_lock_the_same_way_in_each_run(locked):
    first, second = map(files_of, locked)
    assert first == second
    assert len(first["offsets.csv"].splitlines()) > 3 * 250


def test_taprio_sits_on_a_card_of_many_queues(tmp_path):
    nodes = {"a": Node(TAPRIO), "b": Node(TAPRIO)}
    cable = f"{CABLE} capture={{}}/cable.pcapng"
    run(tmp_path / "run", nodes, {("a/p", "b/p"): cable}, queues=8)
    capture = pcapng_reader.read((tmp_path / "run" / "cable.pcapng").read_bytes())
    frames = [frame for frame in capture.frames if len(frame.octets) == 14 + 28 + 100]
    assert len(frames) == 200
    phases = [frame.time_ns % 1_000_000 for frame in frames]
    assert min(phases) >= 800_000
    # A timer of user-mode Linux fires 1 ns late.
    assert phases.count(800_001) > 100, "most wait for the gate and leave as it opens"


def test_an_oscillator_follows_its_table(tmp_path):
    table = [(0, 50_000_000), (2 * NS_PER_S, -30_000_000), (3 * NS_PER_S + 7, 0)]
    (tmp_path / "table").write_bytes(b"".join(itertools.starmap(struct.Struct("=Qq").pack, table)))
    nodes = {
        "a": Node("sleep 5", oscillator=f"oscillator-table={tmp_path}/table"),
        "b": Node("sleep 6"),
    }
    sampled = f"offsets {{}}/offsets.csv {NS_PER_S // 4}"
    result = run(tmp_path / "run", nodes, {("a/p", "b/p"): CABLE}, sampled)
    for at_ns, node, offset_ns, _ in result.offsets:
        ends_ns = [*(start for start, _ in table[1:]), at_ns]
        parts = [
            max(0, min(end, at_ns) - start) * ppt
            for (start, ppt), end in zip(table, ends_ns, strict=True)
        ]
        expected_ns = sum(parts) / 10**12 if node == "a" else 0
        assert offset_ns == pytest.approx(expected_ns, abs=2), (at_ns, node)
    assert len([1 for _, node, *_ in result.offsets if node == "a"]) >= 19


def test_a_kernel_that_is_killed_ends_the_run_with_its_name(tmp_path):
    nodes = {"a": Node("sleep 1000000"), "b": Node("sleep 1000000", may_end=False)}
    with started(tmp_path / "run", nodes, {("a/p", "b/p"): CABLE}) as (network, result):
        print("go", 10 * NS_PER_S, file=network.stdin, flush=True)
        assert network.stdout.readline() == f"reached {10 * NS_PER_S}\n"
        os.killpg(result.kernels["b"].pid, signal.SIGKILL)
        print("go", file=network.stdin, flush=True)
        words = network.stdout.readline().split(maxsplit=3)
        assert words[:2] == ["dead", "b"]
        assert words[3] == "has ended\n"
        assert network.wait() == 1
