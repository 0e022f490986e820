"""A push that asks for preemption of a switch whose kernel has none: what the operator reads."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from cnc import intent as intents
from cnc.errors import CncError
from cnc.mechanisms.preemption import place, preflight
from cnc.model import Plan
from cnc.planner import plan as compute
from cnc.rollout import push
from cnc.testbed.lab import Lab, lab

INTENT = """
name: gives-way
defaults:
  rate: 10Gbps
  propagation: 100ns
  processing: {min: 1us, max: 5us}
  clock-error: 0ns
  gates: GATES
classes:
  cyclic: {traffic-class: 6, priority: 6, dscp: 46, role: scheduled}
  best-effort: {traffic-class: 0, priority: 0, dscp: 0, role: best-effort}
switches:
  s1: {ports: {p1: {}, p2: {preemption: PREEMPTION}}, management: 10.96.0.1}
end-stations: [talker, listener]
links:
  - [talker/eth0, s1/p1]
  - [s1/p2, listener/eth0]
streams:
  f: {talker: talker, listeners: [listener], period: 10ms, payload: 100B, max-latency: 9ms}
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Plan]]:
    """A switch with gates of the kernel, and a plan that asks it for more."""
    directory = tmp_path_factory.mktemp("gives-way")
    plain, asking = directory / "plain.yaml", directory / "asking.yaml"
    plain.write_text(INTENT.replace("GATES", "software").replace("PREEMPTION", "false"))
    asking.write_text(INTENT.replace("GATES", "full-offload").replace("PREEMPTION", "true"))
    with lab(intents.load(plain)) as running:
        push(compute(intents.load(plain)), connect=running.connect)
        yield running, compute(intents.load(asking))


def root_of(running: Lab) -> str:
    shown = ["tc", "qdisc", "show", "dev", "p2", "root"]
    done = subprocess.run(
        running.command("s1", shown), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def refusal(running: Lab, plan: Plan) -> str:
    before = root_of(running)
    with pytest.raises(CncError) as refused:
        push(plan, connect=running.connect)
    assert root_of(running) == before
    return f"{refused.value} {refused.value.hint}"


def test_a_port_without_a_mac_merge_layer_is_refused_before_anything_is_sent(network):
    told = refusal(*network)
    assert "the switch reports no MAC merge layer of the port" in told
    assert "no switch was changed" in told


def test_the_kernels_own_reason_reaches_the_operator(network, monkeypatch):
    """A port that says what it does not do."""
    monkeypatch.setattr(preflight, "unverified", lambda _its: None)
    monkeypatch.setattr(place, "unverified", lambda _its: None)
    told = refusal(*network)
    assert "Device does not support preemption" in told
    assert "s1" in told
