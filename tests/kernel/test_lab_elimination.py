"""A lab whose switches take out second copies: one of each frame comes, whichever path is cut.

Best effort floods the ordinary VLAN beside the streams.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from json import loads
from pathlib import Path

import pytest

from cnc.mechanisms.frer.watched import Copies
from cnc.model import NS_PER_S, Plan, PortRef
from cnc.rollout import PortStatus, follow, push, status
from cnc.testbed.lab import Lab
from cnc.testbed.lab import bridge as lab_bridge
from cnc.testbed.lab.namespaces import inside
from cnc.testbed.lab.switch import PROGRAMS
from cnc.testbed.traffic.flows import flows
from cnc.testbed.traffic.recording import run
from tests.bridged_networks import ring, stream
from tests.kernel.test_lab_bridged import cut, sent_through, up

MS = 1_000_000


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Lab, Plan]]:
    """A ring of five switches, which eliminate duplicates of one stream and not of another."""
    once = stream("t1", "l4", paths=2, elimination="switch")
    with up(ring(once=once, twice=stream("t2", "l5", paths=2))) as found:
        yield found


@pytest.mark.virtual_time
def test_the_last_switch_passes_one_copy_of_each_frame(running: tuple[Lab, Plan], tmp_path: Path):
    started, plan = running
    assert follow(plan, "once", connect=started.connect).deviations == ()
    record, found = sent_through(started, plan, flows(plan), NS_PER_S, tmp_path)
    assert [line for each in found for line in each.violations()] == []
    of_streams = {(each.flow, each.copies) for each in record if each.flow in plan.streams}
    assert of_streams == {("once", 1), ("twice", 2)}
    assert sum(each.sent for each in found if each.flow.name == "once") == 1_000
    assert record.strays == ()


@pytest.mark.virtual_time
@pytest.mark.parametrize("path", [0, 1])
def test_a_cut_path_costs_no_frame(running: tuple[Lab, Plan], path: int, tmp_path: Path):
    started, plan = running
    sent = [flow for flow in flows(plan) if flow.name == "once"]
    links = plan.intent.network.links
    hop = plan.streams["once"].paths[path][1].egress  # of the first switch
    with cut(started, hop, links[hop].target):
        record, found = sent_through(started, plan, sent, 100 * MS, tmp_path)
    assert [line for each in found for line in each.violations()] == []
    assert [frame.copies for frame in record] == [1] * 100
    time.sleep(1)  # for the ports to forward again


@pytest.mark.virtual_time
def test_status_names_a_silent_path_while_the_listener_misses_nothing(
    running: tuple[Lab, Plan], tmp_path: Path
):
    started, plan = running
    wait_until_no_latent_error(started, plan)
    sent = [flow for flow in flows(plan) if flow.name == "once"]
    links = plan.intent.network.links
    first, last = plan.streams["once"].paths[0][1].egress, plan.streams["once"].paths[0][-2].egress
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(run, started, sent, 6 * NS_PER_S, tmp_path)
        time.sleep(2)  # they begin after one
        whole = bridge(status(plan, connect=started.connect), "s4")
        with cut(started, first, links[first].target):
            time.sleep(0.1)  # what is under way still comes
            broken = bridge(status(plan, connect=started.connect), "s4")
        record = sending.result()
    assert whole.agrees
    assert all(its.passed + its.discarded > 500 for its in whole.counts.of(Copies))
    silent = [its.port for its in broken.counts.of(Copies) if its.is_silent]
    assert silent == [links[last].target.port]
    assert f"no copy of once arrives at {silent[0]}, while " in broken.verdict
    assert not broken.agrees
    assert {frame.copies for frame in record} == {1}
    assert len(record) == 6_000
    wait_until_no_latent_error(started, plan)  # some copies were missing
    time.sleep(1)  # for the ports to forward again


@pytest.mark.virtual_time
def test_status_names_a_latent_error_of_the_last_switch_until_it_has_ended(
    running: tuple[Lab, Plan], tmp_path: Path
):
    started, plan = running
    wait_until_no_latent_error(started, plan)
    sent = [flow for flow in flows(plan) if flow.name == "once"]
    links = plan.intent.network.links
    hop = plan.streams["once"].paths[0][1].egress
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(run, started, sent, 8 * NS_PER_S, tmp_path)
        time.sleep(2)  # they begin after one
        with cut(started, hop, links[hop].target):
            time.sleep(3)  # longer than it takes until the next test
        time.sleep(1)  # for the ports to forward again
        found = bridge(status(plan, connect=started.connect), "s4")
        record = sending.result()
    assert {frame.copies for frame in record} == {1}
    assert not any(its.is_silent for its in found.counts.of(Copies))
    assert all(its.has_latent_error for its in found.counts.of(Copies))
    assert "copies of once do not arrive by all paths: " in found.verdict
    assert not found.agrees
    wait_until_no_latent_error(started, plan)
    assert bridge(status(plan, connect=started.connect), "s4").agrees


def test_a_switch_on_one_path_that_reboots_costs_no_frame_and_comes_back_as_it_was(
    running: tuple[Lab, Plan], tmp_path: Path
):
    started, plan = running
    sent = [flow for flow in flows(plan) if flow.name == "once"]
    on_the_way = plan.streams["once"].paths[0][2].egress.node
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(run, started, sent, 6 * NS_PER_S, tmp_path)
        time.sleep(2)  # they begin after one
        reboot(started, on_the_way)
        record = sending.result()
    assert {frame.copies for frame in record} == {1}
    assert len(record) == 6_000
    wait_until_no_latent_error(started, plan)  # some copies were missing
    assert [each.verdict for each in status(plan, connect=started.connect) if not each.agrees] == []
    record, _ = sent_through(started, plan, sent, 100 * MS, tmp_path)
    assert [frame.copies for frame in record] == [1] * 100


@pytest.mark.virtual_time
def test_status_says_that_a_switch_lost_its_recovery_and_a_push_restores_it(
    running: tuple[Lab, Plan],
):
    started, plan = running
    wait_until_no_latent_error(started, plan)

    def detach() -> None:
        for port in ("s3", "s5"):
            subprocess.run(["ip", "link", "set", "dev", port, "xdp", "off"], check=True)

    inside(started.namespace("s4"), detach)
    lost = bridge(status(plan, connect=started.connect), "s4")
    assert not lost.agrees
    assert " are not passed once from s3, s5 " in lost.verdict
    report = push(plan, connect=started.connect)
    assert [str(each.port) for each in report.changes] == ["s4/br0"]
    assert bridge(status(plan, connect=started.connect), "s4").agrees


def wait_until_no_latent_error(started: Lab, plan: Plan) -> None:
    """That of a cut ends with the first reset period of 30 s in which no copy is missing."""
    for _ in range(20):
        copies = bridge(status(plan, connect=started.connect), "s4").counts.of(Copies)
        if not any(its.has_latent_error for its in copies):
            return
        time.sleep(5)
    pytest.fail("the latent error has not ended")


def reboot(running: Lab, name: str) -> None:
    """What is neither in its datastore nor set by its installation is gone when it comes back."""
    switch = running.switch(name)
    device = running.intent.network.bridges[name].bridge_device
    switch.forget()  # its programs, shared memory and BPF objects

    def lose_all() -> None:
        listed = subprocess.run(["bridge", "-j", "vlan"], check=True, capture_output=True).stdout
        vlans = {its["ifname"]: {each["vlan"] for each in its["vlans"]} for its in loads(listed)}
        del vlans[device]
        ordinary = {port for port, ids in vlans.items() if lab_bridge.ORDINARY_VLAN in ids}
        shown = ["ip", "-j", "link", "show", device]
        its = loads(subprocess.run(shown, check=True, capture_output=True).stdout)[0]
        for port in vlans:
            for command in (
                ["ip", "link", "set", "dev", port, "down", "nomaster", "xdp", "off"],
                ["tc", "qdisc", "del", "dev", port, "root"],
                ["tc", "qdisc", "del", "dev", port, "clsact"],
            ):
                subprocess.run(command, check=False, capture_output=True)  # it may have none
        subprocess.run(["ip", "link", "del", device], check=True)
        subprocess.run(["nft", "flush", "ruleset"], check=True)
        lab_bridge.make(device, its["address"])
        for port in vlans:
            lab_bridge.join(device, port, ordinary)
            subprocess.run(["ip", "link", "set", "dev", port, "up"], check=True)

    inside(running.namespace(name), lose_all)
    for program in PROGRAMS:
        running.start(name, program)
    running.wait_ready()


def bridge(ports: list[PortStatus], switch: str) -> PortStatus:
    return next(each for each in ports if each.port == PortRef(switch, "br0"))
