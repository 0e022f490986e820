"""A switch and a talker lose power, and come back with clocks that are wrong: what they have stored
to do by the clock waits until ptp4l has set the clocks right, and is then as it was.

t1 ── s1 ── l1
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cnc import intent as intents
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.testbed.lab.lifecycle import STATE_ROOT
from tests import pcapng_reader
from tests.many_kernels import power_cut, stray_frames, true_time
from tests.many_kernels.test_lab_of_kernels import (
    NAME,
    TWO,
    captured,
    cnc,
    nothing_is_left,  # noqa: F401
    on,
    up,
)

NETWORK = (
    re.sub(r", dscp: \d+", "", TWO)
    .replace("defaults:", "forwarding: bridged\npolicing: drop\ndefaults:", 1)
    .replace("t1:\n", "t1: {management: 10.99.7.3, clock: {frequency-offset: 25ppm}}\n")
    .replace("l1: {CLOCK}", "l1:")
)
AHEAD_NS = {"s1": 5_300_000, "t1": -2_000_000}
STRAYS = 10
SOURCE = bytes.fromhex("02000000beef")
PCP = 6
ETHERTYPE = 0x88B5  # IEEE 802: for local experiments
NO_GRANDMASTER = "managed by PTP instance 0: it does not follow a grandmaster"
# ptp4l sets a clock within 8 s, after which it is to be right for 10 s. The agent looks every 10 s.
SETTLES_S = 30
# Beside a busy machine a lab of kernels takes minutes to come up.
pytestmark = pytest.mark.timeout(1800)


def run_on(node: str, program: ModuleType, *arguments: object) -> None:
    on(node, sys.executable, str(program.__file__), *map(str, arguments))


def verdicts(file: Path) -> dict[str, str]:
    """What `cnc status` says of each port that the plan asks something of."""
    done = cnc("lab", "exec", NAME, "controller", "--", "cnc", "status", file, "--json")
    ports = json.loads(done.stdout)
    assert done.returncode == (not all(each["agrees"] for each in ports)), done.stderr
    return {each["port"]: each["verdict"] for each in ports if each["verdict"] != "no gates"}


def qdiscs() -> str:
    """What the kernel of the switch has at its port to the listener."""
    return on("s1", "tc", "-j", "qdisc", "show", "dev", "p2")


def log(node: str) -> str:
    """What its agent has said since the power cut."""
    return on(node, "cat", STATE_ROOT / NAME / node / "tsn-agent.log")


def told() -> Any:
    """The offsets that programs on the talker find; None: they wait."""
    file = STATE_ROOT / NAME / "t1/agent/offsets.json"
    done = cnc("lab", "exec", NAME, "t1", "--", "cat", file)
    return json.loads(done.stdout) if done.returncode == 0 else None


def strays_that_pass(plan: Plan, capture: Path) -> int:
    """How many frames of the stream pass the switch that the talker sends half a period off."""
    to, period_ns = plan.addresses["motion"], plan.intent.streams["motion"].period_ns
    (offset_ns,) = plan.streams["motion"].talker_offsets_ns
    mac = bytes.fromhex(to.destination_mac.replace(":", ""))
    header = mac + SOURCE + struct.pack("!HHH", 0x8100, PCP << 13 | to.vlan_id, ETHERTYPE)
    with captured("s1/p2", capture):
        run_on(
            "t1", stray_frames, "eth0", header.hex(), period_ns, offset_ns + period_ns // 2, STRAYS
        )
    passed = pcapng_reader.read(capture.read_bytes()).frames
    return sum(each.octets.startswith(mac) for each in passed)


def test_what_is_stored_waits_for_a_clock_that_is_wrong_after_a_power_cut(tmp_path: Path):
    file = tmp_path / "boots.yaml"
    file.write_text(NETWORK)
    plan = compute(intents.load(file))
    up(file)
    on("controller", "cnc", "push", file)
    on("controller", "sleep", "8")
    schedule, offsets = true_time.schedule_of(qdiscs()), told()
    assert offsets["interfaces"]["eth0"]["pending"]["stream"]

    for node, ahead_ns in AHEAD_NS.items():
        run_on(node, power_cut, ahead_ns)
    assert "taprio" not in qdiscs()
    assert strays_that_pass(plan, tmp_path / "waiting.pcapng") == STRAYS
    assert told() is None
    waits = f"gates wait for the clock: {NO_GRANDMASTER}"
    assert f"the gates of br0, p2 wait for the clock: {NO_GRANDMASTER}\n" in log("s1")
    assert f"the gates of eth0 wait for the clock: {NO_GRANDMASTER}\n" in log("t1")
    assert verdicts(file) == dict.fromkeys(("s1/p2", "s1/br0", "t1/eth0"), waits)

    on("controller", "sleep", str(SETTLES_S))
    assert verdicts(file) == {
        "s1/p2": "running",
        "s1/br0": "running",
        "t1/eth0": "talkers know their offsets",
    }
    assert true_time.schedule_of(qdiscs()) == schedule
    assert strays_that_pass(plan, tmp_path / "settled.pcapng") == 0
    assert told() == offsets
    set_now = "the clock has settled: setting the gates of br0, p2, which waited for it\n"
    assert log("s1").count(set_now) == 1
