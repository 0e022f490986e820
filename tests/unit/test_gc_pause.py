"""The pause of the garbage collector ends, whatever happens in it."""

from __future__ import annotations

import gc

import pytest

from cnc.support import gc_pause


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
