"""One plan, all switches, or none.

    connect ─► preflight ─► lock ─► compare ─► [journal] ─► stage ─► commit ─► read back
            ─► [decision] ─► confirm ─► startup ─► unlock

Every step runs on all switches in parallel and ends before the next begins. What happens when one
fails is `transaction`'s business; what is left when a controller dies is `recovery`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cnc.errors import RolloutError
from cnc.format import counted
from cnc.model import NS_PER_S, Bridge, GateControlList, Plan, PortConfiguration, PortRef
from cnc.rollout.compare import needs_change
from cnc.rollout.history import History, SwitchChange
from cnc.rollout.parallel import before_any_change, unanimous
from cnc.rollout.preflight import examine, refuse
from cnc.rollout.sessions import Sessions, sessions
from cnc.rollout.timing import base_time_ns, margin_ns
from cnc.rollout.transaction import Progress, SwitchWork, Transaction
from cnc.switch.device import (
    ConnectOptions,
    Device,
    DeviceError,
    Managed,
    StoredSwitch,
    SwitchState,
)
from cnc.switch.mark import Mark
from cnc.switch.payload import desired_ports


@dataclass(frozen=True, slots=True)
class PortChange:
    """What a push changes on one port; None stands for no gates."""

    port: PortRef
    before: GateControlList | None
    after: GateControlList | None
    why: str


@dataclass(frozen=True, slots=True)
class SwitchTimes:
    """Where the time of a push went on one switch, in nanoseconds.

    `netconf_ns` holds every RPC from edit-config to the confirming commit without `apply_ns`, the
    agent's own time from the configuration to the kernel.
    """

    payload_ns: int
    netconf_ns: int
    apply_ns: int


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a push: what changed, from which TAI instant, and what it cost.

    `number` is the rollout's in the history; None where nothing was to change.
    """

    changes: tuple[PortChange, ...]
    number: int | None
    base_time_ns: int | None
    times: Mapping[str, SwitchTimes]
    total_ns: int


@dataclass(frozen=True, slots=True)
class Goal:
    """What the switches are to run, and why: a plan's lists, or those of a former rollout.

    `ports` has every port that the goal says something of; None: no gates. `clock_error_ns` is how
    far two clocks may be apart. `plan` is kept in the history where there is one.
    """

    network: str
    switches: tuple[Bridge | Managed, ...]
    ports: Mapping[str, Mapping[str, PortConfiguration | None]]
    clock_error_ns: int
    what: str
    plan: Plan | None = None

    @classmethod
    def of(cls, plan: Plan, what: str = "push") -> Goal:
        network = plan.intent.network
        return cls(
            network=plan.intent.name,
            switches=tuple(network.bridges.values()),
            ports={name: desired_ports(plan, name) for name in network.bridges},
            clock_error_ns=network.clock_error_ns,
            what=what,
            plan=plan,
        )

    def cycles_ns(self) -> set[int]:
        """The cycles of all lists, those that run already too."""
        return {
            wanted.gates.cycle_ns
            for its in self.ports.values()
            for wanted in its.values()
            if wanted
        }


def roll_out(
    goal: Goal,
    *,
    connect: ConnectOptions,
    history: History | None,
    dry_run: bool = False,
    take_over: bool = False,
    progress: Progress = lambda _: None,
) -> Report:
    """Bring all switches to `goal` as one change.

    `dry_run` stops after the comparison. Without a `history` nothing is remembered of it, and
    rollouts of other controllers are overwritten; with one they are refused, unless `take_over`.

    Raises RolloutError when a switch refuses: then no switch has changed, or the error says loudly
    which has.
    """
    begun_ns = time.monotonic_ns()
    with ExitStack() as stack:
        with before_any_change():
            progress(f"connecting to {counted(len(goal.switches), 'switch')}")
            open_sessions = stack.enter_context(sessions(goal.switches, connect))
            open_sessions.open()
            found = _Found(goal, open_sessions)
            progress("reading what the switches run")
            found.preflight()
            if not dry_run:
                progress("locking")
                stack.enter_context(_locked(open_sessions))
            found.compare()
            if history and not dry_run and not take_over:
                found.refuse_foreign(history)
        if dry_run or not found.reasons:
            spent_ns = time.monotonic_ns() - begun_ns
            return Report(tuple(found.changes()), None, None, {}, spent_ns)
        kept = history or stack.enter_context(History(None))
        return found.change(kept, progress, begun_ns)


class _Found:
    """What the switches have and run, against what they are to run."""

    def __init__(self, goal: Goal, open_sessions: Sessions) -> None:
        self._goal = goal
        self._sessions = open_sessions
        self._states: Mapping[str, SwitchState] = {}
        self._stored: Mapping[str, StoredSwitch] = {}
        self.reasons: dict[str, dict[str, str]] = {}

    def preflight(self) -> None:
        """Read every switch; refuse when an agent, a port or a clock is not as it must be."""
        self._states = self._sessions.ask(
            self._sessions, lambda device: device.state(self._goal.ports[device.name])
        )
        refuse(
            examine(
                self._goal.ports,
                self._states,
                clock_error_ns=self._goal.clock_error_ns,
                network=self._goal.plan.intent.network if self._goal.plan else None,
            )
        )

    def compare(self) -> None:
        """Find the ports that do not have, or do not run, what is wanted."""
        self._stored = self._sessions.ask(
            self._sessions, lambda device: device.stored(self._goal.ports[device.name])
        )
        for name, ports in self._goal.ports.items():
            reasons = {
                port: why
                for port, wanted in ports.items()
                if (
                    why := needs_change(
                        wanted,
                        self._stored[name].ports.get(port),
                        self._states[name].ports.get(port),
                    )
                )
            }
            if reasons:
                self.reasons[name] = reasons

    def refuse_foreign(self, history: History) -> None:
        """Raise RolloutError when a switch that is to change runs what another controller gave."""
        foreign = {
            name: mark
            for name in self.reasons
            if (mark := self._stored[name].mark) and not history.knows(mark.id)
        }
        if foreign:
            raise RolloutError(
                "\n".join(
                    f"{name}: runs a rollout that the history here does not know: {mark.id} of "
                    f"{mark.controller}, {mark.time}"
                    for name, mark in sorted(foreign.items())
                ),
                hint="two controllers on one network undo each other's work; `--take-over` if this "
                "one is to rule from now on",
            )

    def changes(self) -> Iterator[PortChange]:
        """The ports that change, in order."""
        for name, reasons in sorted(self.reasons.items()):
            for port, why in sorted(reasons.items()):
                stored = self._stored[name].ports.get(port)
                before = stored.configuration.gates if stored and stored.configuration else None
                wanted = self._goal.ports[name][port]
                yield PortChange(PortRef(name, port), before, wanted.gates if wanted else None, why)

    def change(self, history: History, progress: Progress, begun_ns: int) -> Report:
        """Make the change, with a journal of it in the history."""
        mark = Mark.of_this_controller()
        slowest_ns = max(s.answered_ns - s.asked_ns for s in self._states.values())
        with before_any_change():
            now_ns = self._now_tai_ns()
            start_ns = base_time_ns(now_ns, slowest_ns, self._goal.cycles_ns())
            self._refuse_past(start_ns)
            # No confirm window reaches beyond the base time, by whichever clock.
            lasts_s = (start_ns - now_ns + margin_ns(slowest_ns)) / NS_PER_S
            journal = history.begin(
                id=mark.id,
                network=self._goal.network,
                operator=mark.controller,
                what=self._goal.what,
                plan=self._goal.plan,
                base_time_ns=start_ns,
                confirm_by=datetime.now(UTC) + timedelta(seconds=lasts_s),
                switches=self._switch_changes(),
            )
        transaction = Transaction(
            self._sessions,
            {name: self._work_on(name) for name in self.reasons},
            journal,
            mark=mark,
            base_time_ns=start_ns,
            margin_ns=margin_ns(slowest_ns),
            now_tai_ns=self._now_tai_ns,
            progress=progress,
        )
        transaction.run()
        return Report(
            changes=tuple(self.changes()),
            number=journal.number,
            base_time_ns=start_ns,
            times={
                name: SwitchTimes(spent.payload_ns, spent.netconf_ns, spent.apply_ns)
                for name, spent in transaction.spent.items()
            },
            total_ns=time.monotonic_ns() - begun_ns,
        )

    def _work_on(self, name: str) -> SwitchWork:
        return SwitchWork(
            stored=self._stored[name].ports,
            wanted={port: self._goal.ports[name][port] for port in self.reasons[name]},
            before=self._states[name],
        )

    def _switch_changes(self) -> dict[str, SwitchChange]:
        managed = {switch.name: switch.management for switch in self._goal.switches}
        return {
            name: SwitchChange(
                management=where,
                before={port: self._stored[name].ports.get(port) for port in reasons},
                after={port: self._goal.ports[name][port] for port in reasons},
            )
            for name, reasons in self.reasons.items()
            if (where := managed[name]) is not None
        }

    def _refuse_past(self, start_ns: int) -> None:
        """Raise RolloutError where a base time would have passed by TAI as it is known here.

        A clock that is certain to be TAI needs no such check, and is better than this machine's.
        """
        for name, state in self._states.items():
            if state.is_tai_certain:
                continue
            offset_s = (state.agent.tai_offset_s or 0) if state.agent else 0
            late_ns = time.time_ns() + offset_s * NS_PER_S - start_ns
            if late_ns >= 0:
                raise RolloutError(
                    f"{name}: by the time it reports, the base time would have been "
                    f"{late_ns / NS_PER_S:.3f} s ago (TAI here is UTC and its TAI offset of "
                    f"{offset_s} s); its lists run on other clocks than TAI, of which agents up to "
                    "0.1.0 tell the time",
                    hint=f"put a newer tsn-agent on {name}, or remove its lists there with `tc "
                    "qdisc del dev PORT root`, and push again; if this machine's clock is wrong, "
                    "set it",
                )

    def _now_tai_ns(self) -> int:
        """The latest any switch's TAI clock can be now."""
        offsets = (state.tai_minus_monotonic_ns() for state in self._states.values())
        return time.monotonic_ns() + max(upper for _, upper in filter(None, offsets))


@contextmanager
def _locked(open_sessions: Sessions) -> Iterator[None]:
    """Hold every switch's locks.

    A lock is had or denied at once, so nobody waits for anybody. Of two operators of one network
    the one who gets that of the first switch, by name, gets them all.
    """
    first, *others = sorted(open_sessions)
    taken: list[str] = []
    try:
        for names, datastore in (
            ([first], "running"),
            (others, "running"),
            ([first, *others], "candidate"),
        ):
            answers = open_sessions.attempt(names, _locking(datastore))
            taken += [n for n, a in answers.items() if not isinstance(a, DeviceError)]
            try:
                unanimous(answers)
            except RolloutError as error:
                hint = error.hint or _LOCKED
                raise RolloutError(str(error), hint=hint) from error
        yield
    finally:
        open_sessions.attempt(dict.fromkeys(taken), lambda device: device.unlock())


def _locking(datastore: str) -> Callable[[Device], None]:
    return lambda device: device.lock(datastore)


_LOCKED = "another operator or tool holds the lock; try again when it is done"
