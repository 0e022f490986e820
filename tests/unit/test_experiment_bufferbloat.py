"""Latency and loss over the buffers of switches: what is sent, the report, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from cnc.errors import CncError, InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.bufferbloat import Bufferbloat
from cnc.testbed.experiments.bufferbloat.experiment import COLUMNS
from cnc.testbed.experiments.bufferbloat.figures import APART, TOGETHER
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.lab.platform import Platform
from cnc.testbed.traffic import endpoint
from cnc.testbed.traffic.flows import JitteredFlow
from tests.experiments import assert_file_is_refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "bufferbloat.yaml"
US = 1_000
MS = 1_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


@pytest.fixture(scope="module")
def experiment() -> Bufferbloat:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, Bufferbloat)
    few = made.description.model_copy(update={"buffers": [2, 5, 20], "intervals_ns": [MS, 2 * MS]})
    return Bufferbloat(few, made.emulated)


# --- what is sent --------------------------------------------------------------------------------


def test_each_of_the_others_sends_to_each_other_at_its_rate(experiment: Bufferbloat):
    flow, *others = experiment.flows(MS)
    assert (flow.name, flow.talker, flow.listener, flow.period_ns) == ("flow", "o", "r", MS)
    assert not isinstance(flow, JitteredFlow)
    pairs = [(each.talker, each.listener) for each in others]
    both_ways = {*pairs}
    assert len(pairs) == len(both_ways) == 6
    assert {(listener, talker) for talker, listener in pairs} == both_ways
    for each in others:
        assert each.payload_octets * 8 / each.period_ns == pytest.approx(4.7e-3, rel=1e-5)
        assert isinstance(each, JitteredFlow)
        assert (each.jitter_ns, each.seed) == (10 * MS, 1)
    assert flow.dscp != others[0].dscp


def timeline(seed: int, name: str = "h1 to h2") -> list[tuple[int, int]]:
    flow = {"period_ns": MS, "offset_ns": 0, "frames": 1, "jitter_ns": 10 * MS}
    flow |= {"seed": seed, "name": name}
    frames = endpoint.timeline(0, flow, 0, 1000 * MS)
    return [(instant_ns, seq) for instant_ns, _, seq, _ in frames]


def test_frames_with_jitter_leave_in_order_and_as_many_as_without():
    frames = timeline(1)
    assert frames == sorted(frames)
    assert [seq for _, seq in frames] == [*range(1000)]
    later_ns = [instant_ns - seq * MS for instant_ns, seq in frames]
    assert sum(later_ns) / len(later_ns) == pytest.approx(5 * MS, rel=0.1)  # evenly drawn
    assert len({*later_ns}) > 900


def test_jitter_is_the_same_again_and_another_for_another_seed_or_flow():
    assert timeline(1) == timeline(1)
    assert len({tuple(each) for each in (timeline(1), timeline(2), timeline(1, "h1 to h3"))}) == 3


# --- the report ----------------------------------------------------------------------------------

Key = tuple[str, int, int]
MEANS_NS: Mapping[Key, int] = {
    (TOGETHER, 2, MS): MS,
    (TOGETHER, 5, MS): 3 * MS,
    (TOGETHER, 20, MS): 13 * MS,
    (TOGETHER, 2, 2 * MS): MS,
    (TOGETHER, 5, 2 * MS): 4 * MS,
    (TOGETHER, 20, 2 * MS): 4 * MS,  # the smaller one never fills
    (APART, 2, MS): 900 * US,
    (APART, 5, MS): 910 * US,
    (APART, 20, MS): 920 * US,
}


def reported(
    experiment: Bufferbloat,
    directory: Path,
    changed: Mapping[Key, int | None] | None = None,
    platform: Platform = EXACT,
) -> Report:
    """The report of two frames each, of which with buffer 2 and one queue the second is lost; some
    take another time than they are to, or do not come at all."""
    rows: list[list[object]] = []
    for key, mean_ns in {**MEANS_NS, **(changed or {})}.items():
        for seq in range(2):
            sent_ns = seq * key[2]
            came = mean_ns is not None and (seq == 0 or key[:2] != (TOGETHER, 2))
            received_ns = sent_ns + mean_ns if came and mean_ns else None
            rows.append([*key, "flow", seq, sent_ns, sent_ns, received_ns])
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def test_means_that_rise_with_the_buffer_are_as_expected(experiment: Bufferbloat, tmp_path: Path):
    report = reported(experiment, tmp_path)
    assert report.disagreements == []
    first, *others = report.summary["points"]
    assert (first["sent"], first["lost"], first["latency"]["mean_ns"]) == (2, 1, MS)
    assert [each["lost"] for each in others] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert report.sheets[0].rows[0][-1] == "50.0"
    json.dumps(report.summary)


def test_a_frame_takes_at_most_one_of_the_others_at_each_switch(experiment: Bufferbloat):
    """1000 octets and all around them take 830.4 us at 10 Mb/s and 83.04 us at 100; 64 octets, to
    their last bit, 72 and 7.2."""
    others_ns = 2 * 830_400 + 83_040
    own_ns = 2 * 72_000 + 2 * 7_200
    assert experiment.longest_ns == pytest.approx(others_ns + own_ns, abs=20 * US)


@pytest.mark.parametrize(
    ("key", "took_ns", "why"),
    [
        (
            (TOGETHER, 2, MS),
            1_300 * US,
            ("one queue for all, buffer 2, every 1 ms: 1.3 ms on average, at most 1.2 ms expected"),
        ),
        (
            (TOGETHER, 20, 2 * MS),
            3_900 * US,
            (
                "one queue for all, buffer 20, every 2 ms: 3.9 ms on average, less than with "
                "buffer 5 every 2 ms, 4 ms"
            ),
        ),
        (
            (TOGETHER, 20, 2 * MS),
            14 * MS,
            (
                "one queue for all, buffer 20, every 1 ms: 13 ms on average, less than with "
                "buffer 20 every 2 ms, 14 ms"
            ),
        ),
        (
            (APART, 5, MS),
            2 * MS,
            "a queue of its own, buffer 5, every 1 ms: 2 ms at worst, at most 1.919 ms expected",
        ),
    ],
)
def test_what_is_not_as_expected_is_told(
    experiment: Bufferbloat, tmp_path: Path, key: Key, took_ns: int, why: str
):
    assert reported(experiment, tmp_path, {key: took_ns}).disagreements == [why]
    assert reported(experiment, tmp_path, {key: took_ns}, ON_A_REAL_CLOCK).disagreements == []


def test_buffers_that_make_no_difference_are_told(experiment: Bufferbloat, tmp_path: Path):
    same = {(TOGETHER, buffer, 2 * MS): MS for buffer in (2, 5, 20)}
    assert reported(experiment, tmp_path, same).disagreements == [
        "one queue for all, buffer 20, every 2 ms: no longer than with buffer 2"
    ]


def test_frames_that_are_lost_in_a_queue_of_their_own_are_told(
    experiment: Bufferbloat, tmp_path: Path
):
    reported(experiment, tmp_path)
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    last = rows.pop().split(",")
    rows.append(",".join([*last[:-1], ""]))
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    assert experiment.report(tmp_path, EXACT).disagreements == [
        "a queue of its own, buffer 20, every 1 ms: 1 frame did not come"
    ]


def test_without_a_single_frame_there_is_no_report(experiment: Bufferbloat, tmp_path: Path):
    with pytest.raises(CncError, match="buffer 5, every 1 ms: not one frame came"):
        reported(experiment, tmp_path, {(TOGETHER, 5, MS): None})


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("listener: r", "listener: o"),
            "14: listener: found o, expected another end station than the talker",
        ),
        (
            ("intervals: [1ms, 2ms, 5ms, 10ms]", "intervals: [1ms, 2ms, 2ms]"),
            "16: intervals[2]: found 2ms, expected more than 2ms, which is before it",
        ),
        (
            ("buffers: [2, 5, 20, 100]", "buffers: [1, 5]"),
            "17: buffers[0]: found 1, expected a whole number from 2 to 1000",
        ),
        (
            ("buffers: [2, 5, 20, 100]", "buffers: [5, 2]"),
            "17: buffers[1]: found 2, expected more than 5, which is before it",
        ),
        (
            ("others: [h1, h2, h3]", "others: [h1, h2, h1]"),
            "19: others[2]: found h1, expected an end station that is not before it",
        ),
        (
            ("duration: 4s", "duration: 9ms"),
            "24: duration: found 9ms, expected at least the longest of the intervals, 10ms",
        ),
    ],
)
def test_a_grid_that_is_none_is_refused_with_line_and_key(
    tmp_path: Path, change: tuple[str, str], why: str
):
    assert_file_is_refused(FILE, change, tmp_path, why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            ("name: crowded", "name: crowded\nforwarding: bridged"),
            (
                "network: network.yaml is bridged, and a flow gets a queue of its own by its DSCP "
                "here"
            ),
        ),
        (("h3", "h4"), "others: found 'h3', expected one of h1, h2, h4, o, r"),
        (
            ("role: scheduled", "role: control, max-frame: 128B"),
            "network: network.yaml has no class of role scheduled",
        ),
    ],
)
def test_a_network_that_does_not_fit_is_refused(tmp_path: Path, change: tuple[str, str], why: str):
    network = (SCHEDULES / "crowded.yaml").read_text()
    assert change[0] in network
    (tmp_path / "network.yaml").write_text(network.replace(*change))
    file = tmp_path / "e.yaml"
    file.write_text(FILE.read_text().replace("../crowded.yaml", "network.yaml"))
    with pytest.raises(InputError) as refused:
        experiments.experiment_of(experiments.load(file), file)
    assert str(refused.value) == f"{file}: {why}"
