"""isochron between two end stations of a lab, beside tsn-probe and the taps of `cnc lab trace`."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from cnc.planner import plan as compute
from cnc.testbed.lab import Lab
from cnc.testbed.lab.addressing import addresses
from cnc.testbed.traffic.endpoint import IP_AND_UDP_OCTETS
from cnc.testbed.traffic.flows import Flow
from cnc.testbed.traffic.probe import PROGRAM
from cnc.testbed.traffic.trace.account import Layer
from cnc.testbed.traffic.trace.host_tables import IsochronReport, ProbeTables, Stamps
from cnc.testbed.traffic.trace.imported import Imported
from cnc.testbed.traffic.trace.record import record
from tests.kernel.gate_waits import CLOCK_NS

HARDWARE_CLOCK = Path(__file__).with_name("hardware_clock.c")
TALKER, LISTENER = "t1", "l1"
PACKETS, PAYLOAD_OCTETS, MS = 50, 100, 1_000_000

pytestmark = pytest.mark.virtual_time


class Medians(NamedTuple):
    """Of the time of a packet in the talker, on its way, and in the listener, in nanoseconds."""

    sender: float
    channel: float
    receiver: float


@contextmanager
def listening(running: Lab, words: Sequence[object]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(running.command(LISTENER, [str(word) for word in words]))
    try:
        time.sleep(0.1)  # computing takes no time here: it listens when all sleep
        assert process.poll() is None
        yield process
    finally:
        process.terminate()
        process.wait()


def send(running: Lab, words: Sequence[object]) -> None:
    subprocess.run(running.command(TALKER, [str(word) for word in words]), check=True, timeout=60)


def of_isochron(running: Lab, directory: Path) -> Path:
    """Its report on packets to the listener, each a millisecond."""
    library, log, report = (directory / name for name in ("clock.so", "log", "report.txt"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HARDWARE_CLOCK], check=True)
    isochron = ["env", f"LD_PRELOAD={library}", "isochron"]
    address = addresses(running.intent)[LISTENER].v6
    paced = ["--cycle-time", "0.001", "--num-frames", PACKETS, "--frame-size", PAYLOAD_OCTETS]
    to = ["--l4", "--ip-destination", address, "--client", address, "--omit-sync"]
    on = ["--interface", "eth0", "--quiet"]
    with listening(running, [*isochron, "rcv", *on, "--l4"]):
        send(running, [*isochron, "send", *on, *to, *paced, "--output-file", log])
    words = ["q=%u S=%d A=%d w=%d s=%d t=%d r=%d a=%d\\n", "-a", "qSAwstra"]
    with report.open("w") as out:
        printed = ["isochron", "report", "--input-file", str(log), "--printf-format", *words]
        subprocess.run(printed, stdout=out, check=True)
    return report


def of_probe(running: Lab, directory: Path) -> tuple[Path, Path]:
    """The tables of tsn-probe about such packets."""
    sent, received = directory / "sent.csv", directory / "received.csv"
    address = addresses(running.intent)[LISTENER].v6
    paced = ["--count", PACKETS, "--period", "1ms", "--size", PAYLOAD_OCTETS]
    with listening(running, [PROGRAM, "receive", "--wait", "1s", "-o", received]) as receiver:
        send(running, [PROGRAM, "send", address, *paced, "-o", sent])
        assert receiver.wait(60) == 0
    return sent, received


def medians(rows: Iterable[tuple[float, float, float]]) -> Medians:
    return Medians(*map(statistics.median, zip(*rows, strict=True)))


def of_stamps(packets: Iterable[Stamps]) -> Medians:
    rows = []
    for packet in packets:
        assert packet.left_ns is not None
        assert packet.rx_ns is not None
        assert packet.got_ns is not None
        rows.append(
            (
                packet.left_ns - packet.app_ns,
                packet.rx_ns - packet.left_ns,
                packet.got_ns - packet.rx_ns,
            )
        )
    assert len(rows) == PACKETS
    return medians(rows)


def of_taps(running: Lab, directory: Path) -> Medians:
    """What `cnc lab trace` makes of such packets."""
    octets = PAYLOAD_OCTETS + IP_AND_UDP_OCTETS[6]
    flow = Flow("like isochron", TALKER, LISTENER, 0, 6, 0, octets, MS, 0, None)
    plan = replace(compute(running.intent), gates={})
    with running.quiet():
        traced = record(running, plan, [flow], PACKETS * MS, directory)
    rows = []
    for account in traced.accounts():
        assert account.row.is_complete
        in_layer = dict.fromkeys(Layer, 0)
        for part in account.parts:
            in_layer[part.layer] += part.duration_ns or 0
        ends = (Layer.WAKE_UP, Layer.SOCKET, Layer.QDISC, Layer.LISTENER)
        way_ns = (account.total_ns or 0) - sum(in_layer[layer] for layer in ends)
        rows.append((in_layer[Layer.SOCKET] + in_layer[Layer.QDISC], way_ns, in_layer[ends[-1]]))
    assert len(rows) == PACKETS
    return medians(rows)


def test_isochron_tsn_probe_and_taps_agree_on_where_the_time_of_a_packet_went(
    unscheduled: Lab, tmp_path: Path
) -> None:
    """The talker's cable stamps a packet again, and both programs keep the last stamp: to them it
    is in the sender, where taps have it on the way."""
    report, tables = of_isochron(unscheduled, tmp_path), of_probe(unscheduled, tmp_path)
    isochron = of_stamps(IsochronReport(report).packets())
    probe = of_stamps(ProbeTables(*tables).packets())
    taps = of_taps(unscheduled, tmp_path / "taps")
    print(isochron, probe, taps, sep="\n")
    assert isochron == pytest.approx(probe, abs=CLOCK_NS)
    assert isochron.receiver == pytest.approx(taps.receiver, abs=CLOCK_NS)
    assert sum(isochron) == pytest.approx(sum(taps), abs=CLOCK_NS)
    for files, found in (((report,), isochron), (tables, probe)):
        imported = list(Imported(files).accounts())
        assert len(imported) == PACKETS
        ends_ns = statistics.median(each.total_ns or 0 for each in imported)
        assert ends_ns == pytest.approx(found.sender + found.receiver, abs=CLOCK_NS)
