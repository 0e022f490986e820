"""Talkers and frames that come and go."""

from __future__ import annotations

from collections.abc import Iterable

from cnc.mechanisms.terms import late_interference_ns
from cnc.planner.endless import BUSY
from cnc.planner.lateness.state import State
from cnc.planner.pauses import Behind, behind
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement
from cnc.planner.visits import sendings_of, visits_of


def resend(
    state: State, gone: Iterable[Member], come: Iterable[Placement], problem: Problem
) -> set[int]:
    """Let talkers send what they do now; the links at which frames may come later by that."""
    talkers: dict[int, None] = {}
    for member in gone:
        for link in state.sends[member]:
            state.drop(state.sent[link], member)
            talkers[link] = None
        state.drop(state.sends, member)
    for placement in come:
        member, links = placement.route.member, []
        for link, sending in sendings_of(problem, placement):
            state.put(state.sent[link], member, sending)
            talkers[link] = None
            links.append(link)
        state.put(state.sends, member, links)
    fed: set[int] = set()
    for link in talkers:
        fed |= _fall_behind(state, link)
    return fed


def _fall_behind(state: State, link: int) -> set[int]:
    sent = list(state.sent[link].values())
    if not sent:
        state.drop(state.behind, link)
        return set()
    its = behind(sent, late_interference_ns(state.intent, state.links[link]))
    if its is None:
        its = Behind(dict.fromkeys((each.traffic_class for each in sent), 0), 0)
        state.put(state.busy, link, None)
        state.put(state.why, link, BUSY)
    if its == state.behind.get(link):
        return set()
    state.put(state.behind, link, its)
    fed = set()
    for number in state.fed_by[link]:
        visit = state.visits[number]
        if visit.traffic_class not in its.late_ns:
            continue  # it is about to go
        visit = visit.behind(its)
        state.put(state.visits, number, visit)
        if visit.late_ns < state.late[number]:
            state.put(state.slack, visit.link, None)
        state.put(state.late, number, visit.late_ns)
        state.changed.add(visit.link)
        fed.add(visit.link)
        if link in state.busy:
            state.leave_out([visit.link])
    return fed


def leave(state: State, member: Member) -> None:
    for number in state.numbers[member]:
        visit = state.visits[number]
        state.drop(state.crossing[visit.link], number)
        if visit.from_talker is not None:
            state.drop(state.fed_by[visit.from_talker], number)
        state.drop(state.children, number)
        state.drop(state.late, number)
        state.drop(state.visits, number)
    state.drop(state.numbers, member)


def enter(state: State, problem: Problem, placement: Placement) -> None:
    numbers = []
    late_out: dict[int, None] = {}
    for visit in visits_of(problem, placement, state.behind, state.next):
        number = state.next
        state.next += 1
        numbers.append(number)
        state.put(state.visits, number, visit)
        state.put(state.late, number, visit.late_ns)
        state.put(state.crossing[visit.link], number, None)
        if visit.from_talker is not None:
            state.put(state.fed_by[visit.from_talker], number, None)
            is_late = visit.from_talker in state.busy
        else:
            is_late = state.is_left_out(state.visits[visit.parent or 0].link)
        if is_late:
            late_out[visit.link] = None
        if visit.parent is not None:
            siblings = state.children.get(visit.parent, [])
            state.put(state.children, visit.parent, [*siblings, number])
    state.put(state.numbers, placement.route.member, numbers)
    state.leave_out(late_out)
