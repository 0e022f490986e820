"""Delays and losses that tests inject at places of a lab, where a trace is to find them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cnc.model import PortRef
from cnc.testbed.experiments.step_responses.impairment import probes_match
from cnc.testbed.lab import Lab, wires
from cnc.testbed.lab.iproute2 import batch
from cnc.testbed.lab.namespaces import of_wires
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.loop import program as loop_program
from tests.kernel.gate_waits import CLOCK_NS

INJECTED_NS = 50_000

# A program of a station that sleeps longer than it meant to, each time by what a seed draws.
LATE_SLEEPER = """
import random, runpy, sys
from pathlib import Path
import cnc.talker

draw = random.Random(f"{seed} {{Path(sys.argv[2]).name}}")
punctual = cnc.talker.sleep_until
cnc.talker.sleep_until = lambda instant_ns: punctual(instant_ns + draw.randint(0, {late_ns}))
runpy.run_path({program!r}, run_name="__main__")
"""

# A station's program whose talker, or listener, takes so much longer at one place.
LATE_PROGRAM = """
import ctypes, sys
from cnc.talker import sleep_until, tai_ns
from cnc.testbed.traffic import endpoint

ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK

def late(function):
    def do(*arguments, **named):
        result = function(*arguments, **named) if {after} else None
        sleep_until(tai_ns() + {sleep_ns})
        return result if {after} else function(*arguments, **named)
    return do

{place} = late({place})
endpoint.main(*sys.argv[1:])
"""


def tc(running: Lab, node: str, *lines: str) -> None:
    for line in lines:
        subprocess.run(running.command(node, line.split()), check=True)


@contextmanager
def late_program(place: str, directory: Path, *, after: bool) -> Iterator[None]:
    file = directory / "late.py"
    sleep_ns = INJECTED_NS - CLOCK_NS  # from a reading of the clock, which takes the rest
    file.write_text(LATE_PROGRAM.format(place=place, after=after, sleep_ns=sleep_ns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endpoint, "__file__", str(file))
        yield


@contextmanager
def late_talkers(lateness_ns: int, seed: int, directory: Path) -> Iterator[None]:
    """Talkers send up to so much later than planned, evenly drawn; so do those of a loop."""
    late_ns = lateness_ns - 8 * CLOCK_NS  # in which it wakes up beside others, and sends
    with pytest.MonkeyPatch.context() as patch:
        for module in (endpoint, loop_program):
            file = directory / f"late-{module.__name__}.py"
            text = LATE_SLEEPER.format(seed=seed, late_ns=late_ns, program=module.__file__)
            file.write_text(text)
            patch.setattr(module, "__file__", str(file))
        yield


@contextmanager
def late_queue(running: Lab, port: PortRef) -> Iterator[None]:
    tc(running, port.node, f"tc qdisc add dev {port.port} root netem delay 50us")
    yield
    tc(running, port.node, f"tc qdisc del dev {port.port} root")


@contextmanager
def _late_device(running: Lab, node: str) -> Iterator[str]:
    """A device of a node that frames leave late; the action that leads them there."""
    add = "tc qdisc add dev ifb0 root netem delay 50us"
    tc(running, node, "ip link add ifb0 type ifb", "ip link set ifb0 up", add)
    yield "mirred egress redirect dev ifb0"
    tc(running, node, "ip link del ifb0")


@contextmanager
def late_arrivals(running: Lab, port: PortRef) -> Iterator[None]:
    with _late_device(running, port.node) as action:
        tc(
            running,
            port.node,
            f"tc qdisc add dev {port.port} ingress",
            f"tc filter add dev {port.port} ingress matchall action {action}",
        )
        yield
        tc(running, port.node, f"tc qdisc del dev {port.port} ingress")


@contextmanager
def some_late_arrivals(running: Lab, port: PortRef, seqs: Iterable[int]) -> Iterator[None]:
    with (
        _late_device(running, port.node) as action,
        singled_out(running, port, seqs, action),
    ):
        yield


@contextmanager
def singled_out(running: Lab, port: PortRef, seqs: Iterable[int], action: str) -> Iterator[None]:
    """Do that to the frames with these numbers that arrive at a port of a switch."""
    lines = [f"qdisc add dev {port.port} ingress"]
    for seq in seqs:
        match = probes_match(6, endpoint.PORT, seq)
        lines.append(f"filter add dev {port.port} ingress prio 1 {match} action {action}")
    needs = "sch_ingress, cls_u32 and act_gact or act_mirred"
    batch(running.command(port.node, ["tc"]), lines, aim="single frames out", needs=needs)
    yield
    tc(running, port.node, f"tc qdisc del dev {port.port} ingress")


def dropped(running: Lab, port: PortRef) -> int:
    """How many frames the filters of a port say that they have dropped."""
    show = f"tc -s filter show dev {port.port} ingress".split()
    shown = subprocess.run(running.command(port.node, show), check=True, capture_output=True)
    return sum(map(int, re.findall(rb"\(dropped (\d+),", shown.stdout)))


@contextmanager
def late_cable(running: Lab, port: PortRef) -> Iterator[None]:
    network = running.intent.network
    link = network.links[port]
    exit_ = wires.interfaces(network)[link.target]
    least_ns = link.propagation_ns + network.bridges[link.target.node].processing_min_ns

    def delay(delay_ns: int) -> None:
        netem = f"netem limit {wires.QUEUE_FRAMES} delay {delay_ns / 1000}us"
        netem += f" rate {link.rate_bps}bit {wires.overhead_octets(network)}"
        command = f"tc -n {of_wires(running.intent.name)} qdisc change dev {exit_} root {netem}"
        subprocess.run(command.split(), check=True)

    delay(least_ns + INJECTED_NS)
    yield
    delay(least_ns)
