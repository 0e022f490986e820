"""Latent error detection: when it is told that copies do not come by all paths, and when not."""

from __future__ import annotations

import pytest

from agent.events import LatentError, LatentErrorEnded
from agent.mechanisms.frer.latent_errors import Copies, LatentErrorDetector, Watched
from agent.mechanisms.frer.model import LatentErrorDetection, LatentErrors
from agent.model import NS_PER_MS

ENTRY = 4
OF_TWO = LatentErrorDetection(difference=5, period_ms=100, paths=2, reset_period_ms=1000)


class Function:
    """A recovery function that is looked at each period; by the first port each frame passes."""

    def __init__(self, detection: LatentErrorDetection = OF_TWO) -> None:
        self.detector, self.detection = LatentErrorDetector(), detection
        self.copies = [0] * detection.paths
        self.time_ms = 0
        assert self.look() == []

    def look(self) -> list[object]:
        passed = max(self.copies)
        ports = {
            f"p{index}": Copies(passed if index == 1 else 0, count - (passed if index == 1 else 0))
            for index, count in enumerate(self.copies, 1)
        }
        watched = {ENTRY: Watched(self.detection, ports)}
        return list(self.detector.look(watched, self.time_ms * NS_PER_MS))

    def after(self, *copies: int, periods: int = 1) -> list[object]:
        """What is told while each period brings so many copies by each port."""
        told: list[object] = []
        for _ in range(periods):
            self.time_ms += self.detection.period_ms
            self.copies = [had + new for had, new in zip(self.copies, copies, strict=True)]
            told += self.look()
        return told

    @property
    def found(self) -> LatentErrors:
        return self.detector.found[ENTRY]


def test_as_many_copies_by_each_path_are_no_error():
    function = Function()
    assert function.after(10, 10, periods=30) == []
    assert function.found == LatentErrors(resets=4)


def test_one_path_without_copies_is_told_once_with_what_came_by_each():
    function = Function()
    assert function.after(10, 10, periods=3) == []
    assert function.after(10, 0) == [LatentError(ENTRY, 10, {"p1": 10, "p2": 0})]
    assert function.after(10, 0, periods=30) == []
    assert function.found.detected


def test_of_three_paths_one_without_copies_is_an_error():
    function = Function(LatentErrorDetection(5, 100, paths=3, reset_period_ms=1000))
    assert function.after(10, 10, 10, periods=5) == []
    (told,) = function.after(10, 10, 0)
    assert told == LatentError(ENTRY, 10, {"p1": 10, "p2": 10, "p3": 0})


def test_copies_that_are_missing_now_and_then_add_up_until_the_reset():
    function = Function()
    assert function.after(1, 0, periods=5) == []
    (told,) = function.after(1, 0)
    assert isinstance(told, LatentError)
    assert told.difference == 6


def test_a_frame_that_is_repeated_for_ever_is_an_error_too():
    """Its copies are discarded beyond those that were to be expected."""
    detector = LatentErrorDetector()
    for time_ms, discarded in ((0, 0), (100, 4)):
        copies = {"p1": Copies(0, discarded)}
        assert list(detector.look({ENTRY: Watched(OF_TWO, copies)}, time_ms * NS_PER_MS)) == []
    copies = {"p1": Copies(0, 8)}
    (told,) = detector.look({ENTRY: Watched(OF_TWO, copies)}, 200 * NS_PER_MS)
    assert told == LatentError(ENTRY, 8, {"p1": 4})


def test_an_error_ends_after_a_reset_period_without_one():
    function = Function()
    function.after(10, 0)
    assert function.after(10, 10, periods=18) == []
    assert function.found.detected
    assert function.after(10, 10) == [LatentErrorEnded(ENTRY)]
    assert function.after(10, 10, periods=30) == []
    assert not function.found.detected


def test_a_path_that_stays_silent_is_no_end_at_a_reset():
    function = Function()
    function.after(1, 0, periods=6)
    assert function.after(1, 0, periods=100) == []


def test_counters_that_begin_anew_are_no_error():
    function = Function()
    for _ in range(2):  # in each reset period five copies are missing, which is no error
        assert function.after(10, 9, periods=5) + function.after(10, 10, periods=5) == []
    function.copies = [0, 0]
    assert function.look() == []
    assert function.after(3, 3, periods=3) == []
    assert function.found.errors == 0


def test_other_parameters_begin_anew():
    function = Function()
    function.after(10, 0)
    function.detection = LatentErrorDetection(50, 100, 2, 1000)
    assert function.look() == []
    assert function.found == LatentErrors(resets=1)
    assert function.after(10, 0, periods=5) == []


def test_a_function_that_is_gone_is_forgotten():
    function = Function()
    assert list(function.detector.look({}, 0)) == []
    assert function.detector.found == {}
    assert function.detector.next_ns is None


@pytest.mark.parametrize("late_ms", [0, 30, 250])
def test_the_next_test_is_due_at_a_multiple_of_the_period(late_ms):
    function = Function()
    function.time_ms = 100 + late_ms
    function.look()
    due_ms = 200 + late_ms // 100 * 100
    assert function.detector.next_ns == due_ms * NS_PER_MS
