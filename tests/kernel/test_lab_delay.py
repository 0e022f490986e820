"""A cable of a lab that takes longer by chance, as a path between two sites does."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.model import ClassRole
from cnc.testbed.lab import lab, wires
from cnc.testbed.lab.addressing import way
from cnc.testbed.traffic.flows import flow_of_class
from cnc.testbed.traffic.recording import run

TWO_SITES = Path(__file__).parents[2] / "schedules" / "two-sites.yaml"
MS, OCTETS = 1_000_000, 100
MEAN_NS, FRAMES = 3 * MS, 2_000
pytestmark = pytest.mark.virtual_time


def test_frames_between_two_sites_take_longer_by_a_pareto_distribution(tmp_path: Path):
    intent = intents.load(TWO_SITES)
    flow = flow_of_class(intent, ClassRole.BEST_EFFORT, ("o", "r"), OCTETS, 20 * MS)
    with lab(intent, timed_wires=True) as running, running.quiet():
        record = run(running, [flow], FRAMES * 20 * MS, tmp_path, grid_ns=1_000 * MS)
    least_ns = sum(
        wires.travel_ns(intent.network, link, OCTETS) for link in way(intent.network, "o", "r")
    )
    later_ns = sorted(f.received_ns - f.planned_ns - least_ns for f in record if f.received_ns)
    assert len(later_ns) == FRAMES
    print([later_ns[FRAMES * p // 100 - 1] for p in (1, 50, 90, 99, 100)], later_ns[0])
    assert 0 <= later_ns[0] < MS // 10
    assert statistics.fmean(later_ns) == pytest.approx(MEAN_NS, rel=0.1)
    # Half of all frames take at most 2 (2^(1/3) - 1) of the mean longer, none seven times.
    assert later_ns[FRAMES // 2] == pytest.approx(0.52 * MEAN_NS, rel=0.1)
    assert 5 * MEAN_NS < later_ns[-1] <= 7 * MEAN_NS + MS // 10
