"""One change of all switches, or of none.

    connect ─► preflight ─► lock ─► compare ─► [journal] ─► stage ─► commit ─► read back
            ─► [decision] ─► confirm ─► startup ─► unlock

Every step runs on all switches in parallel and ends before the next begins. `transaction` rolls
back when one fails; `recovery` ends the rollouts of controllers that died.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cnc.data_tree.state import SwitchState
from cnc.errors import RolloutError
from cnc.mechanisms.composition import previous
from cnc.model import (
    NS_PER_S,
    BridgeForwarding,
    GateControlList,
    PortRef,
    PortSettings,
    Profile,
    StoredPort,
    gates_of,
)
from cnc.rollout.compare import needs_change
from cnc.rollout.events import Listener, Step, StepBegun, ignore
from cnc.rollout.goal import Goal
from cnc.rollout.history import History, SwitchChange
from cnc.rollout.preflight import Check, Finding, Verdict, examine, refuse
from cnc.rollout.sessions import Sessions, sessions
from cnc.rollout.timing import (
    Deadlines,
    Within,
    base_time_ns,
    margin_ns,
    tai_here_minus_monotonic_ns,
)
from cnc.rollout.transaction import SwitchTimes, Transaction
from cnc.switch.device import ConnectOptions, Device, DeviceError, StoredSwitch
from cnc.switch.parallel import before_any_change, unanimous
from cnc.switch.rollout_id import RolloutId, Term

Warn = Callable[[Sequence[Finding]], None]


def ignore_findings(_findings: Sequence[Finding]) -> None:
    """Where nobody reads what a rollout warns of."""


@dataclass(frozen=True, slots=True)
class ForwardingChange:
    """How a bridge forwarded the frames of streams, and is to."""

    before: BridgeForwarding
    after: BridgeForwarding


@dataclass(frozen=True, slots=True)
class PortChange:
    """The change of one port; None stands for no gates, as on every port of an end station, and on
    a bridge, which has `forwarding` instead."""

    port: PortRef
    before: GateControlList | None
    after: GateControlList | None
    why: str
    forwarding: ForwardingChange | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a push: changes, base time (TAI) and durations.

    `number` is the rollout's in the history; None where no port had to change. `starts_in_ns` is
    what was left until the base time when all switches had confirmed, by the clock that is ahead;
    `all_start_in_ns` by the one that is behind; of a change that was made at once, until its last
    list started. `read_back` is when the kernels of all switches had been read back as they run it,
    before it was confirmed; None where no port had to change. `former_ways` is what became of the
    ways of streams that moved; None where none did. `compares_forwarding`: besides ports, bridges
    were compared with what they are to forward.
    """

    changes: tuple[PortChange, ...]
    number: int | None
    base_time_ns: int | None
    starts_in_ns: int | None
    times: Mapping[str, SwitchTimes]
    total_ns: int
    compares_forwarding: bool = False
    all_start_in_ns: int = 0
    read_back: datetime | None = None
    former_ways: FormerWays | None = None


@dataclass(frozen=True, slots=True)
class FormerWays:
    """The filtering entries by which `streams` were forwarded before they moved.

    `removed_by` is the number of the rollout that removed them; None where it did not, and `left`
    says why.
    """

    streams: tuple[str, ...]
    removed_by: int | None
    left: str | None = None


def _forwarding_change(stored: StoredPort | None, after: PortSettings) -> ForwardingChange | None:
    its = after.get(BridgeForwarding)
    if its is None:
        return None
    return ForwardingChange(previous(after, stored)[BridgeForwarding], its)


def roll_out(
    goal: Goal,
    *,
    connect: ConnectOptions,
    history: History | None,
    dry_run: bool = False,
    take_over: bool = False,
    without_deadline: bool = False,
    term: Term | None = None,
    within: Within | None = None,
    listener: Listener = ignore,
    warn: Warn = ignore_findings,
) -> Report:
    """Deploy `goal` to all switches as one change.

    `dry_run` stops after the comparison. `warn` gets what the switches' state tells an operator to
    look at, before anything is sent. Without a `history` the rollout is not recorded, and
    rollouts of other controllers are overwritten; with one they are refused, unless `take_over`.
    `term` is of whoever acts for the network, and switches refuse a lower one than they have met,
    and none; to `take_over` without one is to name the next that they have not met. `within` bounds
    until when they may apply it, where that acts for a while; None: it acts alone.
    Switches whose agent applies a commit however late it comes are refused, unless
    `without_deadline`.

    Raises RolloutError when a switch refuses: then no switch has changed, or the error names those
    that did.
    """
    begun_ns = time.monotonic_ns()
    count = len(goal.switches)
    if not count:
        return Report((), None, None, None, {}, 0, goal.has_forwarding)
    with ExitStack() as stack:
        with before_any_change():
            listener(StepBegun(Step.CONNECT, count))
            open_sessions = stack.enter_context(sessions(goal.switches, connect))
            open_sessions.open()
            listener(StepBegun(Step.PREFLIGHT, count))
            states = _states(goal, open_sessions)
            goal = goal.beside_former_ways(states)
            _preflight(goal, states, warn, without_deadline=without_deadline)
            listener(StepBegun(Step.COMPARE, count))
            if not dry_run:
                stack.enter_context(_locked(open_sessions))
            comparison = _compare(goal, open_sessions, states)
            if history and not dry_run and not take_over:
                comparison.refuse_foreign(history, term)
        if dry_run or not comparison.reasons:
            spent_ns = time.monotonic_ns() - begun_ns
            changes = tuple(comparison.port_changes())
            return Report(changes, None, None, None, {}, spent_ns, goal.has_forwarding)
        recorded_in = history or stack.enter_context(History(None))
        if take_over:
            term = comparison.higher_term(term)
        return _change(
            comparison,
            open_sessions,
            recorded_in,
            term=term,
            within=within,
            takes_over=take_over,
            listener=listener,
            begun_ns=begun_ns,
        )


def _states(goal: Goal, open_sessions: Sessions) -> dict[str, SwitchState]:
    return open_sessions.ask(open_sessions, lambda device: device.state(goal.read(device.name)))


def _preflight(
    goal: Goal, states: Mapping[str, SwitchState], warn: Warn, *, without_deadline: bool
) -> None:
    """Raise RolloutError when an agent, a port or a clock prevents the change; warn of the rest.

    Not of the TAI offset: schedules agree among themselves without one, and clocks that differ by
    it fail.
    """
    findings = examine(
        goal.ports,
        states,
        clock_error_ns=goal.clock_error_ns,
        plan=goal.plan,
    )
    accepted = {Check.MARGIN} if goal.force_margin else set()
    if without_deadline:
        accepted.add(Check.LATE_COMMITS)
    refuse(each for each in findings if each.check not in accepted)
    if warnings := [
        each
        for each in findings
        if each.check is not Check.TAI_OFFSET and each.verdict in {Verdict.WARNING, Verdict.FAILED}
    ]:
        warn(warnings)


def _compare(goal: Goal, open_sessions: Sessions, states: Mapping[str, SwitchState]) -> _Comparison:
    """Find the ports whose configuration or kernel differs from the goal."""
    stored = open_sessions.ask(open_sessions, lambda device: device.stored(goal.ports[device.name]))
    reasons: dict[str, dict[str, str]] = {}
    for name, ports in goal.ports.items():
        for port, desired in ports.items():
            reason = needs_change(
                desired, stored[name].ports.get(port), states[name].ports.get(port)
            )
            if reason:
                reasons.setdefault(name, {})[port] = reason
    return _Comparison(goal, states, stored, reasons)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Configuration and state of the switches, compared with the goal. `reasons` says why a port
    must change, by switch and port; it has no switches and ports without a change."""

    goal: Goal
    states: Mapping[str, SwitchState]
    stored: Mapping[str, StoredSwitch]
    reasons: Mapping[str, Mapping[str, str]]

    def refuse_foreign(self, history: History, term: Term | None) -> None:
        """Raise RolloutError when a switch that is to change has another controller's rollout: one
        that neither this history knows, nor names this `term`."""
        foreign = {
            name: rollout_id
            for name in self.reasons
            if (rollout_id := self.stored[name].rollout_id)
            if not (term and rollout_id.term == term) and not history.knows(rollout_id.id)
        }
        if foreign:
            raise RolloutError(
                "\n".join(
                    f"{name}: its configuration comes from a rollout that is not in this history: "
                    f"{rollout_id.id} of {rollout_id.controller}, {rollout_id.time}"
                    f"{self._whose(name)}"
                    for name, rollout_id in sorted(foreign.items())
                ),
                hint="another controller manages this network; `--take-over` overrides it",
            )

    def _whose(self, switch: str) -> str:
        """Who acts for the network of a switch, for a message; nothing where nobody says so."""
        agent = self.states[switch].agent
        return f"; {agent.kept_term}" if agent and agent.kept_term else ""

    def higher_term(self, term: Term | None) -> Term | None:
        """The `term`; without one, where switches have met any, the next of all that they have."""
        kept = [its.agent.kept_term for its in self.states.values() if its.agent]
        met = [each.term for each in kept if each]
        return term or (Term(self.goal.network, max(met) + 1) if met else None)

    def port_changes(self) -> Iterator[PortChange]:
        """The ports that change, in order."""
        for name, reasons in sorted(self.reasons.items()):
            for port, reason in sorted(reasons.items()):
                stored = self.stored[name].ports.get(port)
                after = self.goal.ports[name][port]
                yield PortChange(
                    PortRef(name, port),
                    before=gates_of(previous(after, stored)),
                    after=gates_of(after),
                    why=reason,
                    forwarding=_forwarding_change(stored, after),
                )

    def switch_changes(self) -> dict[str, SwitchChange]:
        """The switches that change; a switch without an address was refused a session."""
        return {
            switch.name: SwitchChange(
                management=switch.management,
                before={port: self.stored[switch.name].ports.get(port) for port in reasons},
                after={port: self.goal.ports[switch.name][port] for port in reasons},
            )
            for switch in self.goal.switches
            if switch.management and (reasons := self.reasons.get(switch.name))
        }

    def profile(self, switch: str) -> Profile | None:
        """What a switch can do that does not run our agent; None: it does."""
        agent = self.states[switch].agent
        return agent.profile if agent else None

    def slowest_answer_ns(self) -> int:
        return max(state.answered_ns - state.asked_ns for state in self.states.values())

    def now_tai_ns(self) -> int:
        """Upper bound of the switches' TAI clocks now, in nanoseconds since the epoch."""
        return time.monotonic_ns() + max(upper for _, upper in self._clocks())

    def least_tai_ns(self) -> int:
        """Lower bound of the switches' TAI clocks now, in nanoseconds since the epoch."""
        return time.monotonic_ns() + min(lower for lower, _ in self._clocks())

    def _clocks(self) -> list[tuple[int, int]]:
        """Bounds of (TAI minus this machine's monotonic clock): of switches, or where none reports
        its time those of this machine."""
        offsets = (state.tai_minus_monotonic_ns() for state in self.states.values())
        return [*filter(None, offsets)] or [tai_here_minus_monotonic_ns()]


def _change(
    comparison: _Comparison,
    open_sessions: Sessions,
    history: History,
    *,
    term: Term | None,
    within: Within | None,
    takes_over: bool,
    listener: Listener,
    begun_ns: int,
) -> Report:
    """Change the switches, and record it in the history's journal."""
    goal, changes = comparison.goal, comparison.switch_changes()
    slowest_ns = comparison.slowest_answer_ns()
    with before_any_change():
        now_ns = comparison.now_tai_ns()
        profiles = [its for name in changes if (its := comparison.profile(name))]
        # What takes a late commit, or does not say what it runs, needs an instant to come.
        if goal.at_once and not profiles:
            deadlines = Deadlines.at_once(now_ns, slowest_ns, goal.cycles_ns())
        else:
            lead_ns = max((each.lead_ns for each in profiles), default=0)
            start_ns = base_time_ns(now_ns, slowest_ns, goal.cycles_ns(), lead_ns)
            deadlines = Deadlines.before(start_ns, now_ns, margin_ns(slowest_ns))
        if within:
            deadlines = deadlines.within(within, comparison.least_tai_ns())
        _refuse_past(comparison.states, deadlines.base_time_ns)
        rollout_id = RolloutId.of_this_controller(
            goal.stored_clock_error_ns, deadlines.apply_before_ns, term
        )
        # No confirm window ends later, by any switch's clock.
        unconfirmed_ns = deadlines.timeout_s * NS_PER_S + 2 * margin_ns(slowest_ns)
        window_s = (deadlines.apply_before_ns - now_ns + unconfirmed_ns) / NS_PER_S
        journal = history.begin(
            id=rollout_id.id,
            network=goal.network,
            operator=rollout_id.controller,
            what=goal.what,
            plan=goal.plan,
            base_time_ns=deadlines.base_time_ns,
            confirm_by=datetime.now(UTC) + timedelta(seconds=window_s),
            switches=changes,
            follows=goal.follows,
        )
    transaction = Transaction(
        open_sessions,
        changes,
        comparison.states,
        journal,
        rollout_id=rollout_id,
        takes_over=takes_over,
        deadlines=deadlines,
        now_tai_ns=comparison.now_tai_ns,
        least_tai_ns=comparison.least_tai_ns,
        listener=listener,
    )
    transaction.run()
    return Report(
        changes=tuple(comparison.port_changes()),
        number=journal.number,
        base_time_ns=deadlines.base_time_ns,
        starts_in_ns=deadlines.starts_ns - comparison.now_tai_ns(),
        times=transaction.times,
        total_ns=time.monotonic_ns() - begun_ns,
        all_start_in_ns=deadlines.starts_ns - comparison.least_tai_ns(),
        read_back=transaction.read_back,
    )


def _refuse_past(states: Mapping[str, SwitchState], start_ns: int) -> None:
    """Raise RolloutError if the base time has passed by this machine's TAI.

    A switch's clock that is certain to be TAI is preferred to this machine's and not checked.
    """
    for name, state in states.items():
        if state.is_tai_certain:
            continue
        offset_s = (state.agent.tai_offset_s or 0) if state.agent else 0
        late_ns = time.time_ns() + offset_s * NS_PER_S - start_ns
        if late_ns >= 0:
            raise RolloutError(
                f"{name}: by the time it reports, the base time has passed "
                f"{late_ns / NS_PER_S:.3f} s ago (TAI here is UTC and its TAI offset of "
                f"{offset_s} s); its lists run on a clock other than TAI, which agents up to "
                "0.1.0 report",
                hint=f"upgrade tsn-agent on {name}, or remove its lists there with `tc "
                "qdisc del dev PORT root`, and push again; if this machine's clock is wrong, "
                "set it",
            )


@contextmanager
def _locked(open_sessions: Sessions) -> Iterator[None]:
    """Hold every switch's locks.

    A lock is granted or denied at once, so no controller waits for another. Of two operators of one
    network the one that locks the first switch, by name, gets all locks.
    """
    first, *others = sorted(open_sessions)
    locked: list[str] = []
    try:
        for names, datastore in (
            ([first], "running"),
            (others, "running"),
            ([first, *others], "candidate"),
        ):
            answers = open_sessions.attempt(names, _locking(datastore))
            locked += [n for n, a in answers.items() if not isinstance(a, DeviceError)]
            try:
                unanimous(answers)
            except RolloutError as error:
                hint = error.hint or _LOCKED
                raise RolloutError(str(error), hint=hint) from error
        yield
    finally:
        open_sessions.attempt(dict.fromkeys(locked), lambda device: device.unlock())


def _locking(datastore: str) -> Callable[[Device], None]:
    return lambda device: device.lock(datastore)


_LOCKED = "another operator or tool holds the lock; try again later"
