"""A flow beside captured traffic: what is sent, the report, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from cnc.errors import CncError, InputError
from cnc.testbed import experiments
from cnc.testbed.experiments.experiment import Report, write_rows
from cnc.testbed.experiments.replay import Replayed
from cnc.testbed.experiments.replay.experiment import COLUMNS
from cnc.testbed.experiments.replay.figures import waits_ns
from cnc.testbed.lab.platform import Platform
from tests.experiments import assert_file_is_refused

SCHEDULES = Path(__file__).parents[2] / "schedules"
FILE = SCHEDULES / "experiments" / "replay.yaml"
US, MS, S = 1_000, 1_000_000, 1_000_000_000
EXACT = Platform("Linux 6.12, user-mode Linux", "virtual time", exact=True)
ON_A_REAL_CLOCK = Platform("Linux 6.12, this machine's own kernel", "real time", exact=False)


@pytest.fixture(scope="module")
def experiment() -> Replayed:
    made = experiments.experiment_of(experiments.load(FILE), FILE)
    assert isinstance(made, Replayed)
    return made


# --- what is sent, and for how long it is to wait ------------------------------------------------


def test_the_others_send_their_capture_at_the_speed_and_without_one_not_at_all(
    experiment: Replayed,
):
    slow, _ = experiment.description.ways
    (flow,) = experiment.flows(slow, Decimal(0))
    assert (flow.name, flow.talker, flow.listener) == ("flow", "o", "m")
    flow, others = experiment.flows(slow, Decimal(5))
    assert (others.name, others.talker, others.listener) == ("others", "h1", "h2")
    (_, at_its_speed) = experiment.flows(slow, Decimal(1))
    assert others.timeline.lasts_ns == pytest.approx(at_its_speed.timeline.lasts_ns / 5, rel=1e-6)
    assert flow.dscp == others.dscp == 0  # in one queue


def test_what_comes_while_another_is_sent_waits_for_its_end():
    arrivals = [(0, 10, False), (4, 10, True), (5, 10, False), (50, 10, True), (55, 10, True)]
    assert [*waits_ns(arrivals)] == [6, 0, 5]


def test_without_others_nothing_waits(experiment: Replayed):
    """332 octets and all around them, to the last bit, take 286.4 us at 10 Mb/s and 2.864 at 1
    Gb/s; the gap behind them is none of it."""
    slow, _ = experiment.description.ways
    computed = experiment.computed_ns(slow, Decimal(0))
    assert len(computed) == 301  # in 10 s, one second of them after another
    assert [*computed] == pytest.approx([286_400 + 2 * 2_864] * 301, abs=7 * US)


def test_a_capture_that_is_more_than_a_link_carries_at_times_makes_the_flow_wait(
    experiment: Replayed,
):
    slow, fast = experiment.description.ways
    assert max(experiment.computed_ns(slow, Decimal(1))) > 100 * MS
    assert max(experiment.computed_ns(fast, Decimal(5))) < 5 * MS


def test_others_that_cross_a_slow_link_before_come_later(experiment: Replayed):
    _, fast = experiment.description.ways
    farther = fast.model_copy(update={"others": ("h1", "h3")})
    assert experiment.shared(fast) == experiment.shared(farther)
    near, far = (experiment.computed_ns(its, Decimal(1)) for its in (fast, farther))
    assert len(near) == len(far)
    assert near != far


# --- the report ----------------------------------------------------------------------------------

Key = tuple[int, int]  # number of the way, speed
TOOK_NS: Mapping[Key, int] = {
    (0, 0): 293 * US,
    (0, 1): 100 * MS,
    (1, 0): 35 * US,
    (1, 1): 40 * US,
    (1, 5): 60 * US,
}


def reported(
    experiment: Replayed,
    directory: Path,
    changed: Mapping[Key, int | None] | None = None,
    platform: Platform = EXACT,
    sent_late_ns: int = 700,
) -> Report:
    """The report of two frames of the flow each, and of one of the others that was sent late."""
    rows: list[list[object]] = []
    for key, took_ns in {**TOOK_NS, **(changed or {})}.items():
        rows.append([*key, "others", 0, 0, sent_late_ns, None])
        for seq in range(2):
            received_ns = None if took_ns is None else seq * 33 * MS + took_ns
            rows.append([*key, "flow", seq, seq * 33 * MS, seq * 33 * MS + 300, received_ns])
    write_rows(directory, COLUMNS, rows)
    return experiment.report(directory, platform)


def test_table_1_in_its_order_is_as_expected(experiment: Replayed, tmp_path: Path):
    report = reported(experiment, tmp_path)
    assert report.disagreements == []
    points = report.summary["points"]
    assert [(p["rate_bps"], p["speed"], p["sent"], p["lost"]) for p in points] == [
        (10_000_000, 0, 2, 0),
        (10_000_000, 1, 2, 0),
        (100_000_000, 0, 2, 0),
        (100_000_000, 1, 2, 0),
        (100_000_000, 5, 2, 0),
    ]
    assert points[1]["latency"]["mean_ns"] == 100 * MS
    assert {p["sent_within_ns"] for p in points} == {700}
    assert report.sheets[0].rows[1][7] == "0.36 / 625.39 / 142.28 / 156.73"
    json.dumps(report.summary)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {(0, 1): 2 * MS},
            [
                (
                    "o to m by 10 Mb/s, others at 1 times their speed: 6.8 times as long on "
                    "average as without others, 10 times or more expected"
                )
            ],
        ),
        (
            {(1, 0): 15 * US, (1, 5): 190 * US},
            [
                (
                    "m to r by 100 Mb/s, others at 5 times their speed: 12.7 times as long on "
                    "average as without others, less than 10 times expected"
                )
            ],
        ),
        (
            {(1, 1): 70 * US},
            [
                (
                    "m to r by 100 Mb/s, others at 5 times their speed: less on average than with "
                    "others at 1 times their speed"
                )
            ],
        ),
    ],
)
def test_what_is_not_as_expected_is_said(
    experiment: Replayed, tmp_path: Path, changed: Mapping[Key, int], why: list[str]
):
    assert reported(experiment, tmp_path, changed).disagreements == why
    assert reported(experiment, tmp_path, changed, ON_A_REAL_CLOCK).disagreements == []


def test_a_frame_that_takes_longer_than_all_that_is_ahead_of_it_is_said(
    experiment: Replayed, tmp_path: Path
):
    (why,) = reported(experiment, tmp_path, {(0, 1): S}).disagreements
    assert why.startswith("o to m by 10 Mb/s, others at 1 times their speed: 1 s at worst, at most")


def test_a_packet_that_is_not_sent_at_its_instant_is_said(experiment: Replayed, tmp_path: Path):
    whys = reported(experiment, tmp_path, sent_late_ns=1_001).disagreements
    assert len(whys) == 5
    assert whys[0] == ("o to m by 10 Mb/s, no others: a packet was sent 1.001 µs after its instant")


def test_without_a_single_frame_there_is_no_report(experiment: Replayed, tmp_path: Path):
    with pytest.raises(CncError, match="by 10 Mb/s, no others: not one frame came"):
        reported(experiment, tmp_path, {(0, 0): None})


# --- refused -------------------------------------------------------------------------------------

SLOW = "{talker: o, listener: m, others: [h1, h2], speeds: [0, 1], overloaded: true}"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            "{talker: o, listener: o, others: [h1, h2], speeds: [0, 1], overloaded: true}",
            "15: ways[0].listener: found o, expected another end station than the talker",
        ),
        (
            "{talker: o, listener: m, others: [h1, h1], speeds: [0, 1], overloaded: true}",
            "15: ways[0].others[1]: found h1, expected an end station that is not before it",
        ),
        (
            "{talker: o, listener: m, others: [h1], speeds: [0, 1], overloaded: true}",
            "15: ways[0].others: found 1 value, expected at least 2",
        ),
        (
            "{talker: o, listener: m, others: [h1, h2], speeds: [1, 5], overloaded: true}",
            "15: ways[0].speeds[0]: found 1, expected 0, the flow without others",
        ),
        (
            "{talker: o, listener: m, others: [h1, h2], speeds: [0, 5, 1], overloaded: true}",
            "15: ways[0].speeds[2]: found 1, expected more than 5, which is before it",
        ),
    ],
)
def test_a_way_that_is_none_is_refused_with_line_and_key(tmp_path: Path, change: str, why: str):
    assert_file_is_refused(FILE, (SLOW, change), tmp_path, why)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("[h1, h2]", "[h1, h9]"), "ways[0].others: found 'h9', expected one of h1, h2, h3, m, o,"),
        (
            ("[h1, h2]", "[h2, h3]"),
            (
                "ways[0]: found no link that frames from o to m and from h2 to h3 both cross, "
                "expected one"
            ),
        ),
    ],
)
def test_a_way_that_the_network_does_not_have_is_refused(
    tmp_path: Path, change: tuple[str, str], why: str
):
    with pytest.raises(InputError) as refused:
        load_changed(tmp_path, change)
    assert str(refused.value).startswith(f"{tmp_path / 'e.yaml'}: {why}")


def test_a_capture_that_cannot_be_sent_is_refused_before_anything_is_run(tmp_path: Path):
    (tmp_path / "cut.pcap").write_bytes(
        (SCHEDULES / "captures" / "bursty.pcap.gz").read_bytes()[:9]
    )
    with pytest.raises(InputError, match=r"cut\.pcap: cannot be read: Compressed file ended"):
        load_changed(tmp_path, ("capture: ../captures/bursty.pcap.gz", "capture: cut.pcap"))


def load_changed(directory: Path, change: tuple[str, str]) -> None:
    text = FILE.read_text()
    assert change[0] in text
    file = directory / "e.yaml"
    file.write_text(text.replace(*change).replace("../", f"{SCHEDULES}/"))
    experiments.experiment_of(experiments.load(file), file)
