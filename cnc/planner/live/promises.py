"""What a running plan promises of disturbances: no change may make frames late for longer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from threading import Lock

from cnc.errors import InputError
from cnc.model import GateControlList, Plan, PortRef
from cnc.planner.floor import us
from cnc.planner.lateness import Lateness, lateness
from cnc.planner.problem import Problem
from cnc.planner.route import Member, Placement

_NAMED_MAX = 3


class Promises:
    """The bounds of recovery that were announced, by stream in `recovery_ns`, and how late frames
    may be now that have windows of their own."""

    def __init__(
        self,
        plan: Plan,
        problem: Problem,
        placements: Collection[Placement],
        gates: Mapping[PortRef, GateControlList],
    ) -> None:
        """`gates` are what ports run at any time. Raises `InputError` where the plan promises what
        this planner finds no reason for.

        How late frames may be in a large network takes seconds to find. Where nothing is promised
        it is asked for by the first change alone, or `prepare`."""
        self.recovery_ns = dict(plan.recovery_ns)
        self._required = plan.intent.network.recovery_required
        self._links = problem.links
        self._gates = gates
        self._begun = problem, tuple(placements), dict(gates)
        self._found: Lateness | None = None
        self._finding = Lock()
        found = self._lateness.bounds_ns() if self.recovery_ns else {}
        broken = [name for name, ns in self.recovery_ns.items() if found.get(name, ns + 1) > ns]
        if broken:
            raise InputError(
                f"the plan of {plan.intent.name} promises more of disturbances than this planner "
                f"can account for: {_named(broken)}",
                hint="make a new plan (`cnc plan`)",
            )

    def prepare(self) -> None:
        """Find how late frames may be, once. From any thread, also beside a change, which waits for
        it then."""
        with self._finding:
            if self._found is None:
                found = lateness(*self._begun)
                found.gates = self._gates
                self._found = found
                del self._begun

    @property
    def _lateness(self) -> Lateness:
        if self._found is None:
            self.prepare()
        assert self._found is not None  # noqa: S101  what `prepare` is for
        return self._found

    def change(
        self,
        gone: Iterable[Member],
        come: Collection[Placement],
        problem: Problem,
        links: Collection[int],
    ) -> dict[str, str]:
        """Account for a change; returns where it would break a promise, and how. Then, and where
        something else does not go, `take_back` does so; else `settle` makes it final."""
        its = self._lateness
        its.keep()
        gone = list(gone)
        its.change(gone, come, problem, links)
        names = {member.stream for member in gone}
        broken = self._broken(names)
        if broken and its.has_slack:
            its.relax()
            broken = self._broken(names)
        return broken or self._refused(come)

    def take_back(self) -> None:
        """Be as before `change`."""
        self._lateness.back()

    def bounds_ns(self, come: Iterable[Placement]) -> dict[str, int]:
        """What streams that come can be promised; those of which there is a bound."""
        members: dict[str, list[Member]] = {}
        for placement in come:
            members.setdefault(placement.route.member.stream, []).append(placement.route.member)
        found = {name: self._lateness.bound_ns(its) for name, its in members.items()}
        return {name: ns for name, ns in found.items() if ns is not None}

    def settle(self, gone: Iterable[str], recovery_ns: Mapping[str, int]) -> None:
        """Make a change final, and promise this of streams that come."""
        self._lateness.done()
        for name in gone:
            self.recovery_ns.pop(name, None)
        self.recovery_ns |= recovery_ns

    def broken_for(self, moved: Collection[str], recovery_ns: Mapping[str, int]) -> dict[str, str]:
        """The promises to streams that move which their new places would not keep."""
        return {
            name: "could be late for longer after a disturbance where it would move"
            for name in sorted(moved)
            if name in self.recovery_ns
            and recovery_ns.get(name, self.recovery_ns[name] + 1) > self.recovery_ns[name]
        }

    def _broken(self, gone: Collection[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for link, now_ns, names in self._lateness.raised():
            for name in names:
                promised = self.recovery_ns.get(name)
                if promised is None or name in gone or (now_ns is not None and now_ns <= promised):
                    continue
                now = f"late for {us(now_ns)}" if now_ns is not None else "late without an end"
                found[f"port {self._links[link].source}"] = (
                    f"after a disturbance frames of {name} could be {now} there; "
                    f"{us(promised)} is what it was promised. What would help: a longer period "
                    "or a smaller payload of what is new, or a plan with more room (`cnc plan`)"
                )
                break
        return found

    def _refused(self, come: Collection[Placement]) -> dict[str, str]:
        """Why streams that come have no bound, where each must have one."""
        if not self._required:
            return {}
        its = self._lateness
        return {
            placement.route.member.stream: its.why_not(placement.route.member)
            for placement in come
            if its.bound_ns([placement.route.member]) is None
        }


def _named(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_NAMED_MAX])
    more = len(names) - _NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown
