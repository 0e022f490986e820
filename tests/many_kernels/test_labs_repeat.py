"""A lab of kernels that is made again does the same, to the octet and to the nanosecond."""

from __future__ import annotations

import csv
import filecmp
import re
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests import pcapng_reader
from tests.many_kernels.test_lab_of_kernels import (
    NAME,
    SHARED,
    THREE_CLOCKS,
    captured,
    cnc,
    nothing_is_left,  # noqa: F401
    on,
    traces,
    up,
)

VLAN_TAG = b"\x81\x00"
PTP_ETHERTYPE = b"\x88\xf7"
FRAMES = 50
# The ports that send towards the listener, one at each cable.
PORTS = ("t1/eth0", "s1/p2", "s2/p2")
IMPAIRED = PORTS[-1]
# Switches that bridge, a clock whose frequency keeps changing, and a cable that is never the same.
NETWORK = (
    re.sub(r", dscp: \d+", "", THREE_CLOCKS)
    .replace("defaults:", "forwarding: bridged\ndefaults:", 1)
    .replace(
        "frequency-offset: 50ppm",
        "frequency-offset: 50ppm, random-walk: 3ppb, sinusoid: {amplitude: 500ppb, period: 20s}",
    )
    .replace(
        "[l1/eth0, s2/p2]", "{ends: [l1/eth0, s2/p2], impairments: {jitter: 200ns, frame-loss: 2%}}"
    )
)
# Two labs of five kernels come up; beside a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(1800)


def run(file: Path, record: Path) -> None:
    """Bring the lab up, push and send; all that there is to record comes into a directory."""
    record.mkdir()
    up(file)
    with ExitStack() as captures:
        for port in PORTS:
            captures.enter_context(captured(port, record / cable(port)))
        pushed = on("controller", "cnc", "push", file)
        on("controller", "cnc", "plan", file, "-o", "/mnt/out/plan.json")
        traffic = ("cnc", "lab", "traffic", file, "--duration", f"{FRAMES}ms")
        # Exit code 1 if one of the frames is lost, for which it has no bound.
        sent = cnc("lab", "exec", NAME, "controller", "--", *traffic, "-o", "/mnt/out/sent")
        assert sent.returncode in {0, 1}, sent.stderr
    (record / "push").write_text(pushed)
    (record / "gates").write_text(on("s2", "tc", "-j", "qdisc", "show", "dev", "p2"))
    for name in ("plan.json", "sent/frames.csv", "sent/offsets.csv", "offsets.csv"):
        shutil.copy(SHARED / name, record / name.replace("/", "-"))
    assert cnc("lab", "down", NAME).returncode == 0
    assert traces() == []


def cable(port: str) -> str:
    """The name of the capture of its cable."""
    return f"{port.replace('/', '-')}.pcapng"


def latencies_ns(file: Path) -> set[int]:
    """Those of the frames of the stream."""
    with file.open(newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["flow"] == "motion"]
    assert len(rows) == FRAMES
    arrived = (row for row in rows if row["received_ns"])
    return {int(row["received_ns"]) - int(row["planned_ns"]) for row in arrived}


def test_a_lab_on_drifting_clocks_that_is_made_again_gives_the_same_record(tmp_path: Path):
    """gPTP steers the clocks, and what it does is part of the record, as is the push."""
    file, first, second = (tmp_path / name for name in ("three.yaml", "first", "second"))
    file.write_text(NETWORK)
    run(file, first)
    run(file, second)
    assert re.search(r"the schedule starts in .* \(TAI \d+\.\d{9}\)", (first / "push").read_text())
    for port in PORTS:
        frames = pcapng_reader.read((first / cable(port)).read_bytes()).frames
        assert any(frame.octets[12:14] == PTP_ETHERTYPE for frame in frames)
        streams = [frame for frame in frames if frame.octets[12:14] == VLAN_TAG]
        # The talker rehearses with one frame.
        assert [frame.port for frame in streams] == [port] * (1 + FRAMES)
        assert all(frame.is_leaving for frame in streams)
        lost = ["lost" in frame.comments for frame in frames]
        assert (0 < sum(lost) < len(lost) / 10) == (port == IMPAIRED)
    assert len(latencies_ns(first / "sent-frames.csv")) > FRAMES // 2
    names = sorted(each.name for each in first.iterdir())
    assert len(names) == 6 + len(PORTS)
    assert filecmp.cmpfiles(first, second, names, shallow=False) == (names, [], [])
