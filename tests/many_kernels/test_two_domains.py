"""Two PTP domains between two kernels: schedules follow one, and the other is only measured."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cnc.model import NS_PER_S
from cnc.testbed.lab.kernels import offsets
from tests.many_kernels.test_lab_of_kernels import NAME, SHARED, TWO, cnc, on, up

OTHER_DOMAIN = 20
FAST_PPB = 25_000
# Domain 0 is led by s1, as in each lab, and the other one by t1.
NETWORK = (
    TWO.replace("[p1, p2]}", "[p1, p2], clock: {frequency-offset: 25ppm}}")
    .replace("t1:\n", "t1: {management: 10.99.7.3, clock: {frequency-offset: -40ppm}}\n")
    .replace("l1: {CLOCK}", "l1:")
)
PORTS = {"s1": "p1", "t1": "eth0"}
PRIORITIES1 = {"s1": 250, "t1": 1}
INSTANCE = """
<ptp xmlns="urn:ieee:std:1588:yang:ieee1588-ptp-tt"><instances><instance>
  <instance-index>1</instance-index>
  <default-ds>
    <priority1>{priority1}</priority1><domain-number>{domain}</domain-number>
  </default-ds>
  <ports>
    <port><port-index>1</port-index><underlying-interface>{port}</underlying-interface></port>
  </ports>
  <ptp4l xmlns="urn:tsn-control-plane:yang:tsn-linux">
    <free-running>{free_running}</free-running>
    <servo><first-step-threshold>20000</first-step-threshold></servo>
  </ptp4l>
</instance></instances></ptp>
"""
SETTLES_S = 20
pytestmark = pytest.mark.timeout(1800)


def edit(node: str, *, free_running: bool) -> tuple[int, str]:
    """Give a node an instance of the other domain; exit code, and what was said."""
    values = {"port": PORTS[node], "priority1": PRIORITIES1[node], "domain": OTHER_DOMAIN}
    text = INSTANCE.format(**values, free_running=str(free_running).lower())
    (SHARED / "instance.xml").write_text(text)
    command = ["sysrepocfg", "--edit=/mnt/out/instance.xml", "--format", "xml", "-d", "running"]
    done = cnc("lab", "exec", NAME, node, "--", *command)
    return done.returncode, done.stdout + done.stderr


def instances(node: str) -> dict[int, Any]:
    command = ["sysrepocfg", "--export", "-d", "operational", "--format", "json"]
    shown = json.loads(on(node, *command, "--xpath=/ieee1588-ptp-tt:ptp"))
    found = shown["ieee1588-ptp-tt:ptp"]["instances"]["instance"]
    return {each["instance-index"]: each for each in found}


def frequencies_ppb(node: str, seconds: int) -> list[float]:
    """How much faster than true time the clock of a node ran in each of the last seconds."""
    record = [each for each in offsets.read(SHARED / "offsets.csv") if each.node == node]
    last_ns = record[-1].time_ns - seconds * NS_PER_S
    by_second = {(each.time_ns - last_ns) // NS_PER_S: each for each in record}
    its = [by_second[second] for second in range(seconds)]
    return [
        (later.offset_ns - sooner.offset_ns) / (later.time_ns - sooner.time_ns) * 1e9
        for sooner, later in pairwise(its)
    ]


def offset_ns(instance: Any) -> float:
    return int(instance["current-ds"]["offset-from-time-transmitter"]) / 65536


def state(instance: Any) -> str:
    (port,) = (each for each in instance["ports"]["port"] if each["port-index"] == 1)
    return str(port["port-ds"]["port-state"])


def test_two_domains_run_side_by_side_and_schedules_follow_one(tmp_path: Path) -> None:
    file = tmp_path / "domains.yaml"
    file.write_text(NETWORK)
    up(file)
    try:
        code, said = edit("s1", free_running=False)
        assert code != 0
        assert "PTP instances 0 and 1 would both set the clock of the system" in said
        for node in PORTS:
            code, said = edit(node, free_running=True)
            assert code == 0, said
        on("controller", "sleep", str(SETTLES_S))

        s1, t1 = instances("s1"), instances("t1")
        assert [each["default-ds"]["domain-number"] for each in s1.values()] == [0, OTHER_DOMAIN]
        identities = [its[0]["default-ds"]["clock-identity"] for its in (s1, t1)]
        for its in (s1, t1):
            led_by = [its[index]["parent-ds"]["grandmaster-identity"] for index in (0, 1)]
            assert led_by == identities
        assert (state(s1[0]), state(t1[0])) == ("time-transmitter", "time-receiver")
        assert (state(s1[1]), state(t1[1])) == ("uncalibrated", "time-transmitter")
        # Both clocks are in step by domain 0, which the other domain sees but for the asymmetry of
        # the cable, half of the processing time that the lab has frames spend there.
        assert abs(offset_ns(t1[0])) < 100
        assert abs(offset_ns(s1[1])) < 1_000
        # And s1 keeps the frequency of its oscillator, though it follows t1 in that domain.
        seen_ppb = frequencies_ppb("s1", SETTLES_S // 2)
        assert max(abs(each - FAST_PPB) for each in seen_ppb) < 1

        done = cnc("lab", "exec", NAME, "controller", "--", "cnc", "doctor", file)
        assert done.returncode == 0, done.stdout + done.stderr
        for node in PORTS:
            follows = f"ok: PTP: {node}: managed by PTP instance 0 (domain 0), not by 1 (domain 20)"
            assert follows in done.stdout
        print(done.stdout)
    finally:
        cnc("lab", "down", NAME)
