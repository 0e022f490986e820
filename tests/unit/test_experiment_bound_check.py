"""What a bound check sends, and how it judges what became of that."""

from __future__ import annotations

from itertools import pairwise
from math import gcd
from pathlib import Path

import pytest

from cnc.errors import InputError
from cnc.testbed.experiments import description, planned
from cnc.testbed.experiments.bound_check import BoundCheck
from cnc.testbed.experiments.description import BoundCheckDescription
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic.flows import BACKGROUND_SHARE
from cnc.testbed.traffic.recording import Frame, Recording

FILE = Path(__file__).parents[2] / "schedules/experiments/bound-check.yaml"
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)
START_NS = 10**18
LONGEST_FRAME_NS = 12_336  # 1,522 octets, preamble and gap at 1 Gb/s


@pytest.fixture(scope="module")
def check() -> BoundCheck:
    found = description.load(FILE)
    assert isinstance(found, BoundCheckDescription)
    return BoundCheck.of(found, FILE)


def reported(
    check: BoundCheck, directory: Path, platform: Platform = EXACT, **over_bound_ns: int | None
) -> Report:
    """The report of one frame of each stream: that far over its bound, or None for a lost one;
    as fast as the plan lets it be where nothing is said."""
    frames = []
    for flow in check.sent:
        if flow.latency_bound_ns is None:
            continue
        last = check.plan.streams[flow.name].hops[-1]
        network = check.plan.intent.network
        way_ns = network.reception_ns(network.links[last.egress], flow.payload_octets) + 100
        latency_ns = last.offset_ns - flow.offset_ns + way_ns
        over_ns = over_bound_ns.get(flow.name.replace("-", "_"), latency_ns - flow.latency_bound_ns)
        at_ns = START_NS + flow.offset_ns
        received_ns = None if over_ns is None else at_ns + flow.latency_bound_ns + over_ns
        frames.append(Frame(flow.name, 0, at_ns, at_ns, received_ns))
    rows = planned.frame_rows(Recording(START_NS, tuple(frames)))
    write_rows(directory, planned.FRAME_COLUMNS, rows)
    return check.report(directory, platform)


def test_as_many_whole_cycles_are_sent_as_it_takes_for_the_frames(check: BoundCheck):
    def frames(cycles: int) -> int:
        duration_ns = cycles * check.plan.intent.hyperperiod_ns()
        streams = check.plan.intent.streams.values()
        return sum(duration_ns // stream.period_ns for stream in streams)

    assert frames(check.cycles - 1) < check.description.frames <= frames(check.cycles)


def test_no_two_best_effort_frames_are_sent_at_a_time(check: BoundCheck):
    background = [flow for flow in check.sent if flow.latency_bound_ns is None]
    (period_ns,) = {flow.period_ns for flow in background}
    offsets = sorted(flow.offset_ns for flow in background)
    apart_ns = [after - before for before, after in pairwise([*offsets, offsets[0] + period_ns])]
    assert len(background) > 1
    assert min(apart_ns) > 2 * LONGEST_FRAME_NS


def test_best_effort_visits_as_many_phases_as_it_does_in_the_demo(check: BoundCheck):
    cycle_ns = check.plan.intent.hyperperiod_ns()
    for flow in check.sent:
        if flow.latency_bound_ns is None:
            assert cycle_ns // gcd(flow.period_ns, cycle_ns) == BACKGROUND_SHARE[1]


def test_all_streams_on_time_are_no_disagreement(check: BoundCheck, tmp_path: Path):
    report = reported(check, tmp_path)
    assert report.disagreements == []
    assert report.summary["frames"] == len(check.plan.streams)
    assert report.summary["late"] == report.summary["lost"] == 0
    for stream in report.summary["streams"]:
        assert stream["slack_ns"] == stream["bound_ns"] - stream["max_ns"] > 0


def test_a_frame_is_late_from_the_first_nanosecond_beyond_its_bound(
    check: BoundCheck, tmp_path: Path
):
    report = reported(check, tmp_path, log=0, recipe=1)
    by_id = {stream["id"]: stream for stream in report.summary["streams"]}
    assert (by_id["log"]["late"], by_id["log"]["slack_ns"]) == (0, 0)
    assert (by_id["recipe"]["late"], by_id["recipe"]["slack_ns"]) == (1, -1)
    late = [line for line in report.disagreements if "late" in line]
    assert late == ["recipe: 1 of 1 frame late, the worst took 67.985 µs of 67.984 µs"]


def test_a_lost_frame_is_a_disagreement_and_has_no_latency(check: BoundCheck, tmp_path: Path):
    report = reported(check, tmp_path, set_point_2=None)
    assert report.disagreements == ["set-point-2: 1 of 1 frame lost"]
    (stream,) = (each for each in report.summary["streams"] if each["id"] == "set-point-2")
    assert stream["max_ns"] is stream["slack_ns"] is None
    assert report.sheets[0].rows[0][-6:] == ["–", "–", "–", "18.0", "–", "–"]  # noqa: RUF001


def test_a_frame_from_a_closed_gate_is_a_disagreement_even_within_its_bound(
    check: BoundCheck, tmp_path: Path
):
    report = reported(check, tmp_path, picture=-8_000)
    assert report.summary["late"] == 0
    assert report.summary["out_of_window"] == 1
    assert "picture: 1 frame sent outside the gate's window" in report.disagreements[0]


def test_nothing_is_judged_on_a_real_clock(check: BoundCheck, tmp_path: Path):
    report = reported(check, tmp_path, ON_A_REAL_CLOCK, log=5_000, recipe=None)
    assert (report.summary["late"], report.summary["lost"]) == (1, 1)
    assert report.disagreements == []
    assert "shown, not judged" in report.remarks[-1]


def test_a_network_that_is_not_there_is_bad_input(check: BoundCheck):
    elsewhere = check.description.model_copy(update={"network": "../line55.yaml"})
    with pytest.raises(InputError, match=r"schedules/experiments/\.\./line55\.yaml: cannot read"):
        BoundCheck.of(elsewhere, FILE)


def test_a_network_without_streams_is_bad_input(check: BoundCheck, tmp_path: Path):
    text = (FILE.parent / check.description.network).read_text()
    (tmp_path / "idle.yaml").write_text(text[: text.index("streams:\n")] + "streams: {}\n")
    idle = check.description.model_copy(update={"network": "idle.yaml"})
    with pytest.raises(InputError, match=r"e\.yaml: network: idle\.yaml has no streams"):
        BoundCheck.of(idle, tmp_path / "e.yaml")
