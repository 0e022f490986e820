"""What a plan that is held for changes does before the first of them, beside all that follow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from cnc.planner import Live, plan, timetable
from cnc.planner.circle import Circle
from cnc.planner.live import places
from cnc.planner.timetable import Timetable
from tests.unit.planner_networks import LINE, US, intent, stream

RUNNING = [stream(f"s{n}", "t", "l", period_ns=(500 + n % 2 * 500) * US) for n in range(6)]
MORE = [stream(f"more{n}", "t", "l", period_ns=1000 * US) for n in range(6)]


def test_a_prepared_plan_folds_no_reservations_for_the_first_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    class Counted(Circle):
        def __init__(self, length_ns: int, reservations: Any) -> None:
            super().__init__(length_ns, reservations)
            made.append(length_ns)

    live = Live(plan(intent(LINE, *RUNNING)))
    monkeypatch.setattr(timetable, "Circle", Counted)
    live.prepare()
    assert made
    made.clear()
    live.add(MORE[:1])
    assert not made


def test_changes_go_on_while_a_plan_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    running = plan(intent(LINE, *RUNNING))
    alone = Live(running)
    begun, changed = Event(), Event()

    def between(table: Timetable) -> Any:
        for number, resource in enumerate(timetable.Timetable.resources(table)):
            yield resource
            if number == 1:
                begun.set()
                assert changed.wait(20)

    class Slow(Timetable):
        def resources(self) -> Any:
            return between(self)

    monkeypatch.setattr(places, "Timetable", Slow)
    live = Live(running)
    with ThreadPoolExecutor(1) as pool:
        preparing = pool.submit(live.prepare)
        assert begun.wait(20)
        for each in MORE:
            assert live.add([each]) == alone.add([each])
        assert live.remove(["s1"]) == alone.remove(["s1"])
        changed.set()
        preparing.result(20)
    assert live.add([RUNNING[1]]) == alone.add([RUNNING[1]])
    assert live.plan == alone.plan
