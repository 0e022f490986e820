"""The rules of the planner once more, for tests: by looking at every repetition of every frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import gcd, lcm

from cnc.model import Plan, StreamPlan
from cnc.planner.algorithm import Result
from cnc.planner.gates import gate_control_lists
from cnc.planner.problem import Problem
from cnc.planner.route import Leg, Member, Placement


def meet(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    """Whether two reservations (start, duration, period) overlap in any of their periods."""
    (start, duration, period), (its_start, its_duration, its_period) = one, other
    common = lcm(period, its_period)
    for again in range(0, common, period):
        for its_again in range(0, common, its_period):
            after = (its_start + its_again - start - again) % common
            if after < duration or common - after < its_duration:
                return True
    return False


def is_near_cycle_end(leg: Leg, offset_ns: int, period_ns: int) -> bool:
    edges = ((offset_ns + length) % period_ns for length in (0, leg.gate_ns))
    return any(0 < min(edge, period_ns - edge) < leg.edge_min_ns for edge in edges)


def broken_alone(problem: Problem, placement: Placement) -> Iterable[str]:
    route, offsets, number = placement
    wanted = problem.stream(route.member)
    latest = wanted.period_ns - 1 if wanted.latest_ns is None else wanted.latest_ns
    for leg, offset in zip(route.legs, offsets, strict=True):
        if leg.parent is None and not wanted.earliest_ns <= offset <= latest:
            yield "talker window"
        if leg.parent is not None and offset < offsets[leg.parent] + leg.max_ns:
            yield "precedence"
        if is_near_cycle_end(leg, offset, route.period_ns):
            yield "edge"
    if route.latency_ns(offsets) > wanted.max_latency_ns:
        yield "latency"
    if number not in {problem.intent.classes[name].number for name in wanted.traffic_classes}:
        yield "class"


def reservations(placement: Placement) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Of links, as (link, -1), and of queues, as (link, class)."""
    route, offsets, number = placement
    found = {}
    for leg, offset in zip(route.legs, offsets, strict=True):
        found[leg.link, -1] = offset, leg.window_ns, route.period_ns
        if leg.parent is not None:
            earliest = offsets[leg.anchor] + leg.min_ns
            found[leg.link, number] = earliest, offset + leg.hold_ns - earliest, route.period_ns
    return found


def passage(placement: Placement, link: int) -> tuple[int, int, int]:
    """The link by which frames come that leave a bridge by `link`, and their offsets on both."""
    route, offsets, _ = placement
    index = route.tree.index(link)
    parent = route.legs[index].parent
    assert parent is not None, "no frame waits for a talker in a queue of a bridge"
    return route.legs[parent].link, offsets[parent], offsets[index]


def follow(one: Placement, other: Placement, link: int) -> bool:
    """Whether frames of both may lie together in a queue to `link`: they come by one link, leave in
    the order they came, and no port is relied on to hold either of them back."""
    if one.route.is_held or other.route.is_held:
        return False
    came_by, came, left = passage(one, link)
    its_came_by, its_came, its_left = passage(other, link)
    # Any two repetitions lie a multiple of this apart from the first two: none changes the order
    # if the same number of them fits between the frames before and after.
    apart = gcd(one.route.period_ns, other.route.period_ns)
    return came_by == its_came_by and (its_came - came) // apart == (its_left - left) // apart


def broken(problem: Problem, result: Result) -> list[str]:
    """The rules that placements break, alone or in pairs."""
    placements = result.placements
    found = [rule for p in placements.values() for rule in broken_alone(problem, p)]
    for placement in placements.values():
        for _, duration, period in reservations(placement).values():
            if duration > period:
                found.append("repetition")
    for one, other in combinations(placements.values(), 2):
        its = reservations(other)
        for resource, reservation in reservations(one).items():
            if resource not in its or not meet(reservation, its[resource]):
                continue
            link, queue = resource
            if queue < 0:
                found.append("link")
            elif not follow(one, other, link):
                found.append("queue")
        same_stream = one.route.member.stream == other.route.member.stream
        if same_stream and one.traffic_class != other.traffic_class:
            found.append("one class")
    return found


def judged(problem: Problem, result: Result) -> Plan:
    """The streams that a result places on all their paths, as a plan that the judge reads."""
    placed, streams = {}, {}
    for name, wanted in problem.intent.streams.items():
        members = [Member(name, path) for path in range(wanted.paths)]
        if not result.placements.keys() >= set(members):
            continue
        placements = [result.placements[member] for member in members]
        starts = [p.route.start_ns(p.offsets_ns) for p in placements]
        latencies = [p.route.latency_ns(p.offsets_ns) for p in placements]
        bound = max(map(sum, zip(starts, latencies, strict=True))) - min(starts)
        placed[name] = wanted
        streams[name] = StreamPlan(tuple(problem.hops(p) for p in placements), bound)
    used = (p for p in result.placements.values() if p.route.member.stream in placed)
    gates = gate_control_lists(problem, used).lists
    return Plan(replace(problem.intent, streams=placed), streams, gates, result.algorithm)
