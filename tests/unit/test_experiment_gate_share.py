"""A gateway whose port is open for a share of the cycle."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from cnc import check, planner
from cnc.errors import InputError, Unschedulable
from cnc.model import GateControlList, GateEntry, PortRef
from cnc.testbed import experiments
from cnc.testbed.experiments import description
from cnc.testbed.experiments.description import GateShareDescription
from cnc.testbed.experiments.gate_share import gateway
from cnc.testbed.experiments.gate_share.beside import Beside

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


def test_one_class_has_what_the_other_has_not(sweep: GateShareDescription):
    gates = planner.plan(gateway.intent(sweep, 80)).gates
    entries = (GateEntry(0b10, 800_000), GateEntry(0b01, 200_000))
    assert gates[PortRef("gateway", "cloud")] == GateControlList(1_000_000, entries)
    closed = [gateway.closed_ns(name, 80, 1_000_000) for name in ("high-priority", "best-effort")]
    assert closed == [200_000, 800_000]


def test_without_a_share_no_gate_shuts(sweep: GateShareDescription):
    assert planner.plan(gateway.intent(sweep)).gates == {}


def test_the_closed_form_is_the_mean_of_a_gate_that_starts_no_frame_it_would_cut(
    sweep: GateShareDescription,
):
    slow = sweep.model_copy(update={"rate_bps": 1_000_000_000})
    assert slow.transmission_ns == 11_824
    closed_ns, cycle_ns = 700_000, 1_000_000
    phases = range(0, cycle_ns, 100)  # from the closing of the gate
    waits = [
        max(0, closed_ns - phase)
        if phase + slow.transmission_ns <= cycle_ns
        else cycle_ns - phase + closed_ns
        for phase in phases
    ]
    shut_ns = gateway.shut_ns(slow, gateway.BEST_EFFORT, 70)
    expected_ns = gateway.expected_mean_ns(shut_ns, cycle_ns)
    assert expected_ns == pytest.approx(sum(waits) / len(waits), rel=0.001)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"rate_bps": 10**9, "frames_per_cycle": 1}, None),
        (
            {"rate_bps": 10**9},
            (
                "high-priority at 10 %: a frame takes 11.824 µs on a link of 1 Gb/s, and up to "
                "2 frames wait for each other"
            ),
        ),
        (
            {"rate_bps": 10**8, "shares": [80]},
            (
                "best-effort at 80 %: a frame takes 118.24 µs on a link of 100 Mb/s, and up to "
                "2 frames of each cycle do not fit the 200 µs for which the gate is open"
            ),
        ),
        (
            {"rate_bps": 10**8, "shares": [10], "frames_per_cycle": 1},
            (
                "high-priority at 10 %: a frame takes 118.24 µs on a link of 100 Mb/s, and up to "
                "2 frames of each cycle do not fit the 100 µs for which the gate is open"
            ),
        ),
    ],
)
def test_an_experiment_that_the_closed_form_does_not_describe_is_recognised(
    sweep: GateShareDescription, changes: dict[str, object], reason: str | None
):
    assert gateway.meeting(sweep.model_copy(update=changes)) == reason


def test_such_an_experiment_is_refused_unless_it_is_not_to_be_judged(tmp_path: Path):
    file = tmp_path / "slow.yaml"
    file.write_text(FILE.read_text().replace("rate: 10Gbps", "rate: 100Mbps"))
    with pytest.raises(InputError, match=r"slow\.yaml: .* the closed form describes frames") as why:
        experiments.experiment_of(description.load(file), file)
    assert "`closed-form: false`" in str(why.value.hint)
    text = re.sub(r"shares: \[.*\]", "shares: [20, 50, 80]", file.read_text())
    file.write_text(f"{text}\nclosed-form: false\n")
    assert experiments.experiment_of(description.load(file), file)


def test_a_share_that_no_frame_fits_is_refused(tmp_path: Path):
    file = tmp_path / "slow.yaml"
    text = FILE.read_text().replace("rate: 10Gbps", "rate: 100Mbps")
    file.write_text(f"{text}\nclosed-form: false\n")
    with pytest.raises(InputError, match="class high-priority open for 100 µs at most"):
        experiments.experiment_of(description.load(file), file)


BESIDE = FILE.with_name("overload-beside.yaml")


@pytest.fixture(scope="module")
def beside() -> GateShareDescription:
    found = description.load(BESIDE)
    assert isinstance(found, GateShareDescription)
    return found


def test_a_stream_beside_the_share_is_planned_while_that_stays_as_it_is(
    beside: GateShareDescription,
):
    made = gateway.planned(beside, 50)
    assert check.judge(made) == []
    gates = made.gates[PortRef("gateway", "cloud")]
    assert gates.entries[0] == GateEntry(0b010, 500_000)
    flow = gateway.planned_flow(beside, 50)
    assert (flow.name, flow.talker, flow.period_ns) == ("planned", "controller", 1_000_000)
    assert flow.latency_bound_ns == made.streams["planned"].latency_bound_ns


def test_its_frames_have_to_arrive_within_its_bound(beside: GateShareDescription):
    flow = gateway.planned_flow(beside, 50)
    bound_ns = flow.latency_bound_ns or 0
    sent = {"planned_ns": "1000", "received_ns": str(1000 + bound_ns)}
    kept = Beside.of(50, flow, [sent, sent])
    assert kept.disagreement() is None
    assert kept.document() == {
        "share": 50,
        "frames": 2,
        "lost": 0,
        "late": 0,
        "max_ns": bound_ns,
        "bound_ns": bound_ns,
    }
    late = {**sent, "received_ns": str(1001 + bound_ns)}
    missed = Beside.of(50, flow, [sent, late, {**sent, "received_ns": ""}])
    assert (missed.late, missed.lost, missed.max_ns) == (1, 1, bound_ns + 1)
    assert (missed.disagreement() or "").startswith("1 lost and 1 late of 3 planned frames beside ")


def test_a_stream_that_the_share_leaves_no_time_is_refused(tmp_path: Path):
    file = tmp_path / "full.yaml"
    file.write_text(BESIDE.read_text().replace("shares: [20, 50]", "shares: [80]"))
    with pytest.raises(Unschedulable, match="best effort would starve"):
        experiments.experiment_of(description.load(file), file)


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        (("period: 1ms", "period: 3ms"), "beside.period: found 3ms, expected a part of a second"),
        (("closed-form: false", "closed-form: true"), "closed-form: found true, and a stream besi"),
    ],
)
def test_what_does_not_go_with_a_stream_beside_the_share_is_refused(
    tmp_path: Path, change: tuple[str, str], refused: str
):
    file = tmp_path / "beside.yaml"
    file.write_text(BESIDE.read_text().replace(*change))
    with pytest.raises(InputError, match=refused):
        description.load(file)
