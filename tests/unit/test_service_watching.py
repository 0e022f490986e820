"""The watch inside of the service: which plan it follows while others are pushed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cnc.errors import RolloutError
from cnc.service import watching
from cnc.service.roller import Push, Rolled
from cnc.service.watching import Watching
from cnc.watch.condition import Event, Note, What

WITHIN_S = 20


class FakeWatcher:
    """Notes what it is told. To take up the plan `second` it waits for `ready`."""

    def __init__(self, plan: Any) -> None:
        self.followed, self.holds, self.judges = [plan], 0, True
        self.following, self.ready, self.third = (threading.Event() for _ in range(3))
        self._stopped = threading.Event()

    def hold(self) -> int:
        self.holds, self.judges = self.holds + 1, False
        return self.holds

    def release(self, held: int) -> None:
        self.judges = self.judges or held == self.holds

    def follow(self, plan: Any, held: int) -> None:
        if plan == "second":
            self.following.set()
            assert self.ready.wait(WITHIN_S)
        self.followed.append(plan)
        if plan == "third":
            self.third.set()
        self.release(held)

    def run(self, **_: object) -> None:
        self._stopped.wait(WITHIN_S)

    def stop(self) -> None:
        self._stopped.set()


class Nobody:
    """No switch is met that does not know the term."""

    def around(self, push: Push) -> Push:
        return push


class Watched:
    """A watch whose watcher is at hand, and that waits no time for quiet."""

    def __init__(self) -> None:
        self.made: list[FakeWatcher] = []
        self.watch = Watching(self._make)

    def _make(self, plan: Any, tell: Callable[[Event], None]) -> Any:
        self.tell = tell
        self.made.append(FakeWatcher(plan))
        return self.made[-1]

    @property
    def its(self) -> FakeWatcher:
        return self.made[-1]

    def push(self, plan: Any, meanwhile: Callable[[], object] = lambda: None) -> None:
        def push(_: Any) -> Rolled:
            meanwhile()
            return Rolled(1)

        self.watch.around(push, Nobody())(plan)  # type: ignore[arg-type]

    def until(self, condition: Callable[[], object]) -> None:
        for _ in range(WITHIN_S * 100):
            if condition():
                return
            threading.Event().wait(0.01)
        raise AssertionError("nothing came of it")


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(watching, "_QUIET_S", 0.0)
    its = Watched()
    its.watch.runs("first")  # type: ignore[arg-type]
    its.until(lambda: its.watch._watcher)
    yield its
    its.watch.close()


def test_what_switches_run_is_followed_and_judged(watched: Watched) -> None:
    watched.its.ready.set()
    watched.push("second")
    assert not watched.its.judges
    watched.watch.runs("second")  # type: ignore[arg-type]
    watched.until(lambda: watched.its.judges)
    assert watched.its.followed[-1] == "second"
    assert len(watched.made) == 1


def test_momentary_events_are_kept_for_the_page_the_newest_first(watched: Watched) -> None:
    def event(what: What, number: int) -> Event:
        return Event(what, Note.CLOCK_STEP, "s1", "", str(number), datetime.now(UTC))

    watched.tell(event(What.BEGAN, 0))
    for number in range(1, 1000):
        watched.tell(event(What.NOTED, number))
    notices = [int(each.text) for each in watched.watch.notices()]
    assert notices == list(range(999, 999 - len(notices), -1))
    assert 100 <= len(notices) < 999


def test_a_push_that_comes_while_the_last_plan_is_taken_up_is_not_held_against_switches(
    watched: Watched,
) -> None:
    its = watched.its
    watched.push("second")
    watched.watch.runs("second")  # type: ignore[arg-type]
    assert its.following.wait(WITHIN_S)

    def meanwhile() -> None:
        its.ready.set()
        watched.until(lambda: its.followed[-1] == "second")
        assert not its.judges

    watched.push("third", meanwhile)
    assert not its.judges
    watched.watch.runs("third")  # type: ignore[arg-type]
    watched.until(lambda: its.judges)
    assert its.followed[-1] == "third"


def test_a_plan_that_was_taken_up_late_is_not_followed_in_the_place_of_its_successor(
    watched: Watched,
) -> None:
    its = watched.its
    watched.push("second")
    watched.watch.runs("second")  # type: ignore[arg-type]
    assert its.following.wait(WITHIN_S)
    watched.push("third")
    watched.watch.runs("third")  # type: ignore[arg-type]
    its.third.wait(0.2)  # in vain, unless it overtakes
    its.ready.set()
    watched.until(lambda: its.judges and len(its.followed) == 3)
    assert its.followed == ["first", "second", "third"]


def test_after_a_push_that_failed_what_runs_is_judged_again(watched: Watched) -> None:
    watched.its.ready.set()
    watched.push("second")
    watched.watch.runs("second")  # type: ignore[arg-type]

    def fails() -> None:
        raise RolloutError("s1: does not answer")

    with pytest.raises(RolloutError):
        watched.push("third", fails)
    watched.until(lambda: watched.its.judges)
    assert watched.its.followed[-1] == "second"
