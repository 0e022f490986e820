"""Figures of a trace: columns, stages, correlation and drift, against figures made by hand and
numpy's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest

from cnc.model import Plan
from cnc.plans import file as planfile
from cnc.testbed.traffic.column import Column
from cnc.testbed.traffic.trace.account import Account, Layer
from cnc.testbed.traffic.trace.columns import PathColumns, gather
from cnc.testbed.traffic.trace.correlation import (
    FRAMES_MIN,
    Correlations,
    correlation,
    correlations,
)
from cnc.testbed.traffic.trace.drift import BLOCKS, Drift, Trend, drifts
from cnc.testbed.traffic.trace.stages import Stage, Stages, stages
from cnc.testbed.traffic.trace.summary import summarise
from tests.unit.traced_frames import T0, Record, torque

MS = 1_000_000
WIDE, MIDDLE = 1 << 40, 1 << 20


@pytest.fixture(scope="module")
def line3() -> Plan:
    return planfile.load(Path(__file__).parent / "data" / "line3-plan.json")


def torques(line3: Plan, late_ns: Iterable[int], *, lost: Sequence[int] = ()) -> list[Account]:
    """Frames of torque, each so much later in the listener."""
    record = Record(line3)
    for seq, each in enumerate(late_ns):
        torque(record, seq, late_ns=each, up_to=4 if seq in lost else 8)
    return record.accounts()


@pytest.mark.parametrize(
    "values",
    [
        [],
        [7],
        [7, 7, 7],
        [7, 7, 8],
        [7, 7, -8, WIDE, 9],
        [WIDE, WIDE, 1],
        [-WIDE],
        [1, MIDDLE, -WIDE, 2],
        [MIDDLE, 1],
    ],
)
def test_a_column_has_what_was_added_to_it(values: list[int]):
    column = Column(values)
    assert (len(column), list(column)) == (len(values), values)
    assert [column[index] for index in range(len(values))] == values
    assert list(column[1:]) == values[1:]
    with pytest.raises(IndexError):
        column[len(values)]


def test_the_stages_are_those_of_the_stamps_and_add_up_to_the_total(line3: Plan):
    (found,) = torques(line3, [40])
    assert stages(found.row) == Stages(
        sender_ns=500, channel_ns=29_487 + 1_140 - 500, receiver_ns=340
    )
    assert sum(ns or 0 for ns in stages(found.row)) == found.total_ns
    assert stages(found.row).end_stations_ns == 500 + 340


def test_of_a_lost_frame_the_sender_is_known_and_nothing_behind_it(line3: Plan):
    (found,) = torques(line3, [0], lost=[0])
    assert stages(found.row) == Stages(500, None, None)
    assert stages(found.row).end_stations_ns is None


def test_the_sums_of_the_stages_are_the_sum_of_the_totals(line3: Plan):
    late_ns = [3 * seq % 17 for seq in range(40)]
    (path,) = gather(torques(line3, late_ns, lost=[4, 7]))
    (flow,) = summarise([path])
    sums_ns = {stage: its.sum_ns for stage, its in flow.stages.items()}
    kept_ns = sum(late_ns) - late_ns[4] - late_ns[7]
    assert sums_ns[Stage.SENDER] == 38 * 500
    assert sums_ns[Stage.RECEIVER] == 38 * 300 + kept_ns
    assert sum(sums_ns.values()) == flow.total_sum_ns == 38 * 30_927 + kept_ns
    assert (flow.frames, flow.lost, flow.incomplete) == (40, 2, 0)


def test_without_a_whole_frame_there_is_no_sum(line3: Plan):
    (flow,) = summarise(gather(torques(line3, [0], lost=[0])))
    assert (flow.frames, flow.lost) == (1, 1)
    assert (flow.stages, flow.total, flow.total_sum_ns) == ({}, None, None)


def test_columns_have_whole_frames_alone_and_count_the_others(line3: Plan):
    (path,) = gather(torques(line3, [0, 5, 9], lost=[1]))
    assert (path.frames, path.lost, len(path)) == (3, 1, 2)
    assert list(path.seqs) == [0, 2]
    assert list(path.layer_ns(Layer.LISTENER)) == [300, 309]
    assert list(path.layer_ns(Layer.GATE_CLOSED)) == [22_567] * 2  # at three ports


def test_frames_that_a_stamp_is_absent_of_are_counted_and_in_no_figure(line3: Plan):
    record = Record(line3)
    for seq in range(FRAMES_MIN):
        torque(record, seq, late_ns=seq)
    accounts = [*record.accounts(), *record.accounts(without="s2/s3")]
    (path,) = gather(accounts)
    assert (path.frames, path.lost, path.incomplete) == (2 * FRAMES_MIN, 0, FRAMES_MIN)
    (found,) = correlations([path])
    assert (found.frames, found.absent) == (FRAMES_MIN, FRAMES_MIN)
    assert found.layers == correlations(gather(record.accounts()))[0].layers


def of_layers(found: Correlations) -> dict[Layer, tuple[float | None, float | None]]:
    return {each.layer: (each.correlation, each.slope) for each in found.layers}


def test_the_layer_that_makes_the_total_vary_correlates_and_others_are_constant(line3: Plan):
    (found,) = correlations(gather(torques(line3, [100 * seq for seq in range(12)], lost=[3])))
    assert (found.frames, found.absent, found.is_total_constant) == (11, 1, False)
    by_layer = of_layers(found)
    assert by_layer.pop(Layer.LISTENER) == (pytest.approx(1.0), pytest.approx(1.0))
    assert set(by_layer.values()) == {(None, None)}
    assert {each.layer for each in found.layers if each.is_constant} == set(by_layer)


def test_a_total_that_never_varies_correlates_with_nothing(line3: Plan):
    (found,) = correlations(gather(torques(line3, [7] * FRAMES_MIN)))
    assert found.is_total_constant
    assert set(of_layers(found).values()) == {(None, None)}


def test_a_correlation_by_hand():
    # x: 1 2 3, y: 1 3 2, so sums of products about the means 1, of squares 2 and 2.
    found = correlation(Layer.WIRE, zip([1, 2, 3], [1, 3, 2], strict=True))
    assert (found.correlation, found.slope) == (pytest.approx(0.5), pytest.approx(0.5))
    # x twice as wide: the correlation stays, and the slope is half of it.
    found = correlation(Layer.WIRE, zip([2, 4, 6], [1, 3, 2], strict=True))
    assert (found.correlation, found.slope) == (pytest.approx(0.5), pytest.approx(0.25))


def test_one_nanosecond_on_top_of_a_long_time_is_no_constant():
    base = 10**12
    x = [base] * 99 + [base + 1]
    found = correlation(Layer.WIRE, zip(x, [each * 2 for each in x], strict=True))
    assert not found.is_constant
    assert (found.correlation, found.slope) == (pytest.approx(1), pytest.approx(2))


@pytest.mark.parametrize("seed", range(5))
def test_correlation_and_slope_are_those_of_numpy(seed: int):
    random_ = np.random.default_rng(seed)
    x = random_.integers(0, 10**6, 50)
    y = x // 3 + random_.integers(0, 10**6, 50)
    found = correlation(Layer.WIRE, zip(map(int, x), map(int, y), strict=True))
    assert found.correlation == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert found.slope == pytest.approx(np.polyfit(x, y, 1)[0])


def test_with_too_few_frames_there_is_no_correlation(line3: Plan):
    (found,) = correlations(gather(torques(line3, range(FRAMES_MIN), lost=[2])))
    assert (found.frames, found.absent, found.layers) == (FRAMES_MIN - 1, 1, ())


def moving(totals_ns: Iterable[int], period_ns: int = MS) -> PathColumns:
    """Frames with such totals, one each period."""
    path = PathColumns("motion", "l1", 0)
    for seq, total_ns in enumerate(totals_ns):
        path.seqs.append(seq)
        path.planned_ns.append(T0 + seq * period_ns)
        path.total_ns.append(int(total_ns))
    return path


def drift_of(path: PathColumns) -> Drift:
    (found,) = drifts([path])
    return found


@pytest.mark.parametrize(("step_ns", "trend"), [(3, Trend.RISING), (-2, Trend.FALLING)])
def test_a_ramp_has_its_slope(step_ns: int, trend: Trend):
    found = drift_of(moving(30_000 + step_ns * seq for seq in range(1003)))
    assert found.slope_ns_per_s == pytest.approx(step_ns * 1_000)
    assert found.confidence_ns_per_s == pytest.approx(0, abs=1e-6)
    assert found.trend is trend
    assert found.moved_ns == pytest.approx(step_ns * 1003 * (BLOCKS - 1) / BLOCKS, rel=0.01)


def test_a_total_that_never_moves_is_steady():
    found = drift_of(moving([30_000] * 200))
    assert (found.slope_ns_per_s, found.moved_ns, found.trend) == (0, 0, Trend.STEADY)


@pytest.mark.parametrize("seed", range(4))
def test_a_ramp_under_noise_is_found_within_its_confidence(seed: int):
    noise = np.random.default_rng(seed)
    found = drift_of(moving(30_000 + seq + noise.integers(400) for seq in range(2_000)))
    assert found.slope_ns_per_s is not None
    assert found.confidence_ns_per_s is not None
    assert abs(found.slope_ns_per_s - 1_000) < found.confidence_ns_per_s
    assert found.trend is Trend.RISING


def test_noise_alone_is_called_a_trend_as_rarely_as_the_confidence_says():
    noise = np.random.default_rng(1)
    trends = [drift_of(moving(noise.integers(1_000) for _ in range(100))).trend for _ in range(400)]
    assert 8 <= sum(each is not Trend.STEADY for each in trends) <= 32  # 20 of 400 are 5 %


def test_frames_that_hang_together_do_not_make_a_trend_more_certain():
    """A level that changes every 50 frames is a few values, not 1,000: single frames would give
    a confidence that is far too good."""
    noise = np.random.default_rng(2)
    moved = 0
    for _ in range(100):
        levels = [noise.integers(1_000) for _ in range(20)]
        moved += drift_of(moving(level for level in levels for _ in range(50))).trend is not (
            Trend.STEADY
        )
    assert moved <= 12


def test_blocks_have_the_quartiles_of_numpy_and_each_frame_once():
    noise = np.random.default_rng(3)
    totals_ns = [noise.integers(10_000) for _ in range(107)]
    found = drift_of(moving(totals_ns))
    ends = list(itertools.accumulate(block.frames for block in found.blocks))
    assert (len(ends), ends[-1]) == (BLOCKS, 107)
    for block, end in zip(found.blocks, ends, strict=True):
        its = totals_ns[end - block.frames : end]
        assert block.begin_ns == T0 + (end - block.frames) * MS
        quartiles = block.first_quartile_ns, block.median_ns, block.third_quartile_ns
        assert quartiles == pytest.approx(tuple(np.quantile(its, [0.25, 0.5, 0.75])))
        assert block.mean_ns == pytest.approx(np.mean(its))


@pytest.mark.parametrize("path", [moving(range(19)), moving([30_000] * 40, period_ns=0)])
def test_what_is_too_short_for_a_trend_has_none(path: PathColumns):
    found = drift_of(path)
    assert (found.slope_ns_per_s, found.confidence_ns_per_s, found.moved_ns) == (None,) * 3
    assert (found.trend, found.blocks) == (None, ())
