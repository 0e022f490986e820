"""The pause of the garbage collector ends, whatever happens in it."""

from __future__ import annotations

import gc
import sys

import pytest

from cnc.check import judge
from cnc.planner import plan
from cnc.support import gc_pause
from tests.scale.mesh import mesh

STREAMS = 300
FEW = 50  # blocks of memory for each stream, which caches may still keep


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


def test_what_planning_and_judging_leave_is_freed_by_the_next_search() -> None:
    """Else a service that judges its plan again and again would grow each time."""
    wanted = mesh(STREAMS, 8)

    def allocated() -> int:
        judge(plan(wanted))
        gc.collect(0)
        return sys.getallocatedblocks()

    allocated()
    once = allocated()
    again = [allocated() for _ in range(3)]
    assert again[-1] - once < STREAMS * FEW
