"""A gateway whose port is open for a share of the cycle."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from cnc.experiments import description
from cnc.experiments.description import GateShareDescription
from cnc.experiments.gate_share import gateway
from cnc.model import GateEntry

FILE = Path(__file__).parents[2] / "schedules/experiments/share-sweep.yaml"


@pytest.fixture(scope="module")
def sweep() -> GateShareDescription:
    found = description.load(FILE)
    assert isinstance(found, GateShareDescription)
    return found


def test_a_sender_meets_every_phase_of_the_cycle_once(sweep: GateShareDescription):
    for flow in gateway.flows(sweep):
        phases = sorted(
            (flow.offset_ns + seq * flow.period_ns) % sweep.cycle_ns for seq in range(sweep.frames)
        )
        steps = {after - before for before, after in pairwise(phases)}
        assert steps == {sweep.cycle_ns // sweep.frames}


def test_the_seed_chooses_where_in_the_cycle_senders_begin(sweep: GateShareDescription):
    def offsets(seed: int) -> list[int]:
        again = sweep.model_copy(update={"seed": seed})
        return [flow.offset_ns for flow in gateway.flows(again)]

    assert offsets(1) == offsets(1)
    assert offsets(1) != offsets(2)


def test_one_class_has_what_the_other_has_not():
    gates = gateway.gates(80, 1_000_000)
    assert gates.entries == (GateEntry(0b10, 800_000), GateEntry(0b01, 200_000))
    closed = [gateway.closed_ns(name, 80, 1_000_000) for name in ("high-priority", "best-effort")]
    assert closed == [200_000, 800_000]


def test_the_closed_form_is_the_mean_of_an_ideal_gate():
    closed_ns, cycle_ns = 700, 1_000
    waits = [max(0, closed_ns - phase) for phase in range(cycle_ns)]
    mean = sum(waits) / cycle_ns
    assert gateway.expected_mean_ns(closed_ns, cycle_ns) == pytest.approx(mean, rel=0.01)
