"""The pause of the garbage collector ends, whatever happens in it."""

from __future__ import annotations

import gc

import pytest

from cnc import intent as intents
from cnc.check import judge
from cnc.planner import plan
from cnc.support import gc_pause
from tests.shared_windows import networks


def test_the_collector_rests_inside_and_runs_again_after_an_error() -> None:
    @gc_pause.paused()
    def fail() -> None:
        assert not gc.isenabled()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert gc.isenabled()


def test_who_switched_the_collector_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with gc_pause.paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_pause_within_a_pause_does_not_end_it() -> None:
    with gc_pause.paused():
        with gc_pause.paused():
            pass
        assert not gc.isenabled()


def test_what_is_to_stay_is_not_searched_when_its_pause_ends() -> None:
    with gc_pause.staying():
        kept = [[number] for number in range(10_000)]
    assert gc.isenabled()
    assert not any(its is kept for its in gc.get_objects(generation=0))
    assert any(its is kept for its in gc.get_objects(generation=2))


@pytest.mark.parametrize("recovery", ["none", "100us"])
@pytest.mark.parametrize("windows", ["exact", "shared"])
def test_planning_and_judging_leave_no_objects_that_hold_each_other(
    windows: str, recovery: str
) -> None:
    defaults = {"windows": windows, "gate-margin": "0us", "recovery": recovery}
    document = networks.loaded(networks.ring(5), load_percent=3, **defaults)
    wanted = intents.from_document(document, "net.yaml")
    with gc_pause.paused():
        gc.collect()
        judge(plan(wanted, best_effort=True))
        assert gc.collect() == 0
