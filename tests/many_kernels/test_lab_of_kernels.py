"""A lab in which each node is a kernel: it comes up, is pushed to, carries frames, and goes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S
from cnc.planner import plan as compute
from cnc.testbed.intent.lab_model import Clock, Clocks
from cnc.testbed.lab import status
from cnc.testbed.lab.kernels import offsets
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.lab.lifecycle import STATE_ROOT
from cnc.testbed.lab.vm.runner import VIRTUAL_EPOCH_NS
from tests import pcapng_reader
from tests.many_kernels import oscillators, true_time

CNC = Path(sys.executable).with_name("cnc")
TWO = """
name: kernelstest
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {min: 1us, max: 5us}
  clock-error: 1us
  gate-margin: 0ns
  talker-interference: none
  user: root
classes:
  control: {traffic-class: 7, priority: 7, dscp: 48, role: control, max-frame: 128B}
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches:
  s1: {management: 10.99.7.1, ports: [p1, p2]}
end-stations:
  t1:
  l1: {CLOCK}
links:
  - [t1/eth0, s1/p1]
  - [l1/eth0, s1/p2]
streams:
  motion: {talker: t1, listeners: [l1], period: 1ms, payload: 200B, max-latency: 500us}
"""
NAME = "kernelstest"
SHARED = STATE_ROOT / NAME / "kernels/shared"
CLOCK_ERROR_NS = 2_000
# Two switches one after the other, and clocks that are all off in another way.
THREE_CLOCKS = (
    TWO.replace(
        "  s1: {management: 10.99.7.1, ports: [p1, p2]}",
        "  s1: {management: 10.99.7.1, ports: [p1, p2],"
        " clock: {offset: 300ms, frequency-offset: 25ppm}}\n"
        "  s2: {management: 10.99.7.2, ports: [p1, p2], clock: {frequency-offset: -40ppm}}",
    )
    .replace("t1:\n", "t1: {management: 10.99.7.3}\n")
    .replace("l1: {CLOCK}", "l1: {clock: {offset: -7ms, frequency-offset: 50ppm}}")
    # Beside best effort a ptp4l with stamps of software is 1 us off for moments: a frame is stamped
    # before it waits for the one that is on the cable.
    .replace("clock-error: 1us", f"clock-error: {CLOCK_ERROR_NS}ns")
    .replace("[l1/eth0, s1/p2]", "[s2/p1, s1/p2]\n  - [l1/eth0, s2/p2]")
)
# A loop through both switches, whose plant has the oscillator that is off by most.
LOOP = (
    THREE_CLOCKS
    + """\
  position: {talker: l1, listeners: [t1], period: 1ms, payload: 100B, max-latency: 500us}
loops:
  axis:
    sensor: position
    actuator: motion
    period: 1ms
    compute: 50us
    deadline: 250us
    plant: {order: 1, gain: 1, time-constant: 5ms}
    controller: {pi: {kp: 1, ki: 250, limit: 10}}
    reference: 1
    duration: 100ms
"""
)
# Each test starts four kernels, some of them twice; beside a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)


def cnc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [CNC, *arguments], capture_output=True, text=True, timeout=900, check=False
    )


def on(node: str, *argv: str | Path) -> str:
    done = cnc("lab", "exec", NAME, node, "--", *argv)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def time_ns(node: str) -> int:
    return int(on(node, "date", "+%s%N"))


def up(file: Path, *options: str) -> None:
    done = cnc("lab", "up", file, "--kernels", "own", *options)
    assert done.returncode == 0, done.stdout + done.stderr


def send(file: Path) -> str:
    """Push, send for 50 ms, and return the record of every frame."""
    on("controller", "cnc", "push", file)
    on("controller", "cnc", "lab", "traffic", file, "--duration", "50ms", "-o", "/mnt/out/sent")
    return (SHARED / "sent/frames.csv").read_text()


def assert_in_step(during: Iterable[Offset]) -> None:
    """Whether all clocks follow the first switch's, by the stamps of software."""
    clocks: dict[int, dict[str, int]] = {}
    for each in during:
        clocks.setdefault(each.time_ns, {})[each.node] = each.offset_ns
        assert each.tai_minus_utc_s == 37
    assert len(clocks) > 10
    for by_node in clocks.values():
        assert by_node.pop("controller") == 0
        assert {*by_node} == {"s1", "s2", "t1", "l1"}
        assert by_node["s1"] > 300_000_000
        ahead_ns = {node: offset_ns - by_node["s1"] for node, offset_ns in by_node.items()}
        assert max(map(abs, ahead_ns.values())) < CLOCK_ERROR_NS, ahead_ns


@contextmanager
def captured(port: str, file: Path) -> Iterator[Path]:
    """What is on the cable of a port in the meantime."""
    with subprocess.Popen([CNC, "lab", "capture", NAME, port, "-o", file]) as process:
        while not (file.exists() and file.stat().st_size):
            time.sleep(0.05)
            assert process.poll() is None
        yield file
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def assert_programs_change_the_clock_and_not_its_oscillator(node: str, clock: Clock) -> None:
    """One per cent is more than a frequency that a program states can be: it takes ticks, too."""
    oscillator_before_ns, shown_before_ns = clocks_shown(node)
    steer = ("freq", "10000300", "wait", "2", "adj", "5", "wait", "0.1")
    on(node, "phc_ctl", "-q", "CLOCK_REALTIME", "--", *steer)
    oscillator_after_ns, shown_after_ns = clocks_shown(node)

    recorded = TrueOffsets(offsets.read(SHARED / "offsets.csv")).clock(node)
    before_ns, after_ns = map(recorded.true_ns, (shown_before_ns, shown_after_ns))
    passed_ns = after_ns - before_ns
    assert shown_after_ns - shown_before_ns - passed_ns > 5 * NS_PER_S + passed_ns // 110
    gained_ns = oscillators.gained_ns(clock, after_ns) - oscillators.gained_ns(clock, before_ns)
    assert gained_ns > 2_000
    assert abs(oscillator_after_ns - oscillator_before_ns - passed_ns - gained_ns) <= 5


def clocks_shown(node: str) -> tuple[int, int]:
    """What CLOCK_MONOTONIC_RAW of a node shows, and since the lab began its CLOCK_REALTIME, at an
    instant that is some records of the true offset away from the next command."""
    clocks = "time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), time.time_ns()"
    read = f"import time; time.sleep(0.05); print({clocks}); time.sleep(0.05)"
    oscillator_ns, realtime_ns = map(int, on(node, sys.executable, "-c", read).split())
    return oscillator_ns, realtime_ns - VIRTUAL_EPOCH_NS


def traces() -> list[str]:
    """All that the lab has on the machine."""
    processes = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and f"CNC_LAB={STATE_ROOT / NAME}\0".encode() in environ(entry)
    ]
    files = [*Path("/tmp").glob(f"cnc-lab-{NAME}-*"), *STATE_ROOT.glob(NAME)]  # noqa: S108
    return [*processes, *map(str, files)]


def environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    cnc("lab", "down", NAME)
    assert traces() == []


def test_a_stream_keeps_its_bound_through_the_gates_of_a_kernel(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text(TWO.replace("l1: {CLOCK}", "l1:"))
    up(file)
    assert all(node.present and all(node.processes.values()) for node in status(NAME))
    assert "10.128.1.1" in on("controller", "cnc", "lab", "status")
    frames = [row for row in csv.DictReader(send(file).splitlines()) if row["flow"] == "motion"]
    latencies_ns = {int(row["received_ns"]) - int(row["planned_ns"]) for row in frames}
    assert len(frames) == 50
    assert max(latencies_ns) < compute(intents.load(file)).streams["motion"].latency_bound_ns
    assert "taprio" in on("s1", "tc", "qdisc", "show", "dev", "p2")


def test_time_stands_still_between_commands_and_clocks_run_as_stated(tmp_path: Path):
    file = tmp_path / "two.yaml"
    clock = (
        "l1: {clock: {offset: -7ms, frequency-offset: 50ppm, random-walk: 3ppb,"
        " sinusoid: {amplitude: 5ppm, period: 20s}}}"
    )
    file.write_text(TWO.replace("l1: {CLOCK}", clock))
    up(file, "--clocks", "free")
    before_ns = time_ns("controller")
    time.sleep(2)
    assert time_ns("controller") - before_ns < NS_PER_S

    behind_ns = time_ns("l1") - time_ns("controller")
    on("controller", "sleep", "100")
    gained_ns = time_ns("l1") - time_ns("controller") - behind_ns
    # The two commands that read the clocks take some milliseconds of virtual time, and the
    # frequency swings five times.
    assert abs(gained_ns - 5_000_000) < 2_000_000
    its = intents.load(file)[Clocks].by_node["l1"]
    oscillators.assert_runs_by_its_table("l1", its, SHARED / "offsets.csv")
    assert_programs_change_the_clock_and_not_its_oscillator("l1", its)


def test_time_passes_with_the_machines_where_an_intent_wants_it_real(tmp_path: Path):
    file = tmp_path / "two.yaml"
    stated = "lab: {kernels: own, clocks: free, time: real}\n"
    file.write_text(TWO.replace("l1: {CLOCK}", "l1:") + stated)
    done = cnc("lab", "up", file)
    assert done.returncode == 0, done.stdout + done.stderr
    begun_ns, first_ns = time.monotonic_ns(), time_ns("l1")
    time.sleep(2)  # in which no command runs
    passed_ns, machines_ns = time_ns("l1") - first_ns, time.monotonic_ns() - begun_ns
    assert passed_ns > 200_000_000
    # It catches up at most 100 ms of what it was behind.
    assert passed_ns < machines_ns + 100_000_000
    begun_ns = time.monotonic_ns()
    on("l1", "sleep", "1")
    assert time.monotonic_ns() - begun_ns > 900_000_000


def test_clocks_are_set_at_the_instants_that_are_stated(tmp_path: Path):
    """A step between two records, 10 ms apart, in which an oscillator gains nothing."""
    file = tmp_path / "two.yaml"
    clock = "l1: {clock: {steps: [{at: 1s, by: 1us}, {at: 3s, by: -1s}]}}"
    file.write_text(TWO.replace("l1: {CLOCK}", clock))
    up(file, "--clocks", "free")
    begun_ns = time_ns("controller") - VIRTUAL_EPOCH_NS
    on("controller", "sleep", "5")
    found = [each for each in offsets.read(SHARED / "offsets.csv") if each.node == "l1"]
    steps = [
        (after.time_ns - begun_ns, after.offset_ns - before.offset_ns)
        for before, after in pairwise(found)
        if after.offset_ns != before.offset_ns
    ]
    assert [by_ns for _, by_ns in steps] == [1_000, -NS_PER_S]
    (first_ns, _), (second_ns, _) = steps
    # A command takes some milliseconds before it begins.
    assert abs(first_ns - NS_PER_S) < NS_PER_S // 10
    assert abs(second_ns - first_ns - 2 * NS_PER_S) <= offsets.PERIOD_NS


def test_gptp_settles_clocks_that_are_off_and_a_push_needs_them_settled(tmp_path: Path):
    file = tmp_path / "three.yaml"
    file.write_text(THREE_CLOCKS)
    up(file)
    frames = [row for row in csv.DictReader(send(file).splitlines()) if row["flow"] == "motion"]
    latencies_ns = {int(row["received_ns"]) - int(row["planned_ns"]) for row in frames}
    assert len(frames) == 50
    assert max(latencies_ns) < compute(intents.load(file)).streams["motion"].latency_bound_ns
    assert_in_step(offsets.read(SHARED / "sent/offsets.csv"))
    assert_traced_in_true_time(file, tmp_path / "traced")

    measured = tmp_path / "measured.yaml"
    measured.write_text(THREE_CLOCKS.replace(f"{CLOCK_ERROR_NS}ns", "measured"))
    found = on("controller", "cnc", "plan", measured, "--ask-switches", "--json")
    clock_error = json.loads(found)["clock_error"]
    apart = clock_error["measured"]
    assert {apart["first"], apart["second"]} < {"s1", "s2", "t1"}
    assert 100 < apart["apart_ns"] < clock_error["value_ns"] <= 2_000

    assert "a push can go ahead" in on("controller", "cnc", "doctor", file)
    on("s2", "pkill", "-x", "ptp4l")
    watch = ("timeout", "--preserve-status", "-s", "INT", "4", "cnc", "watch", file)
    assert "s2/p1  ptp-port-state: " in on("controller", *watch)
    file.write_text(THREE_CLOCKS.replace("period: 1ms", "period: 2ms"))
    push = ("lab", "exec", NAME, "controller", "--", "cnc", "push", file)
    refused = cnc(*push)
    assert refused.returncode == 1
    assert "managed by PTP instance 0" in refused.stdout + refused.stderr
    assert_clocks_show_who_was_away(tmp_path / "clocks")
    on("controller", "sleep", "30")
    assert cnc(*push).returncode == 0

    looped = tmp_path / "loop.yaml"  # another file: kernels keep what they have read of one
    looped.write_text(LOOP)
    assert_a_loop_is_closed_as_with_one_clock(looped)
    assert_clocks_a_period_apart_are_told(looped)


def closed(file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code of a loop that is closed, and what was found."""
    command = ("cnc", "lab", "loop", file, "--json", *options)
    done = cnc("lab", "exec", NAME, "controller", "--", *command)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def assert_a_loop_is_closed_as_with_one_clock(file: Path) -> None:
    """Beside best effort, with each clock where its own ptp4l keeps it."""
    # Else the stream that runs would stay where it is, and the loop take a period more.
    on("controller", "cnc", "push", "--reoptimise", file)
    code, found = closed(file, "-o", "/mnt/out/loop")
    assert (code, found["violations"], found["other_lists"]) == (0, [], [])
    assert found["is_undisturbed"]
    assert (found["missed"], found["lost_samples"], found["lost_commands"]) == (0, 0, 0)
    assert found["delay"]["max_ns"] <= sum(found["planned"].values())
    assert 0 < found["clocks"]["apart_ns"] <= found["clock_error_ns"] == CLOCK_ERROR_NS
    assert len((SHARED / "loop/loop.csv").read_text().splitlines()) == 1 + found["periods"]
    assert_in_step(offsets.read(SHARED / "loop/offsets.csv"))


def assert_clocks_a_period_apart_are_told(file: Path) -> None:
    """The clock of the plant is set ahead, and nothing brings it back."""
    on("l1", "pkill", "-x", "ptp4l")
    on("l1", "phc_ctl", "-q", "CLOCK_REALTIME", "--", "adj", "0.001")
    code, found = closed(file)
    assert code == 1
    assert found["clocks"]["ahead"] == "l1"
    assert abs(found["clocks"]["apart_ns"] - 1_000_000) < CLOCK_ERROR_NS
    assert found["violations"][0].startswith("axis: the clock of l1 was ")
    assert (found["missed"], found["is_undisturbed"]) == (found["periods"], False)


def assert_traced_in_true_time(file: Path, directory: Path) -> None:
    """Clocks that follow the first switch's are 300 ms ahead of true time, and it drifts."""
    done = cnc("lab", "trace", file, "--duration", "50ms", "--json", "-o", directory)
    assert done.returncode == 0, done.stderr
    shown = {
        f"{node}/p2": on(node, "tc", "-j", "qdisc", "show", "dev", "p2") for node in ("s1", "s2")
    }
    schedules = {port: true_time.schedule_of(each) for port, each in shown.items()}
    traced = true_time.Traced.of(done.stdout, directory)
    true_time.check(traced, SHARED / "offsets.csv", schedules)
    assert sum(row["flow"] == "motion" for row in traced.rows) == 50
    assert traced.document["true_time"]["apart_max_ns"] < CLOCK_ERROR_NS
    assert min(each["least_ns"] for each in traced.document["true_time"]["clocks"]) > 300_000_000
    captured = pcapng_reader.read((directory / "trace.pcapng").read_bytes())
    way = [each.port for each in captured.frames if "motion/17" in each.comments]
    assert way == ["t1/eth0", "s1/p1", "s1/p2", "s2/p1", "s2/p2", "l1/eth0"]


def assert_clocks_show_who_was_away(directory: Path) -> None:
    """s2, whose ptp4l was killed, is about to be s1's follower again."""
    shown = cnc("lab", "clocks", NAME, "--json", "-o", directory)
    clocks = {each["node"]: each for each in json.loads(shown.stdout)["clocks"]}
    assert (clocks["s1"]["role"], clocks["s1"]["ahead_ns"]) == ("grandmaster", 0)
    assert (clocks["t1"]["role"], clocks["t1"]["grandmaster"]) == ("follows", "s1")
    assert abs(clocks["t1"]["ahead_ns"]) < CLOCK_ERROR_NS
    of_s2 = [each["role"] for each in clocks["s2"]["roles"]]
    assert "starting" in of_s2[of_s2.index("follows") :]
    kept = {file.name for file in directory.iterdir()}
    assert kept == {"clocks.svg", "clocks.png", "clocks.pdf", "offsets.csv", "roles.csv"}


def test_a_kernel_that_dies_ends_the_lab_with_its_name(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text(TWO.replace("l1: {CLOCK}", "l1:"))
    up(file)
    (killed,) = (node for node in status(NAME) if node.node == "t1")
    pid = killed.processes["linux"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    done = cnc("lab", "exec", NAME, "s1", "--", "sleep", "10")
    assert done.returncode == 1
    assert re.search(r"lab kernelstest has ended: kernel of t1: ", done.stderr)
    assert cnc("lab", "status", NAME).returncode == 1
