"""Frames on clocks that are kept together, and on one that runs off: predicted, and judged in true
time."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from cnc import intent as intents
from cnc.errors import InputError
from cnc.model import GateControlList, GateEntry, Plan
from cnc.testbed.experiments import clocked, description, pictures
from cnc.testbed.experiments.clock_loss import ClockLoss
from cnc.testbed.experiments.clock_loss.figures import Part, StreamOutcome, Turn, part_of
from cnc.testbed.experiments.clock_loss.pictures import clock_loss_pictures
from cnc.testbed.experiments.clock_loss.prediction import departure_ns, first_late_ns, latencies_ns
from cnc.testbed.experiments.description import ClockLossDescription
from cnc.testbed.intent.lab_model import Clocks
from cnc.testbed.lab.kernels.offsets import Offset, TrueOffsets
from cnc.testbed.traffic.recording import Flow, Frame

FILE = Path(__file__).parents[2] / "schedules/experiments/clock-loss.yaml"
# Class 1 may send from 10 to 20 and from 60 to 100 of 100 ns.
GATES = GateControlList(
    100, (GateEntry(1, 10), GateEntry(2, 10), GateEntry(1, 40), GateEntry(3, 15), GateEntry(2, 25))
)
STREAM = Flow("motion", "t1", "l1", 6, 6, 46, 200, 1_000_000, 0, 30_000)


@pytest.fixture(scope="module")
def experiment() -> ClockLoss:
    found = description.load(FILE)
    assert isinstance(found, ClockLossDescription)
    return ClockLoss.of(found, FILE)


@pytest.fixture(scope="module")
def emulated(experiment: ClockLoss) -> Plan:
    return replace(experiment.plan, intent=experiment.emulated)


def offsets(**of_nodes: list[tuple[int, int]]) -> TrueOffsets:
    return TrueOffsets(
        Offset(time_ns, node, offset_ns, 37)
        for node, its in of_nodes.items()
        for time_ns, offset_ns in its
    )


def running_off(first_late_ns: int | None, **predicted: int) -> Turn:
    """The clock of s2 runs 5 ppm fast from 0 on; motion is late from an instant on."""
    truth = offsets(s1=[(0, 40), (1_000_000_000, 40)], s2=[(0, 40), (1_000_000_000, 5_040)])
    late = 0 if first_late_ns is None else 7
    outcome = StreamOutcome("motion", 1000, 0, late, 0, first_late_ns, ())
    part = Part((outcome,), truth, ("s1", "s2"))
    return Turn("s2", "s1", 5_000, 0, part, predicted)


@pytest.mark.parametrize(
    ("ready_ns", "takes_ns", "leaves_ns"),
    [(0, 10, 10), (12, 8, 12), (13, 8, 60), (70, 30, 70), (71, 30, 160), (171, 30, 260)],
)
def test_a_frame_leaves_once_its_gate_is_open_until_it_has_been_sent(
    ready_ns: int, takes_ns: int, leaves_ns: int
):
    assert departure_ns(GATES, 1, ready_ns, takes_ns) == leaves_ns


def test_a_gate_that_stays_open_over_the_end_of_the_cycle_is_one_opening():
    gates = GateControlList(100, (GateEntry(2, 10), GateEntry(1, 80), GateEntry(2, 10)))
    assert departure_ns(gates, 1, 95, 15) == 95
    assert departure_ns(gates, 1, 96, 15) == 190


def test_frames_keep_their_bounds_as_long_as_no_clock_is_wrong(emulated: Plan):
    for name, stream in emulated.streams.items():
        assert max(latencies_ns(emulated, name, "s2", 0)) < stream.latency_bound_ns


@pytest.mark.parametrize("ahead", [True, False])
def test_frames_are_predicted_late_between_the_errors_at_which_turned_lists_made_them_late(
    emulated: Plan, *, ahead: bool
):
    """docs/lab/experiment-figures.md, clock errors: none of 900 late at 6 us, most at 7 us."""
    found = first_late_ns(emulated, "s2", ahead=ahead, limit_ns=9_000)
    assert found.keys() == emulated.streams.keys()
    assert all(6_000 < error_ns <= 7_000 for error_ns in found.values())


def test_where_no_switch_follows_a_clock_that_is_behind_makes_frames_late_sooner(emulated: Plan):
    """Ahead, its gate has to close before a frame is there; behind, each frame is late by that."""
    ahead = first_late_ns(emulated, "s3", ahead=True, limit_ns=9_000)
    behind = first_late_ns(emulated, "s3", ahead=False, limit_ns=9_000)
    assert all(behind[stream] < 4_000 < ahead[stream] for stream in emulated.streams)


def test_no_frame_is_predicted_late_within_the_error_that_was_planned_for(emulated: Plan):
    allowed_ns = emulated.intent.network.clock_error_ns
    for switch in emulated.intent.network.bridges:
        for ahead in (True, False):
            assert first_late_ns(emulated, switch, ahead=ahead, limit_ns=allowed_ns) == {}


def test_frames_are_judged_in_true_time_whatever_the_clocks_of_their_ends_show():
    truth = offsets(t1=[(0, 500), (10_000, 500)], l1=[(0, -2_000), (10_000, 2_000)])
    # 30,000 ns in true time, of which the listener's clock shows 2,500 less, later 1,500 more.
    in_time = Frame("motion", 0, -29_500, -29_500, -2_000)
    late = Frame("motion", 1, 10_500, 10_500, 42_001)
    lost = Frame("motion", 2, 10_500, 10_500, None)
    # Its talker was late: the plan promises nothing for it.
    excused = Frame("motion", 3, -29_500, -28_499, 9_000)
    (found,) = part_of([STREAM], [in_time, late, lost, excused], truth, ["t1", "l1"]).streams
    assert (found.frames, found.late, found.lost, found.first_late_ns) == (4, 1, 1, 10_000)
    assert found.sent_late == 1
    assert found.over_bound_ns == [(-30_000, 0), (10_000, 1)]


def test_what_clocks_of_another_frequency_show_is_no_instant_of_the_record():
    """The talker's is twice as fast as true time, the listener's half as fast."""
    truth = offsets(t1=[(0, 0), (100_000, 100_000)], l1=[(0, 0), (100_000, -50_000)])
    in_time = Frame("motion", 0, 40_000, 40_000, 25_000)
    late = Frame("motion", 1, 80_000, 80_000, 35_001)
    lost = Frame("motion", 2, 120_000, 120_000, None)
    (found,) = part_of([STREAM], [in_time, late, lost], truth, ["t1", "l1"]).streams
    assert found.over_bound_ns == [(20_000, 0), (40_000, 2)]
    assert (found.first_late_ns, found.last_late_ns) == (40_000, 60_000)


def test_a_part_with_clocks_in_step_may_have_neither_late_frames_nor_clocks_apart():
    truth = offsets(s1=[(0, 0), (9, 700)], s2=[(0, 900), (9, -400)])
    good = StreamOutcome("motion", 10, 0, 0, 0, None, ())
    assert Part((good,), truth, ("s1", "s2")).disagreements("in-sync", 1_100) == []
    assert Part((good,), truth, ("s1", "s2")).disagreements("in-sync", 1_000) == [
        "in-sync: two clocks differed by 1.1 µs; the plan allows 1 µs"
    ]
    bad = replace(good, late=2, lost=1)
    assert Part((bad,), truth, ("s1", "s2")).disagreements("in-sync", 1_100) == [
        "in-sync: of 10 frames 2 were late and 1 lost"
    ]


def test_the_first_late_frame_is_to_come_at_the_error_that_was_predicted():
    assert running_off(668_000_000, motion=3_340).disagreements(1_000) == []
    assert running_off(None).disagreements(1_000) == []
    (line,) = running_off(900_000_000, motion=3_340).disagreements(1_000)
    assert line.endswith("late at an error of 4.5 µs, predicted: 3.34 µs")
    (line,) = running_off(None, motion=3_340).disagreements(1_000)
    assert line.endswith("late at an error of none, predicted: 3.34 µs")
    (line,) = running_off(180_000_000, motion=1_100).disagreements(1_000)
    assert "late while the clock was 900 ns off" in line


def test_the_time_until_the_first_late_frame_follows_from_the_rate():
    turn = running_off(700_000_000, motion=3_340)
    assert turn.predicted_after_ns("motion") == 668_000_000
    assert turn.after_ns(turn.first_late_ns) == 700_000_000
    assert turn.error_ns(turn.first_late_ns) == 3_500


def test_a_picture_of_many_clocks_and_streams_has_room_for_their_names(tmp_path: Path):
    """As many as schedules/line5.yaml has. matplotlib warns where a legend leaves no room."""
    nodes = [f"station-{number}" for number in range(1, 12)]
    truth = offsets(**{node: [(0, 40), (1_000_000_000, 5_040)] for node in nodes})
    outcomes = [
        StreamOutcome(f"set-point-{number}", 1, 0, 0, 0, None, [(500_000_000, -number)])
        for number in range(12)
    ]
    part = Part(outcomes, truth, nodes)
    turn = Turn(nodes[1], nodes[0], 5_000, 0, part, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = pictures.save(
            clock_loss_pictures(part, {"killed": 500_000_000}, [turn], 1_000), tmp_path, {}
        )
    assert drawn.keys() == {"grandmaster-away", "runs-off-ahead-5000ppb"}


@pytest.mark.parametrize(
    ("before", "after", "refusal"),
    [
        ("switch: s2", "switch: s1", "no switch s1 that follows another"),
        ("line3.yaml", "bridged5.yaml", "bridged5.yaml is bridged, and streams with"),
    ],
)
def test_what_cannot_be_predicted_is_refused(tmp_path: Path, before: str, after: str, refusal: str):
    """The switch that follows none, and streams with several ways."""
    text = FILE.read_text().replace("network: ..", f"network: {FILE.parents[1]}")
    file = tmp_path / "clock-loss.yaml"
    file.write_text(text.replace(before, after))
    found = description.load(file)
    assert isinstance(found, ClockLossDescription)
    with pytest.raises(InputError, match=refusal):
        ClockLoss.of(found, file)


def test_the_lab_has_other_oscillators_and_the_plan_stays_that_of_the_network(
    experiment: ClockLoss,
):
    rates = {
        node: its.frequency_offset_ppb for node, its in experiment.emulated[Clocks].by_node.items()
    }
    assert rates == {
        "s2": -30_000, "s3": 45_000, "t1": -50_000, "t2": 11_000, "l1": 50_000, "l2": 25_000,
    }  # fmt: skip
    slowest = {bridge.processing_min_ns for bridge in experiment.emulated.network.bridges.values()}
    assert slowest == {5_000}
    assert experiment.plan.intent.network.bridges["s2"].processing_min_ns == 1_000


def test_the_first_switch_has_true_time_whatever_its_intent_says(experiment: ClockLoss):
    of_its_own = {"offset": "5ms", "frequency-offset": "9ppm"}
    document = dict(experiment.emulated.document)
    switches = {**document["switches"], "s1": {**document["switches"]["s1"], "clock": of_its_own}}
    intent = intents.from_document({**document, "switches": switches}, "a network")
    assert intent[Clocks].by_node["s1"].offset_ns == 5_000_000
    assert "s1" not in clocked.with_oscillators(intent, "other", [7])[Clocks].by_node


def test_true_offsets_between_records_are_on_a_straight_line_and_come_back_from_a_file(
    tmp_path: Path,
):
    recorded = [Offset(0, "s1", 10, 37), Offset(10, "s1", 30, 37)]
    clocked.write_offsets(tmp_path, {"a": recorded, "b": recorded[:1]})
    assert clocked.read_offsets(tmp_path) == {"a": recorded, "b": recorded[:1]}
    truth = TrueOffsets(recorded)
    assert [truth.at("s1", time_ns) for time_ns in (-5, 0, 5, 10, 15)] == [10, 10, 20, 30, 30]
