"""Which of several controllers leads: by clocks of their own, stopped at any point."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cnc.errors import RolloutError
from cnc.model import NS_PER_S
from cnc.service.lease import Keeper
from cnc.service.lease.member import NOBODY, RATE_PARTS, Lease, Member
from cnc.service.refused import CallRefused
from cnc.service.store.database import Database

LENGTH_NS = 10_000
FIRST = Lease("a", 1, 1, LENGTH_NS, "https://a:8443", "PEM of a")


def test_a_lease_counts_from_before_it_was_asked_for():
    member = Member("a")
    member.holds(FIRST, asked_ns=100, now_ns=5_000)
    assert member.held(99 + LENGTH_NS).term == 1
    assert member.held(100 + LENGTH_NS) is None


def test_a_standby_counts_from_when_it_saw_the_row_change_last():
    member = Member("b")
    member.saw(FIRST, 1_000)
    member.saw(FIRST, 9_000)
    over_ns = 1_000 + LENGTH_NS + LENGTH_NS // RATE_PARTS
    assert not member.may_take(over_ns - 1)
    assert member.may_take(over_ns)
    member.saw(replace(FIRST, counter=2), over_ns)
    assert not member.may_take(over_ns)


def test_before_it_has_looked_a_controller_takes_nothing():
    member = Member("b")
    assert not member.may_take(10**12)
    member.saw(None, 0)
    assert member.may_take(0)


def test_a_lease_that_was_given_back_is_taken_at_once():
    member = Member("b")
    member.saw(replace(FIRST, holder=NOBODY), 0)
    assert member.may_take(0)


def test_a_lease_that_is_over_is_renewed_in_its_term_unless_another_has_it():
    member = Member("a")
    member.holds(FIRST, 0, 10)
    late_ns = 5 * LENGTH_NS
    assert (member.held(late_ns), member.own_term, member.may_take(late_ns)) == (None, 1, False)
    member.holds(replace(FIRST, counter=2), late_ns, late_ns + 1)
    assert member.held(late_ns + 2).term == 1
    member.saw(replace(FIRST, holder="b", term=2, counter=3), late_ns + 3)
    assert (member.held(late_ns + 4), member.own_term) == (None, None)


# --- two controllers, stopped and continued at any point -----------------------------------------


class Row:
    """The row, and what is decided on the condition of its term."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.taken: list[tuple[float, int]] = []
        self.decisions: list[tuple[int, str]] = []

    def take(self, name: str, seen: Lease | None, now: float) -> bool:
        if self.lease != seen:
            return False
        term, counter = (seen.term, seen.counter) if seen else (0, 0)
        self.lease = Lease(name, term + 1, counter + 1, LENGTH_NS, "", "")
        self.taken.append((now, term + 1))
        return True

    def renew(self, name: str, term: int) -> bool:
        its = self.lease
        if its is None or (its.holder, its.term) != (name, term):
            return False
        self.lease = replace(its, counter=its.counter + 1)
        return True

    def decide(self, name: str, term: int) -> None:
        if self.lease and self.lease.term == term:
            self.decisions.append((term, name))


class Switch:
    """Applies what comes until its instant, of no lower term than it has met; its clock is the time
    of the test, to which a controller's is converted as a rollout does."""

    def __init__(self) -> None:
        self.term = 0
        self.applied: list[tuple[float, int]] = []

    def commit(self, now: float, before: float, term: int) -> None:
        if now < before and term >= self.term:
            self.applied.append((now, term))


@dataclass
class Clock:
    """A controller's CLOCK_BOOTTIME: begun at any time, fast or slow by half a part."""

    offset_ns: int
    rate: float

    def at(self, now: float) -> int:
        return int(self.offset_ns + now * self.rate)

    def remaining(self, now: float, until_ns: int) -> float:
        return (until_ns - self.at(now)) / self.rate


def controller(name, clock, database, switch, now):
    """A controller's life; at each `yield` it may be stopped for any time. `now` says the time."""
    member = Member(name)
    while True:
        asked_ns, is_own = clock.at(now()), False
        yield
        if (term := member.own_term) is not None:
            is_own = database.renew(name, term)
        elif member.may_take(asked_ns):
            is_own = database.take(name, member.lease, now())
        lease = database.lease
        is_lost = yield
        if is_lost:
            continue  # what the database has answered has not come
        if is_own:
            member.holds(lease, asked_ns, clock.at(now()))
        else:
            member.saw(lease, clock.at(now()))
        if held := member.held(clock.at(now())):
            yield
            database.decide(name, held.term)
            yield
            # The switch's time is read before the lease, as `roll_out` does.
            instant = now()
            yield
            before = instant + clock.remaining(now(), held.until_ns)
            yield
            switch.commit(now(), before, held.term)
        yield


# Who goes on for how many steps while the other is stopped, and how long each takes.
RUNS = st.lists(
    st.tuples(
        st.booleans(), st.integers(1, 25), st.integers(1, LENGTH_NS // 5), st.integers(0, 99)
    ),
    min_size=10,
    max_size=40,
)
CLOCKS = st.builds(
    Clock, st.integers(0, 10**6), st.floats(1 - 0.49 / RATE_PARTS, 1 + 0.49 / RATE_PARTS)
)


@settings(max_examples=50)
@given(clocks=st.tuples(CLOCKS, CLOCKS), runs=RUNS)
def test_whenever_two_are_stopped_one_decides_in_a_term_and_nothing_is_applied_after_its_lease(
    clocks, runs
):
    database, switch, time = Row(), Switch(), [0.0]
    lives = [
        controller(name, clock, database, switch, lambda: time[0])
        for name, clock in zip("ab", clocks, strict=True)
    ]
    for each in lives:
        next(each)
    for which, count, pause, lost in runs:
        for step in range(count):
            time[0] += pause
            lives[which].send(step == lost)
    terms = [term for term, _ in database.decisions]
    assert terms == sorted(terms)
    assert len({*database.decisions}) == len({*terms})
    for at, term in switch.applied:
        assert all(at <= begun for begun, other in database.taken if other > term)


# --- the keeper, on a real database --------------------------------------------------------------


class Controllers:
    """Two keepers on one database, with a clock that the test sets."""

    def __init__(self, path: Path) -> None:
        self.now_ns = 0
        self.path = path
        self.a, self.b = self.keeper("a"), self.keeper("b")

    def keeper(self, name: str) -> Keeper:
        return Keeper(
            Database(self.path),
            "cell",
            name=name,
            url=f"https://{name}:8443",
            certificate="PEM",
            length_ns=LENGTH_NS,
            clock_ns=lambda: self.now_ns,
        )

    def decides(self, keeper: Keeper) -> bool:
        database = Database(self.path)
        try:
            with database.writing() as connection:
                keeper.fence(connection)
        except CallRefused:
            return False
        return True


@pytest.fixture
def two(tmp_path):
    return Controllers(tmp_path / "service.sqlite")


def test_of_two_that_take_a_lease_at_once_one_has_it(two):
    two.a.step()
    two.b.step()
    assert two.a.take(1)
    assert not two.b.take(1)
    assert (two.decides(two.a), two.decides(two.b)) == (True, False)
    assert two.b.leader().url == "https://a:8443"
    assert two.a.leader() is None


def test_a_leader_that_was_stopped_decides_nothing_though_it_has_not_looked_since(two):
    two.a.step()
    assert two.a.take(1)
    two.b.step()
    two.now_ns += 2 * LENGTH_NS
    assert two.b.take(2)
    two.now_ns = 1  # the stopped one believes that no time has passed
    assert two.a.held()
    assert not two.decides(two.a)
    two.a.step()
    assert (two.a.held(), two.a.own_term, two.a.leader().holder) == (None, None, "b")


def test_a_lease_that_is_over_decides_nothing_until_it_is_renewed(two):
    two.a.step()
    two.a.take(1)
    two.now_ns += LENGTH_NS
    assert not two.decides(two.a)
    two.a.step()
    assert two.decides(two.a)
    assert two.a.held().term == 1


def test_switches_are_told_to_apply_until_the_end_of_the_lease_which_is_renewed_if_need_be(two):
    two.a.step()
    two.a.take(1)
    two.now_ns += LENGTH_NS // 2
    assert two.a.within(100) == LENGTH_NS // 2
    assert two.a.within(LENGTH_NS * 3 // 4) == LENGTH_NS
    assert two.a.within(5 * LENGTH_NS) == LENGTH_NS


def test_by_a_lease_that_another_has_taken_nothing_is_sent(two):
    two.a.step()
    two.a.take(1)
    two.b.step()
    two.now_ns += 2 * LENGTH_NS
    two.b.take(2)
    with pytest.raises(RolloutError, match="another may lead the network by now"):
        two.a.within(1)


def test_who_ends_gives_the_lease_back(two):
    two.a.step()
    two.a.take(1)
    two.b.step()
    assert not two.b.may_take()
    two.a.close()
    two.b.step()
    assert two.b.may_take()
    assert two.b.leader() is None
    assert two.b.take(2)


def test_who_ends_gives_nothing_back_that_another_has(two):
    two.a.step()
    two.a.take(1)
    two.b.step()
    two.now_ns += 2 * LENGTH_NS
    two.b.take(2)
    two.a.close()
    assert two.decides(two.b)


def test_a_change_of_who_leads_is_told(tmp_path):
    database, told = Database(tmp_path / "service.sqlite"), threading.Event()
    keeper = Keeper(database, "cell", name="a", url="", certificate="", length_ns=NS_PER_S)
    keeper.start(told.set)
    assert told.wait(10)
    assert keeper.may_take()
    told.clear()
    assert keeper.take(1)
    assert told.wait(10)
    keeper.close()
