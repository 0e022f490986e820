"""The figures of clocks in a line."""

from __future__ import annotations

from pathlib import Path

from cnc.testbed.experiments import description
from cnc.testbed.experiments.description import SyncDescription
from cnc.testbed.experiments.sync import Sync
from cnc.testbed.experiments.sync.experiment import what_was_said
from cnc.testbed.experiments.sync.figures import RELAY_HOP_NS, Said, hops_of, in_step_from
from cnc.testbed.lab.kernels.layout import cable_lines
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets

FILE = Path(__file__).parents[2] / "schedules/experiments/sync.yaml"
PRINTED = """1893456001000345678
sending: GET CURRENT_DATA_SET
1893456002000345678
sending: GET CURRENT_DATA_SET
\t020000.fffe.030002-0 seq 0 RESPONSE MANAGEMENT CURRENT_DATA_SET
\t\tstepsRemoved     2
\t\toffsetFromMaster -27.5
\t\tmeanPathDelay    1836.0
"""


def test_what_a_ptp4l_says_is_read_with_its_time_and_silence_is_left_out():
    assert list(what_was_said(PRINTED)) == [Said(2_000_000_000, -27.5, 2)]


def test_a_clock_is_in_step_from_when_on_it_stays_near():
    distances = [(0, 5000), (1, 900), (2, -1001), (3, 1000), (4, -1000)]
    assert in_step_from(distances, 1000) == 3
    assert in_step_from([*distances, (5, 1001)], 1000) is None
    assert in_step_from([], 1000) is None


def test_distances_count_from_the_first_clock_and_what_ptp4l_says_adds_up():
    recorded = [
        Offset(time_ns, node, offset_ns, 37)
        for node, values in {
            "s1": [0, 10, 20, 30, 40, 50],
            "s2": [9000, 80, 92, 40, 9000, 110],
            "s3": [-9000, -9000, 150, 40, 44, 180],
        }.items()
        for time_ns, offset_ns in enumerate(values)
    ]
    said = {"s2": [Said(0, 8000.0, 1), Said(1, -6.0, 1), Said(2, 4.0, 1)], "s3": [Said(2, 5.0, 2)]}
    nodes = ["s1", "s2", "s3"]
    one, two = hops_of(nodes, TrueOffsets(recorded), said, away_ns=(3, 4), allowed_ns=1000)
    assert (one.in_step_ns, one.least_ns, one.mean_ns, one.greatest_ns) == (1, 70, 71, 72)
    assert (one.said_mean_ns, one.said_greatest_ns, one.said_added_ns) == (-1, 6, 6)
    assert (one.away_ns, one.back_ns, one.in_step_again_ns) == (10, 8960, 1)
    assert (two.in_step_ns, two.mean_ns, two.said_added_ns) == (2, 130, 11)
    assert two.relay_ns == 2 * RELAY_HOP_NS == 162
    assert one.disagreements(1000) == two.disagreements(1000) == []
    (never, _) = hops_of(nodes, TrueOffsets(recorded), said, away_ns=(3, 4), allowed_ns=50)
    assert len(never.disagreements(50)) == 2


def test_the_last_cable_of_the_line_takes_longer_there_than_back():
    found = description.load(FILE)
    assert isinstance(found, SyncDescription)
    *others, last = cable_lines(Sync(found).emulated)
    assert last.endswith("propagation=1600 propagation-back=1100")
    assert all(line.endswith("propagation=1100 propagation-back=1100") for line in others)
