"""A station with two uplinks: scheduled frames come by one of them, and a download by multipath TCP
takes what they leave of both."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cnc import intent as intents
from cnc.model import NS_PER_S, Intent, PortRef
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.talker import tai_ns
from cnc.testbed.experiments.multipath.uplinks import ALL_OCTETS, Uplinks
from cnc.testbed.lab import Lab, lab
from cnc.testbed.lab.addressing import addresses, port_addresses
from cnc.testbed.lab.namespaces import inside, sysctl
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.measure import summarise
from cnc.testbed.traffic.recording import run

pytestmark = pytest.mark.virtual_time

UPLINKS = Path(__file__).parents[2] / "schedules" / "uplinks.yaml"
LINE3 = UPLINKS.with_name("line3.yaml")
MS, MBPS = 1_000_000, 1_000_000
FRAMES = 2_000


def with_a_stream() -> Intent:
    """The network of the experiments, with a switch on each way: by the first one a talker sends a
    stream to the station."""
    document: dict[str, Any] = {**intents.load(UPLINKS).document}
    line3 = intents.load(LINE3).document
    document["name"] = "scheduled"
    document["defaults"] = {**line3["defaults"]}
    document["classes"] = line3["classes"]
    document["switches"] = {
        name: {"management": address, "ports": ["server", "station"]}
        for name, address in (("s1", "10.99.13.2"), ("s2", "10.99.13.4"))
    }
    document["switches"]["s1"]["ports"].append("talker")
    document["end-stations"] = {**document["end-stations"], "talker": {}}
    document["links"] = [
        ["talker/eth0", "s1/talker"],
        ["server/eth0", "s1/server"],
        ["s1/station", "station/eth0"],
        ["server/eth1", "s2/server"],
        {"ends": ["s2/station", "station/wwan0"], "rate": "50Mbps", "propagation": "20ms"},
    ]
    stream = {"talker": "talker", "listeners": ["station"], "class": "cyclic", "period": "1ms"}
    stream |= {"payload": "200B", "max-latency": "100us", "ip": 4}
    document["streams"] = {"motion": stream}
    return intents.from_document(document, "uplinks.yaml with a stream")


def complete(running: Lab) -> None:
    """The server answers the second uplink by its own second port; and the lab's listeners, who
    listen by IPv6, too, have an address that came after the push and so is no path's."""
    ports = port_addresses(running.intent.network)
    gateway = str(ports[PortRef("s2", "server")].v4.ip)
    own = ports[PortRef("station", "eth0")].v6
    inside(running.namespace("station"), partial(sysctl, "net/ipv6/conf/all/disable_ipv6", 0))
    for node, words in (
        ("server", ["route", "add", "default", "via", gateway]),
        ("station", ["addr", "add", str(own), "dev", "eth0", "nodad"]),
    ):
        subprocess.run(running.command(node, ["ip", *words]), check=True)


def test_scheduled_frames_keep_their_promise_beside_a_download_over_both_uplinks(tmp_path: Path):
    plan = compute(with_a_stream())
    links = [plan.intent.network.links[PortRef("station", each)] for each in ("eth0", "wwan0")]
    uplinks = Uplinks(plan.intent, "station", "server", links)
    (motion,) = (each for each in flows(plan) if each.name == "motion")
    with lab(plan.intent, timed_wires=True) as running, uplinks.ready(running):
        report = push(plan, connect=running.connect)
        time.sleep(max(0, (report.base_time_ns or 0) + MS - tai_ns()) / NS_PER_S)
        complete(running)
        address = str(addresses(plan.intent)["server"].v4)
        with (
            running.quiet(),
            uplinks.download(running, address) as download,
            ThreadPoolExecutor(1) as pool,
        ):
            record = pool.submit(run, running, [motion], FRAMES * MS, tmp_path)
            before = uplinks.received_octets(running)
            at_ns = 0
            while not record.done():
                at_ns = download.wait(10 * MS)
                download.receive(ALL_OCTETS)
            carried = [b - a for a, b in zip(before, uplinks.received_octets(running), strict=True)]
    (found,) = summarise(plan, [motion], record.result(), timed_wires=True)
    assert found.sent >= FRAMES
    assert (found.lost, found.late) == (0, 0)
    first_bps, second_bps = (8 * NS_PER_S * each // at_ns for each in carried)
    print(f"beside it {first_bps / MBPS:.0f} and {second_bps / MBPS:.0f} Mb/s")
    assert first_bps > 800 * MBPS
    assert second_bps > 40 * MBPS
