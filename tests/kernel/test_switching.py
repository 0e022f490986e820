"""Packets through each switch in software, in a real kernel on a real clock.

Nothing here is said of any time: a busy machine may be late by any.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import read_rows
from cnc.testbed.experiments.switching import Switching, network
from cnc.testbed.experiments.switching.experiment import NOT_MEASURED
from cnc.testbed.experiments.switching.figures import AF_XDP, BRIDGE, CABLE, XDP
from cnc.testbed.experiments.unplanned_description import SwitchingDescription
from cnc.testbed.lab.namespaces import NETNS_DIRECTORY, inside, of_node
from cnc.testbed.lab.platform import Platform
from cnc.testbed.lab.process import netns_argv

FILE = Path(__file__).parents[2] / "schedules" / "experiments" / "switching.yaml"
FRAMES, LOADS = 50, [0, 1]
WAYS = CABLE, BRIDGE, XDP, AF_XDP

pytestmark = pytest.mark.real_time


def small(**changes: object) -> Switching:
    loaded = experiments.load(FILE)
    assert isinstance(loaded, SwitchingDescription)
    fewer = {"rounds": 1, "frames": FRAMES, "period_ns": 2_000_000, "busy": LOADS}
    return Switching(loaded.model_copy(update=fewer | changes))


@pytest.mark.parametrize("mode", ["generic", "native"])
def test_packets_pass_each_switch_and_the_verdict_names_the_noise(
    mode: str, tmp_path: Path
) -> None:
    experiment = small(xdp=mode)
    experiment.run(tmp_path, print)
    assert json.loads((tmp_path / NOT_MEASURED).read_text()) == {}
    rows = [*read_rows(tmp_path)]
    sent = Counter((row["way"], int(row["busy"])) for row in rows)
    assert sent == dict.fromkeys(((way, busy) for way in WAYS for busy in LOADS), FRAMES)
    assert all(row["took_ns"] for row in rows)
    assert all(int(row["took_ns"]) > 0 for row in rows)
    report = experiment.report(tmp_path, Platform.here())
    assert report.disagreements == []
    assert sum(report.summary["talker_late"]["0"].values()) == FRAMES * len(WAYS)
    assert any("this machine woke the talker up to" in each for each in report.remarks)
    assert not [each for each in NETNS_DIRECTORY.iterdir() if "switching" in each.name]


@pytest.mark.parametrize("way", [XDP, "af-xdp-sleeps"])
def test_a_burst_of_more_frames_than_the_kernel_sends_at_once_passes_whole(way: str) -> None:
    """A machine that stood still has many to send: the kernel takes 32 a call of AF_XDP."""
    burst = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    for number in range(100):
        sender.sendto(bytes([number]), ("192.0.2.2", 5005))
"""
    with network.network("burst", XDP, "generic"), network.two_ports("burst", way, "generic"):
        listener = of_node("burst", network.LISTENER)

        def listen() -> socket.socket:
            there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            there.bind(("192.0.2.2", 5005))
            there.settimeout(2)
            return there

        with inside(listener, listen) as there:
            first = ["chrt", "--fifo", "60"]  # nothing is forwarded before all have been sent
            command = [*first, sys.executable, "-c", burst]
            talker = of_node("burst", network.TALKER)
            subprocess.run(netns_argv(talker, command), check=True, timeout=60)
            assert [there.recv(9)[0] for _ in range(100)] == [*range(100)]


def test_one_processor_is_not_left_to_a_program_that_polls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    experiment = small(af_xdp="polls", busy=[0])
    experiment.run(tmp_path, print)
    report = experiment.report(tmp_path, Platform.here())
    assert report.remarks[0].startswith("AF_XDP: not measured on this kernel: this machine has one")
    assert {its["way"] for its in report.summary["points"]} == {CABLE, BRIDGE, XDP}
