"""Where the time of each segment of a flow over TCP goes, and which of them were sent again."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from cnc.model import NS_PER_S, Plan, PortRef
from cnc.planner import plan as compute
from cnc.testbed.cli.trace import trace
from cnc.testbed.lab import Lab, wires
from cnc.testbed.lab.namespaces import of_wires
from cnc.testbed.traffic.flows import flows, over_tcp
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.columns import gather
from cnc.testbed.traffic.trace.join import Kind
from cnc.testbed.traffic.trace.record import record
from tests import pcapng_reader
from tests.kernel.injections import tc

SCHEDULES = Path(__file__).parents[2] / "schedules"

LOSSY = PortRef("s2", "s3")  # on the way of motion, from t1 over s1, s2 and s3 to l1
FRAMES = 1_000  # in a second
OF_LOSS = (Layer.RETRANSMISSION, Layer.HEAD_OF_LINE)

pytestmark = pytest.mark.virtual_time


@contextmanager
def netem(running: Lab, port: PortRef, what: str) -> Iterator[None]:
    """Of long frames alone: a connection is opened, and acknowledged, without loss."""
    dev = f"dev {port.port}"
    of = f"tc filter add {dev} parent 1:"
    tc(
        *(running, port.node),
        f"tc qdisc add {dev} root handle 1: prio",
        f"tc qdisc add {dev} parent 1:3 handle 3: netem {what}",
        f"{of} prio 1 protocol ipv6 u32 match u16 0 0xffc0 at 4 flowid 1:1",
        f"{of} prio 2 protocol all u32 match u32 0 0 flowid 1:3",
    )
    yield
    tc(running, port.node, f"tc qdisc del {dev} root")


@contextmanager
def lossy_cable(running: Lab, port: PortRef, how: str) -> Iterator[None]:
    """Of all frames that leave by a port: its cable has a queue that emulates it."""
    network = running.intent.network
    link = network.links[port]
    exit_ = wires.interfaces(network)[link.target]
    delay_ns = link.propagation_ns + network.bridges[link.target.node].processing_min_ns
    netem = f"netem limit {wires.QUEUE_FRAMES} delay {delay_ns / 1000}us"
    netem += f" rate {link.rate_bps}bit {wires.overhead_octets(network)}"
    change = f"tc -n {of_wires(running.intent.name)} qdisc change dev {exit_} root {netem}"
    subprocess.run([*change.split(), *how.split()], check=True)
    yield
    subprocess.run(change.split(), check=True)


def dropped(running: Lab, port: PortRef) -> int:
    show = f"tc -s qdisc show dev {port.port}".split()
    shown = subprocess.run(running.command(port.node, show), check=True, capture_output=True)
    (count,) = re.findall(rb"netem 3:.*?dropped (\d+),", shown.stdout, re.DOTALL)
    return int(count)


def retransmitted(running: Lab, node: str) -> int:
    """TcpRetransSegs of a node."""
    file = ["cat", "/proc/net/snmp"]
    shown = subprocess.run(running.command(node, file), check=True, capture_output=True, text=True)
    names, values = (line.split() for line in shown.stdout.splitlines() if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["RetransSegs"])


def traced(running: Lab, directory: Path) -> list[Account]:
    plan = replace(compute(running.intent), gates={})
    motion = [flow for flow in flows(plan) if flow.name == "motion"]
    sent = over_tcp(motion, ["motion"])
    return list(record(running, plan, sent, NS_PER_S, directory).accounts())


def rows_of_frames(found: Iterable[Account]) -> list[list[Account]]:
    by_seq: dict[int, list[Account]] = defaultdict(list)
    for each in found:
        by_seq[each.row.seq].append(each)
    return [by_seq[seq] for seq in sorted(by_seq)]


def test_a_write_is_a_segment_whose_layers_add_up(unscheduled: Lab, tmp_path: Path) -> None:
    with unscheduled.quiet():
        before = retransmitted(unscheduled, "t1")
        found = traced(unscheduled, tmp_path)
        assert retransmitted(unscheduled, "t1") == before
    assert [each.row.seq for each in found] == list(range(FRAMES))
    assert {each.row.kind for each in found} == {Kind.SINGLE}
    for each in found:
        assert each.total_ns == sum(part.duration_ns or 0 for part in each.parts)
        assert {each.layer_ns(layer) for layer in OF_LOSS} == {0}
        assert (each.row.acked_ns or 0) > (each.row.received_ns or 0)


def test_lost_and_resent_segments_are_as_many_as_the_kernels_count(
    unscheduled: Lab, tmp_path: Path
) -> None:
    with unscheduled.quiet(), netem(unscheduled, LOSSY, "loss 10%"):
        before = retransmitted(unscheduled, "t1")
        found = traced(unscheduled, tmp_path)
        again, gone = retransmitted(unscheduled, "t1") - before, dropped(unscheduled, LOSSY)
    (columns,) = gather(found)
    print(f"{again} sent again, {gone} dropped, {columns.repeated} came once more")
    assert gone > FRAMES // 20
    counts = columns.frames, columns.lost, columns.resent, columns.incomplete, len(columns)
    assert counts == (FRAMES + again - columns.repeated, gone, again, 0, FRAMES)
    for rows in rows_of_frames(found):
        assert [each.row.kind for each in rows] == [Kind.SINGLE, *[Kind.RESENT] * (len(rows) - 1)]
        (delivered,) = (each for each in rows if each.row.delivered_ns is not None)
        assert delivered.total_ns == sum(part.duration_ns or 0 for part in delivered.parts)
        assert min(part.duration_ns or 0 for part in delivered.parts) >= 0
        was_resent = delivered.row.kind is Kind.RESENT
        assert (delivered.layer_ns(Layer.RETRANSMISSION) != 0) == was_resent
    lost = [each.row for each in found if each.row.path == 0 and each.row.delivered_ns is None]
    for row in lost:
        (at,) = (each for each in row.crossings if each.port == LOSSY)
        assert at.entered_ns is not None
        assert (at.left_ns, row.received_ns) == (None, None)
    # What was written behind a lost one waits for it at the listener, and no further segment.
    waited = [each for each in found if (each.layer_ns(Layer.HEAD_OF_LINE) or 0) > 0]
    assert waited
    missing = {row.seq for row in lost}
    assert all(missing & {*range(each.row.seq)} for each in waited)


def test_the_command_counts_what_was_sent_again_and_writes_it_into_the_table(
    scheduled: tuple[Lab, Plan], tmp_path: Path
) -> None:
    running, _ = scheduled
    file = str(SCHEDULES / "line3.yaml")
    command = [file, "--cycles", "100", "--tcp", "motion", "-o", str(tmp_path), "--json"]
    before = retransmitted(running, "t1")
    with lossy_cable(running, PortRef("s1", "s2"), "loss 5%"):
        done = CliRunner().invoke(trace, command, catch_exceptions=False)
    again = retransmitted(running, "t1") - before
    assert done.exit_code == 0
    (motion,) = (each for each in json.loads(done.stdout)["flows"] if each["flow"] == "motion")
    assert 0 < motion["resent"] <= again  # which SYN and what precedes the first frame are in
    assert motion["frames"] - motion["lost"] == 200
    assert motion["total_sum_ns"] == sum(each["sum_ns"] for each in motion["stages"].values())
    with (tmp_path / "trace.csv").open(newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["flow"] == "motion"]
    assert sum(row["kind"] == "resent" for row in rows) == again
    for row in rows:
        if row["total_ns"]:
            assert int(row["acked_ns"]) > int(row["received_ns"])
            assert (int(row["retransmission_ns"]) > 0) == (row["kind"] == "resent")
    commented = [
        each
        for each in pcapng_reader.read((tmp_path / "trace.pcapng").read_bytes()).frames
        if each.port == "t1/eth0" and any(note.startswith("motion/") for note in each.comments)
    ]
    assert len(commented) == len(rows)
