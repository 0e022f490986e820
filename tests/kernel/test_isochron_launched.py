"""isochron, as Debian has it, sends at the instants that the agent of its station hands out."""

# ruff: noqa: F811  (fixtures of another file come by import)

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cnc.model import NS_PER_S, Plan, PortRef
from cnc.rollout.history import History
from cnc.talker import OffsetFile, launch_time, sleep_until, tai_ns
from cnc.testbed.lab import Lab
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.lab.namespaces import inside
from tests.kernel.test_isochron import HARDWARE_CLOCK
from tests.kernel.test_lab_launch_time import (  # noqa: F401
    SOFTWARE,
    bring,
    history,
    planned,
    running,
)

PORT, STREAM, FRAMES = PortRef("t1", "eth0"), "motion", 200
OCTETS, UDP_OVER_IPV6_OCTETS = 100, 48
STAMP_NS = 1_000  # reading the clock takes 256 ns of virtual time

pytestmark = pytest.mark.virtual_time


def seconds(time_ns: int) -> str:
    """As isochron reads times."""
    return f"{time_ns // NS_PER_S}.{time_ns % NS_PER_S:09d}"


def launched(running: Lab, plan: Plan, directory: Path) -> tuple[list[int], int]:
    """When frames left by their stamps, modulo the period; and the offset that the agent hands out.

    etf releases a frame the delta of the qdisc before its time of transmission, so that isochron,
    which states the instant of its schedule, has that shifted by it. It wakes up no more than a
    cycle before, which has to be more than the delta.
    """
    offsets = OffsetFile(running.offsets_file(PORT.node)).offsets()
    departure = offsets.departure(STREAM, tai_ns() + NS_PER_S)
    assert departure is not None
    stream = departure.stream
    launch = inside(running.namespace(PORT.node), lambda: launch_time(PORT.port, stream.priority))
    shift_ns = launch.txtime_ns(departure.instant_ns) - departure.instant_ns
    assert 0 < shift_ns < stream.period_ns
    library, log, report = (directory / name for name in ("clock.so", "log", "report.txt"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HARDWARE_CLOCK], check=True)
    isochron = ["env", f"LD_PRELOAD={library}", "isochron"]
    listener = plan.intent.streams[STREAM].listeners[0]
    address = addresses(running.intent)[listener].v6
    when = [
        *("--base-time", seconds(departure.instant_ns), "--shift-time", seconds(shift_ns)),
        *("--cycle-time", seconds(stream.period_ns), "--advance-time", seconds(stream.period_ns)),
    ]
    what = [
        "--num-frames",
        FRAMES,
        "--frame-size",
        OCTETS,
        "--priority",
        stream.priority,
        "--txtime",
    ]
    to = ["--l4", "--ip-destination", address, "--client", address, "--omit-sync"]
    on = ["--interface", "eth0", "--quiet"]

    def words(node: str, argv: Sequence[object]) -> list[str]:
        return running.command(node, [str(each) for each in argv])

    receiver = subprocess.Popen(words(listener, [*isochron, "rcv", *on, "--l4"]))
    try:
        sleep_until(tai_ns() + NS_PER_S // 10)
        send = [*isochron, "send", *on, *to, *when, *what, "--output-file", log]
        subprocess.run(words(PORT.node, send), check=True, timeout=60)
    finally:
        receiver.terminate()
        receiver.wait()
    printed = ["isochron", "report", "--input-file", str(log), "--printf-format", "%d\\n"]
    with report.open("w") as out:
        subprocess.run([*printed, "--printf-args", "t"], stdout=out, check=True)
    left_ns = [int(line) for line in report.read_text().split()]
    return [each % stream.period_ns for each in left_ns], stream.offset_ns


def test_its_frames_leave_at_the_offset_of_the_plan(
    running: Lab, history: History, tmp_path: Path
) -> None:
    plan = planned(**SOFTWARE)
    bring(running, history, plan)
    phases, offset_ns = launched(running, plan, tmp_path)
    assert len(phases) == FRAMES
    assert max(phases) - min(phases) <= STAMP_NS
    # The cable of the lab stamps a frame again, at its other end, and isochron keeps that stamp.
    network = plan.intent.network
    link = network.links[PORT]
    cable_ns = network.reception_ns(link, OCTETS + UDP_OVER_IPV6_OCTETS) + link.propagation_ns
    cable_ns += network.bridges[link.target.node].processing_min_ns
    assert min(phases) - offset_ns == pytest.approx(cable_ns, abs=STAMP_NS)
