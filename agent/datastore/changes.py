"""Datastore changes, one after another: applied to the ports, then kept or reverted.

sysrepo announces a change (`change`: applied at once, so that the kernel's refusal reaches the
client) and then reports its end (`done` or `abort`), once for each module that the commit changes.
The report is missing when a client timed out or died: the change stays open. A timer then reads the
running datastore, and reverts the change if it did not land.

Nothing here speaks sysrepo; the datastore hands in plain trees.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from agent.datastore.desired import Impossible, desired_ports, possible_ports, refusal
from agent.datastore.failed_ports import FailedPorts
from agent.datastore.identities import Identity, identities
from agent.datastore.memory import Memory, MemoryFile
from agent.datastore.open_change import OpenChange, Request
from agent.datastore.rollout import ROLLOUT_MODULE, Rollout
from agent.datastore.rollouts import AppliedRollouts, lateness
from agent.datastore.terms import KeptTerm
from agent.datastore.waiting import Waiting
from agent.mechanism import Mechanism, Tree
from agent.mechanisms.gates.history import history_after
from agent.mechanisms.gates.model import GateConfig
from agent.model import NS_PER_S, AgentError, Clock, LastChange, PortConfig, PortState, refused
from agent.run_context import RunContext, assumed_context
from agent.switch import REFUSALS, Applied, Switch

LOG = logging.getLogger(__name__)

# Longer than sysrepo lets the other subscribers of one change take (5 s), so that a slow commit is
# not mistaken for a lost one.
SETTLE_TIMEOUT_S = 10.0
# A lost change is reverted this long before its schedules would start, but not before a commit that
# is not disturbed would have ended.
REVERT_S = 0.5
SETTLE_MIN_S = 1.0


class Changes:
    """Thread-safe: sysrepo's callbacks, the timer and readers of operational data all come here.

    `lock` is held while ports change; a reader of the switch takes it and never sees half a change.
    """

    def __init__(
        self,
        switch: Switch,
        read_running: Callable[[], Tree],
        settle_timeout_s: float = SETTLE_TIMEOUT_S,
        memory_file: MemoryFile | None = None,
        rollouts: AppliedRollouts | None = None,
    ) -> None:
        """`read_running` returns what the running datastore holds now.

        Without a `memory_file`, and a file for `rollouts`, nothing outlives the process.
        """
        self._switch = switch
        self._read_running = read_running
        self._settle_timeout_s = settle_timeout_s
        self._desired: Mapping[str, PortConfig] = {}
        # What a port's configuration depends on beside the tree, at the newest poll or change.
        self._seen: Mapping[str, Identity] = {}
        # Ports that appeared while the change is open, or since the last poll before it: they have
        # never had the configuration without it.
        self._new_ports: set[str] = set()
        # Ports that the next poll configures.
        self._retry_ports: set[str] = set()
        self._failed_ports = FailedPorts()
        # Ports whose stored configuration no port could do; they are left as they are.
        self._impossible: Mapping[str, Impossible] = {}
        self._clock_waits = Waiting(switch.ports.mechanisms)
        # The ports whose gates wait for the clock, and how far it may be from others then.
        self._waiting: frozenset[str] = frozenset()
        self._clock_error_ns = 0
        self._open: OpenChange | None = None
        self._timer: threading.Timer | None = None
        self.lock = threading.RLock()
        self._memory_file = memory_file
        self.memory = memory_file.read() if memory_file else Memory()
        self._rollouts = rollouts or AppliedRollouts()

    @property
    def desired(self) -> Mapping[str, PortConfig]:
        """What each configured port is to do now, an open change included: without gates that
        wait for the clock."""
        desired = self._open.desired if self._open else self._desired
        return self._clock_waits.without(desired, self._waits)

    @property
    def _waits(self) -> frozenset[str]:
        return self._open.waiting if self._open else self._waiting

    def gates_wait(self) -> str | None:
        """What stored gates wait for; None where none do."""
        with self.lock:
            if not self._waits:
                return None
            reason = self._switch.ports.unsettled(self._clock_error_ns)
            return reason or "the clock has settled: the gates are about to be set"

    def not_applied(self) -> dict[str, str]:
        """The ports whose stored configuration is not in force, with the reason."""
        with self.lock:
            impossible = {name: each.reason for name, each in self._impossible.items()}
            return impossible | {
                name: reason.replace(f"port {name}: ", "")
                for name, reason in self._failed_ports.reasons.items()
            }

    def start(self, tree: Tree) -> None:
        """As `reconcile`, for an agent that starts: gates that the kernel does not run wait until
        `end_wait` finds that the clock has settled.

        Nothing waits where the rollout does not say how far two clocks may differ.
        """
        with self.lock:
            rollout = Rollout.of(tree)
            self._rollouts.found(rollout)
            clock_error_ns = rollout.clock_error_ns
            if clock_error_ns is not None:
                states = self._switch.read()
                self._clock_error_ns = clock_error_ns
                self._desired, _ = possible_ports(tree, states)
                self._waiting = self._clock_waits.stored(self._desired, states)
            self.reconcile(tree)
            if self._waiting:
                self._switch.read()  # what keeps the clock may have been configured only now
                ports = ", ".join(sorted(self._waiting))
                LOG.info("the gates of %s wait for the clock: %s", ports, self.gates_wait())

    def end_wait(self, states: Mapping[str, PortState]) -> bool:
        """Set the gates that wait if the clock has settled by now; whether ports were configured.

        `states` is the newest `read()` of the switch.
        """
        with self.lock:
            if not self._waiting or self._open:
                return False
            if self._switch.ports.unsettled(self._clock_error_ns):
                return False
            ports, self._waiting = self._waiting, frozenset()
            names = ", ".join(sorted(ports))
            LOG.info("the clock has settled: setting the gates of %s, which waited for it", names)
            present = ports & states.keys()  # others are configured when they appear
            if present:
                self._apply_ports(present)
            return bool(present)

    @property
    def kept_term(self) -> KeptTerm | None:
        """Who acts for the network that the switch belongs to; None where none has said so."""
        return self._rollouts.terms.kept

    def refuse(self, tree: Tree) -> None:
        """Raise AgentError if the rollout of `tree` comes too late, or not from who acts for the
        network."""
        with self.lock:
            self.refuse_late(tree)
            if reason := self._rollouts.refused_term(Rollout.of(tree)):
                raise AgentError(reason)

    def refuse_late(self, tree: Tree) -> None:
        """Raise AgentError if the rollout of `tree` is not to be applied any more."""
        with self.lock:
            rollout, now_ns = Rollout.of(tree), self._now_tai_ns()
            if self._rollouts.is_late(rollout, now_ns):
                ports = self._switch.ports
                unsettled = ports.unsettled(rollout.clock_error_ns or 0)
                raise AgentError(lateness(rollout, now_ns, ports.tai_offset_s(), unsettled))

    def _now_tai_ns(self) -> int:
        return self._switch.ports.now_ns(Clock.TAI)

    def change(self, request: Request, tree: Tree) -> None:
        """Apply `tree`, the whole new configuration; raises `AgentError` and changes nothing.

        While a change of another module is open, this is taken for the rest of the same commit.

        A port that is gone, or that could not do what is stored, does not stand in the way of
        others as long as it is to do what it was.
        """
        with self.lock:
            joined = self._open if self._open and self._open.is_joined_by(request) else None
            if joined:
                tree = joined.tree_with(request.module, tree)
            elif self._open:
                self._settle(self._open, self._read_running())
            before = self._switch.read()
            desired, impossible = possible_ports(tree, before)
            if new := {
                n: each for n, each in impossible.items() if self._impossible.get(n) != each
            }:
                raise refusal(new)
            as_before = {n for n, config in desired.items() if self._desired.get(n) == config}
            failed = as_before & self._failed_ports.names & before.keys()
            waiting = joined.waiting if joined else self._waiting
            if request.module == ROLLOUT_MODULE and Rollout.of(tree).id != self._rollouts.in_force:
                waiting = frozenset()
            waiting = self._clock_waits.still(waiting, self._desired, desired)
            try:
                self.refuse(tree)
                self._rollouts.terms.take(Rollout.of(tree))
                change = self._apply(
                    tree,
                    desired,
                    before,
                    as_before - before.keys(),
                    joined,
                    waiting=waiting,
                    left=impossible.keys() | failed,
                )
                self._undo_late(change)
            except Exception:
                self._retry_ports |= _differing(
                    self._switch.ports.mechanisms, before, self._switch.read()
                )
                raise
            self._forget_open()
            self._open = replace(
                change, requests=change.requests | {request}, impossible=impossible
            )
            self._new_ports = self._new(before) | self._retry_ports | self._failed_ports.names
            self._all_asked(before, but=failed)
            self._start_timer(self._open, self._patience_s(self._open))

    def _undo_late(self, change: OpenChange) -> None:
        """Undo the newest part of a change, and raise AgentError, if it took until it was late."""
        try:
            self.refuse_late(change.tree)
        except AgentError as late:
            try:
                change.parts[-1].undo()
            except AgentError as failure:
                raise refused([*late.refusals, *failure.refusals]) from late
            raise

    def done(self, request: Request, read_tree: Callable[[], Tree]) -> None:
        """The change landed in the datastore; `read_tree` is asked for it only if it was undone."""
        with self.lock:
            if self._open and request in self._open.requests:
                self._open.landed.add(request)
                if self._open.landed == self._open.requests:
                    self._keep(self._open)
                return
            LOG.warning("change %s landed after it was reverted; applying it", request)
            self.reconcile(read_tree())

    def abort(self, request: Request) -> None:
        """Another subscriber refused the change."""
        with self.lock:
            if self._open and request in self._open.requests:
                self._revert(self._open, "another subscriber refused it")

    def reconcile(self, tree: Tree) -> None:
        """Make the ports agree with a configuration that is in force already.

        No client waits for a refusal: what a port cannot do is logged, the others are configured.
        """
        with self.lock:
            before = self._switch.read()
            if self.memory == Memory():
                self.remember(assumed_context(before))
            try:
                desired = desired_ports(tree, before)
                waiting = self._clock_waits.still(self._waiting, self._desired, desired)
                self._keep(self._apply(tree, desired, before, waiting=waiting))
                self._all_asked(before)
            except REFUSALS as error:
                LOG.error("the running configuration is not what the ports do:\n%s", error)
                self._forget_open()
                desired, impossible = possible_ports(tree, before)
                self._waiting = self._clock_waits.still(self._waiting, self._desired, desired)
                self._desired, self._impossible = desired, impossible
                self._rollouts.applied(Rollout.of(tree), self._now_tai_ns())
                self._all_asked(before)
                # Ports that are not configured any more, too: they lose what is ours.
                self._apply_ports(before.keys() - impossible.keys())

    def apply_to_new_ports(self, states: Mapping[str, PortState]) -> bool:
        """Configure ports that are not what they were at the newest poll; whether there were any.

        - Interfaces that appeared.
        - Ports that joined or left a bridge, with other filters there, and that bridge, which has
          lost or lacks what is configured of the port.
        - Ports that failed before and may succeed now: while a link is down Linux counts it as slow
          and refuses short entries, and at boot all links are down; a foreign root qdisc was
          removed, or the kernel's taprio was loaded. Each failure is logged once.

        `states` is the newest `read()` of the switch.
        """
        with self.lock:
            new = self._new(states)
            self._seen = identities(states)
            if self._open:
                self._new_ports |= new
            able = self._failed_ports.that_may_succeed(states)
            self._retry_ports |= (new & self.desired.keys()) | able
            due = self._retry_ports & states.keys()
            if due:
                self._apply_ports(due)
                self._retry_ports -= due
            return bool(due)

    def retry(self, ports: Iterable[str]) -> None:
        """Have the next poll configure these ports: they may have lost their configuration."""
        with self.lock:
            self._retry_ports |= set(ports)

    def remember(self, run_context: RunContext) -> None:
        """Keep the context that schedules run in, for an agent that starts later."""
        with self.lock:
            self._write(replace(self.memory, run_context=run_context))

    def close(self) -> None:
        """End the timer. The ports stay as they are: schedules outlive the agent."""
        with self.lock:
            self._forget_open()

    def _new(self, states: Mapping[str, PortState]) -> set[str]:
        """The interfaces that appeared since the newest poll or change, or that changed bridges."""
        return {name for name, each in identities(states).items() if self._seen.get(name) != each}

    def _all_asked(self, states: Mapping[str, PortState], but: Collection[str] = ()) -> None:
        """All present interfaces have just been configured, or tried, but for these."""
        self._seen = identities(states)
        self._retry_ports.intersection_update(but)
        self._failed_ports.keep(but)

    def _apply_ports(self, ports: Collection[str]) -> None:
        """Bring these ports to the configuration in force; the others stay as they are.

        Together, so that the stages are those of a change: frames are forwarded before gates close,
        and have their classes before they are forwarded. One by one where that is refused, bridges
        first; what one port cannot do is logged.
        """
        before = self._switch.read()
        as_they_are = {name: self._as_it_is(state) for name, state in before.items()}
        asked = {port: self.desired.get(port, PortConfig(port)) for port in ports}
        try:
            change = self._apply({}, as_they_are | asked, before)
        except REFUSALS as error:
            if len(ports) == 1:
                for port in ports:
                    self._failed_ports.failed(port, str(error), before.get(port))
                return
            for port in sorted(ports, key=lambda name: (not _is_bridge(before.get(name)), name)):
                self._apply_ports([port])
        else:
            for port in ports:
                self._failed_ports.succeeded(port)
            self._write(self._memory_after(change))

    def _as_it_is(self, state: PortState) -> PortConfig:
        """What leaves the port unchanged."""
        parts = tuple(each.as_is(state) for each in self._switch.ports.mechanisms)
        return PortConfig(state.name, parts)

    def _apply(
        self,
        tree: Tree,
        desired: Mapping[str, PortConfig],
        before: Mapping[str, PortState],
        missed: Collection[str] = (),
        joined: OpenChange | None = None,
        *,
        waiting: frozenset[str] = frozenset(),
        left: Collection[str] = (),
    ) -> OpenChange:
        """`missed` are the ports of `desired` that are gone and get their configuration later.

        `joined` is the part of the change that has been applied before; `waiting` are the ports
        whose gates are left out, `left` those that stay as they are.
        """
        started_ns = time.monotonic_ns()
        now = self._clock_waits.without(desired, waiting)
        now |= {name: self._as_it_is(before[name]) for name in left if name in before}
        applied = self._switch.apply(
            {name: config for name, config in now.items() if name not in missed}, before
        )
        duration_us = (time.monotonic_ns() - started_ns) // 1000
        log_changes(applied)
        parts = (*(joined.parts if joined else ()), applied)
        at_first = joined.before if joined else before
        changed = {port for part in parts for port in part.ports}
        if joined:
            duration_us += joined.summary.duration_us
        return OpenChange(
            tree,
            at_first,
            desired,
            parts,
            LastChange(datetime.now(UTC), duration_us, len(changed)),
            history_after(self.memory.history, at_first, now, self._switch.ports.now_ns),
            waiting,
            joined.requests if joined else frozenset(),
        )

    def _patience_s(self, change: OpenChange) -> float:
        """How long to wait for `done` or `abort`."""
        starts_s = [
            (taprio.schedule.base_time_ns - self._switch.ports.now_ns(taprio.clock)) / NS_PER_S
            for port in change.ports
            if port in change.desired and (taprio := change.desired[port][GateConfig].taprio)
        ]
        ahead_s = [start_s - REVERT_S for start_s in starts_s if start_s > 0]
        return min([self._settle_timeout_s, *(max(SETTLE_MIN_S, each) for each in ahead_s)])

    def _start_timer(self, change: OpenChange, patience_s: float) -> None:
        self._timer = threading.Timer(patience_s, self._on_timeout, [change])
        self._timer.daemon = True
        self._timer.start()

    def _on_timeout(self, change: OpenChange) -> None:
        # Read first: a callback that waits for our lock must not wait for sysrepo as well.
        try:
            running = self._read_running()
        except Exception:  # nothing else would ever end this change
            LOG.exception(
                "change %s: neither done nor abort came, and the running configuration cannot be "
                "read; asking again in %g s",
                change,
                SETTLE_MIN_S,
            )
            with self.lock:
                if self._open is change:
                    self._start_timer(change, SETTLE_MIN_S)
            return
        with self.lock:
            if self._open is change:
                self._settle(change, running)

    def _settle(self, change: OpenChange, running: Tree) -> None:
        """End a change whose end was not reported; the running datastore shows if it landed."""
        if running == change.tree:
            self._keep(change)
        else:
            self._revert(change, "neither done nor abort came")
            if change.landed:  # not all of its modules did, or those of two commits
                self.reconcile(running)

    def _keep(self, change: OpenChange) -> None:
        self._forget_open()
        self._desired, self._waiting = change.desired, change.waiting
        self._impossible = change.impossible
        self._rollouts.applied(Rollout.of(change.tree), self._now_tai_ns())
        self._write(self._memory_after(change))

    def _memory_after(self, change: OpenChange) -> Memory:
        summary = change.summary if change.has_steps else self.memory.last_change
        return replace(self.memory, history=change.history, last_change=summary)

    def _write(self, memory: Memory) -> None:
        if memory == self.memory:
            return
        self.memory = memory
        if self._memory_file:
            self._memory_file.write(memory)

    def _revert(self, change: OpenChange, why: str) -> None:
        self._forget_open()
        LOG.warning("change %s is reverted: %s", change, why)
        try:
            change.undo()
        except AgentError as error:
            LOG.error("change %s could not be reverted:\n%s", change, error)
            self._retry_ports |= change.ports
        self._retry_ports |= self._new_ports

    def _forget_open(self) -> None:
        self._open = None
        if self._timer:
            self._timer.cancel()
            self._timer = None


def _is_bridge(state: PortState | None) -> bool:
    return state is not None and state.as_bridge is not None


def _differing(
    mechanisms: Collection[Mechanism],
    before: Mapping[str, PortState],
    now: Mapping[str, PortState],
) -> set[str]:
    """The ports that do something else now."""
    return {
        name
        for name in before.keys() & now.keys()
        for mechanism in mechanisms
        if mechanism.as_is(before[name]) != mechanism.as_is(now[name])
    }


def log_changes(applied: Applied) -> None:
    """One line for what each mechanism changed on each port."""
    for change in applied.changes:
        fields = {"TSN_PORT": change.port} if change.port is not None else {}
        LOG.info("%s", change.description, extra={"fields": fields})
