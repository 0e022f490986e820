"""How late timers woke up: counts, maxima and quantiles of the last 24 hours, in little memory."""

import json
import random

import pytest

from agent.wake_ups import ENOUGH, HOURS, WakeUpRecord, WakeUps


def recorded(lateness_ns: list[int], hour: int = 0) -> WakeUpRecord:
    record = WakeUpRecord()
    for each_ns in lateness_ns:
        record.add(hour, each_ns)
    return record


def test_nothing_is_said_before_the_first_wake_up() -> None:
    assert WakeUpRecord().wake_ups(0) is None


def test_the_maximum_is_exact_and_few_wake_ups_are_not_enough_for_the_quantile() -> None:
    record = recorded([7, 123_457, 41])
    assert record.wake_ups(0) == WakeUps(count=3, maximum_ns=123_457, quantile_ns=None)


def test_of_100_000_wake_ups_the_quantile_leaves_out_the_latest_one() -> None:
    record = recorded([1_000] * (ENOUGH - 2) + [5_000, 90_000_000])
    wake_ups = record.wake_ups(0)
    assert wake_ups is not None
    assert wake_ups.maximum_ns == 90_000_000
    assert wake_ups.quantile_ns is not None
    assert 5_000 <= wake_ups.quantile_ns <= 5_000 * 9 // 8


def test_one_less_is_not_enough() -> None:
    wake_ups = recorded([1_000] * (ENOUGH - 1)).wake_ups(0)
    assert wake_ups is not None
    assert wake_ups.quantile_ns is None


def test_the_quantile_is_never_less_than_the_true_one_and_at_most_an_eighth_more() -> None:
    draw = random.Random(17)  # noqa: S311
    lateness_ns = [int(10 ** draw.uniform(0, 9)) for _ in range(ENOUGH)]
    true_ns = sorted(lateness_ns)[-2]
    wake_ups = recorded(lateness_ns).wake_ups(0)
    assert wake_ups is not None
    assert wake_ups.quantile_ns is not None
    assert true_ns <= wake_ups.quantile_ns <= true_ns * 9 // 8 + 1
    assert wake_ups.quantile_ns <= wake_ups.maximum_ns


def test_what_is_a_day_old_is_forgotten() -> None:
    record = recorded([50_000], hour=3)
    record.add(3 + HOURS - 1, 200)
    assert record.wake_ups(3 + HOURS - 1) == WakeUps(2, 50_000, None)
    assert record.wake_ups(3 + HOURS) == WakeUps(1, 200, None)
    assert record.wake_ups(3 + 3 * HOURS) is None


def test_a_timer_that_seems_early_is_on_time() -> None:
    assert recorded([-300]).wake_ups(0) == WakeUps(1, 0, None)


def test_a_day_of_any_lateness_takes_little_memory() -> None:
    draw = random.Random(18)  # noqa: S311
    record = WakeUpRecord()
    for hour in range(3 * HOURS):
        for _ in range(500):
            record.add(hour, int(10 ** draw.uniform(0, 10)))
    assert len(json.dumps(record.encode())) < 100_000


def test_a_record_outlives_a_restart() -> None:
    record = recorded([10, 20_000], hour=5)
    record.add(6, 300)
    kept = json.loads(json.dumps(record.encode()))
    assert WakeUpRecord.decode(kept).wake_ups(6) == record.wake_ups(6)


@pytest.mark.parametrize(
    "kept",
    [
        [],
        {"x": {"maximum-ns": 1, "buckets": {}}},
        {"1": {"buckets": {}}},
        {"1": {"maximum-ns": True, "buckets": {"1": 1}}},
        {"1": {"maximum-ns": 1, "buckets": {"1": -1}}},
        {"1": {"maximum-ns": 1, "buckets": []}},
    ],
)
def test_what_is_no_record_is_refused(kept: object) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        WakeUpRecord.decode(kept)  # type: ignore[arg-type]
