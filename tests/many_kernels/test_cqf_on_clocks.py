"""Cyclic queuing by clocks of their own: each switch tells intervals by an oscillator that is off
in another way, and that ptp4l keeps within the clock error.

t1 ── s1 ── s2 ── s3 ── l1
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.planner import plan as compute
from tests.many_kernels.test_lab_of_kernels import (
    SHARED,
    cnc,
    nothing_is_left,  # noqa: F401
    on,
    up,
)

NETWORK = """
name: kernelstest
forwarding: bridged
defaults:
  rate: 1Gbps
  propagation: 100ns
  processing: {min: 1us, max: 5us}
  clock-error: 2us
  gate-margin: 0ns
  talker-interference: none
  recovery: none
  user: root
classes:
  control: {traffic-class: 7, priority: 7, role: control, max-frame: 128B}
  sensors: {traffic-class: 6, priority: 6, role: scheduled, shaping: {by: cqf, cycle: 500us}}
  sensors-odd: {traffic-class: 5, priority: 5, role: scheduled, shaping: {odd-of: sensors}}
  best-effort: {traffic-class: 0, priority: 0, role: best-effort}
switches:
  s1: {management: 10.99.7.1, ports: [p1, p2], clock: {offset: 300ms, frequency-offset: 25ppm}}
  s2: {management: 10.99.7.2, ports: [p1, p2], clock: {frequency-offset: -40ppm}}
  s3: {management: 10.99.7.3, ports: [p1, p2], clock: {offset: -7ms, frequency-offset: 50ppm}}
end-stations:
  t1: {management: 10.99.7.4}
  l1: {management: 10.99.7.5}
links:
  - [t1/eth0, s1/p1]
  - [s1/p2, s2/p1]
  - [s2/p2, s3/p1]
  - [s3/p2, l1/eth0]
streams:
  fast:
    {talker: t1, listeners: [l1], class: sensors, period: 1100us, payload: 200B, max-latency: 10ms}
  slow:
    {talker: t1, listeners: [l1], class: sensors, period: 1300us, frames: 2, payload: 400B,
     max-latency: 10ms}
"""
INTERVAL_NS, CLOCK_ERROR_NS, SWITCHES = 500_000, 2_000, 3
pytestmark = pytest.mark.timeout(1800)


def test_frames_keep_their_intervals_by_clocks_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "cyclic.yaml"
    file.write_text(NETWORK)
    up(file)
    done = cnc("lab", "exec", "kernelstest", "controller", "--", "cnc", "push", file)
    assert done.returncode == 0, done.stdout + done.stderr
    on("controller", "cnc", "lab", "traffic", file, "--duration", "500ms", "-o", "/mnt/out/sent")
    rows = [*csv.DictReader((SHARED / "sent/frames.csv").read_text().splitlines())]
    planned = compute(intents.load(file)).streams
    for name, its in planned.items():
        of_stream = [row for row in rows if row["flow"] == name]
        took_ns = [int(row["received_ns"]) - int(row["planned_ns"]) for row in of_stream]
        least_ns, most_ns = min(took_ns), max(took_ns)
        print(
            f"{name}: {len(took_ns)} frames, {least_ns} to {most_ns} ns of {its.latency_bound_ns}"
        )
        assert len(took_ns) > 400
        assert least_ns > (SWITCHES - 1) * INTERVAL_NS - 2 * CLOCK_ERROR_NS
        assert most_ns <= its.latency_bound_ns
