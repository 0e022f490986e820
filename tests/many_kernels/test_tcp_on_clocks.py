"""`cnc lab trace --tcp` where each node is a kernel with a clock of its own and a cable loses
frames: what was lost and sent again is told apart, and the time of each adds up."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.many_kernels.test_lab_of_kernels import NAME, TWO, cnc, on, up

FRAMES = 200  # in 200 ms
LOSSY = (
    TWO.replace("{CLOCK}", "{clock: {offset: -7ms, frequency-offset: 50ppm}}")
    .replace("- [l1/eth0, s1/p2]", "- {ends: [l1/eth0, s1/p2], impairments: {frame-loss: 5%}}")
    .replace("clock-error: 1us", "clock-error: 2us")
)
pytestmark = pytest.mark.timeout(900)


def retransmitted(node: str) -> int:
    names, values = (
        line.split()
        for line in on(node, "cat", "/proc/net/snmp").splitlines()
        if line.startswith("Tcp:")
    )
    return int(dict(zip(names, values, strict=True))["RetransSegs"])


def test_lost_and_resent_segments_are_told_apart_in_true_time(tmp_path: Path) -> None:
    file, record = tmp_path / "lossy.yaml", tmp_path / "record"
    file.write_text(LOSSY)
    up(file)
    try:
        on("controller", "cnc", "push", file)
        before = retransmitted("t1")
        command = ["--duration", "200ms", "--tcp", "motion", "-o", record, "--json"]
        done = cnc("lab", "trace", file, *command)
        assert done.returncode == 0, done.stderr
        again = retransmitted("t1") - before
        (motion,) = (each for each in json.loads(done.stdout)["flows"] if each["flow"] == "motion")
        print({key: value for key, value in motion.items() if not isinstance(value, dict)}, again)
        assert 0 < motion["resent"] <= again  # which SYN and what precedes the first frame are in
        assert motion["frames"] - motion["lost"] == FRAMES
        assert motion["incomplete"] == 0
        assert motion["total_sum_ns"] == sum(each["sum_ns"] for each in motion["stages"].values())
        with (record / "trace.csv").open(newline="") as opened:
            rows = [row for row in csv.DictReader(opened) if row["flow"] == "motion"]
        for row in rows:
            has_come = bool(row["received_ns"])
            assert has_come == bool(row["total_ns"]) or not row["path"]
            assert has_come == bool(row["reached_2_ns"])
            if row["kind"] == "resent" and has_come:
                assert int(row["retransmission_ns"]) > 0
    finally:
        cnc("lab", "down", NAME)
