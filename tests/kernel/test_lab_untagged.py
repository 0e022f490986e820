"""Talkers that send plain untagged frames through a lab of bridges, beside talkers that tag theirs.

Best effort floods the ordinary VLAN beside the streams in all tests.
"""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, Plan, PortRef
from cnc.rollout import follow, push, status
from cnc.testbed.lab import Lab
from cnc.testbed.traffic.capture import Capture
from cnc.testbed.traffic.flows import flows
from tests import pcapng_reader
from tests.bridged_networks import line, stream
from tests.kernel.test_lab_bridged import BEST_EFFORT, FAST, SLOW, frames_by_class, sent_through, up

MS = 1_000_000
SLOWER = {"class": "slow"}
MACS = {"l1": "02:00:5e:20:00:01", "l2": "02:00:5e:20:00:02", "l3": "02:00:5e:20:00:03"}
CAMERA = {"source": "2001:db8::2", "destination": "2001:db8::12", "dscp": 34}
SCANNER = {"destination": "192.0.2.11", "protocol": "udp", "destination-port": 5004}


def network() -> Intent:
    """Known by their IP headers: camera and scanner; by an address: lamp and beat."""
    streams = {
        "motion": stream("t1", "l1"),
        "torque": stream("t2", "l1", "l3", octets=100, period="500us"),
        "camera": stream(
            "t2", "l2", octets=1400, period="2ms", identification={"ip": CAMERA}, **SLOWER
        ),
        "scanner": stream("t2", "l1", identification={"ip": SCANNER}, ip=4),
        "lamp": stream("t1", "l3", identification={"destination-mac": MACS["l3"]}),
        "beat": stream("l3", "l2", octets=60, identification={"source-mac": MACS["l3"]}),
    }
    document = line().document
    stations = {
        name: {"mac": MACS[name]} if name in MACS else {} for name in document["end-stations"]
    }
    whole = {**document, "name": "untagged", "end-stations": stations, "streams": streams}
    return intents.from_document(whole, "untagged")


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Lab, Plan]]:
    with up(network()) as found:
        yield found


@pytest.mark.virtual_time
def test_untagged_frames_arrive_in_their_bound_as_they_were_sent(
    running: tuple[Lab, Plan], tmp_path: Path
) -> None:
    lab, plan = running
    record, found = sent_through(lab, plan, flows(plan), NS_PER_S, tmp_path)
    # 1,000 of each but 500 of camera, and twice 2,000 of torque
    assert sum(each.sent for each in found if each.flow.latency_bound_ns) == 8_500
    assert [text for each in found for text in each.violations()] == []
    assert {frame.copies for frame in record} == {1}
    assert record.strays == ()


@pytest.mark.virtual_time
def test_between_switches_frames_have_the_address_vlan_and_pcp_of_their_stream(
    running: tuple[Lab, Plan], tmp_path: Path
) -> None:
    lab, plan = running
    port, written = PortRef("s1", "s2"), io.BytesIO()
    untagged = [flow for flow in flows(plan) if flow.stream in {"camera", "scanner", "lamp"}]
    before = frames_by_class(lab, port)
    with Capture(lab.intent.name, [port]) as capture:
        thread = Thread(target=capture.run, args=(written,))
        thread.start()
        sent_through(lab, plan, untagged, 100 * MS, tmp_path)
        capture.stop()
        thread.join()
    after = frames_by_class(lab, port)
    seen: Counter[tuple[str, int, int]] = Counter()
    for frame in pcapng_reader.read(written.getvalue()).frames:
        ethertype, control = struct.unpack_from("!HH", frame.octets, 12)
        if frame.is_leaving and ethertype == 0x8100:
            seen[frame.octets[:6].hex(":"), control & 0xFFF, control >> 13] += 1
    mac = {name: its.destination_mac for name, its in plan.addresses.items()}
    # Each program sends one frame of each stream before those that are counted.
    assert seen == {
        (mac["camera"], 10, SLOW): 50 + 1,
        (mac["scanner"], 10, FAST): 100 + 1,
        (mac["lamp"], 10, FAST): 100 + 1,
    }
    assert after[SLOW] - before[SLOW] == 51
    assert after[FAST] - before[FAST] == 202


@pytest.mark.virtual_time
def test_other_frames_of_such_a_talker_stay_best_effort(running: tuple[Lab, Plan]) -> None:
    """Neighbour discovery and a packet with another code point, to the address of a stream."""
    lab, _ = running
    port, address = PortRef("s1", "s2"), CAMERA["destination"]
    before = frames_by_class(lab, port)
    send = (
        "import socket, time; s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); "
        f"s.sendto(b'x', ({address!r}, 9)); time.sleep(0.1)"
    )

    def run_at_t2(*words: str) -> str:
        command = lab.command("t2", words)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    neighbour = ("ip", "-6", "neigh")
    run_at_t2(*neighbour, "del", str(address), "dev", "eth0")
    run_at_t2(sys.executable, "-c", send)
    assert MACS["l2"] in run_at_t2(*neighbour, "show", str(address), "dev", "eth0")
    after = frames_by_class(lab, port)
    assert after[BEST_EFFORT] - before[BEST_EFFORT] >= 2  # a solicitation, and the packet
    assert (after[FAST], after[SLOW]) == (before[FAST], before[SLOW])


def test_a_second_push_changes_nothing_and_each_path_is_as_planned(
    running: tuple[Lab, Plan],
) -> None:
    lab, plan = running
    assert push(plan, connect=lab.connect).changes == ()
    assert all(each.agrees for each in status(plan, connect=lab.connect))
    found = follow(plan, "camera", connect=lab.connect)
    assert found.deviations == ()
    assert ["translation" in hop.done for hop in found.hops] == [True, False, True]


def test_a_filter_that_another_program_took_is_restored_by_a_push(
    running: tuple[Lab, Plan],
) -> None:
    lab, plan = running
    taken = "tc filter del dev l2 egress"
    subprocess.run(lab.command("s3", taken.split()), check=True)
    (verdict,) = [
        each.verdict for each in status(plan, connect=lab.connect) if not each.agrees
    ] or ["repaired already"]
    assert verdict == "repaired already" or "not translated back at l2" in verdict
    push(plan, connect=lab.connect)
    assert all(each.agrees for each in status(plan, connect=lab.connect))
