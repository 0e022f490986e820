"""Turns the observations of all switches into events for the operator. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from cnc.clocks import offsets as clocks
from cnc.data_tree import tree
from cnc.mechanisms.registry import FOLLOWED
from cnc.model import ClassRole, Plan, PortRef, PortSettings
from cnc.rollout.history import Rollout
from cnc.rollout.left_over import LeftOver
from cnc.rollout.recovery import describe
from cnc.support.counter_delta import CounterDelta
from cnc.support.format import counted
from cnc.switch.payload import desired_nodes
from cnc.watch import judge, messages
from cnc.watch.cabling import Cabling
from cnc.watch.condition import WHOLE, Condition, Conditions, Event, Kind, Verdicts
from cnc.watch.observation import (
    Neighbors,
    Observation,
    Poll,
    SwitchNotification,
    Unreachable,
)
from cnc.watch.promises import Promises
from cnc.watch.streams import StreamConditions


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current state: the last poll of each switch, None while it does not answer."""

    polls: Mapping[str, Poll | None]
    drifted: frozenset[PortRef]
    clocks: Mapping[str, clocks.Offset]
    conditions: tuple[Condition, ...]
    unresolved: int
    desired: Mapping[str, Mapping[str, PortSettings]] = field(default_factory=dict)


class Observer:
    """Keeps the state that is needed to report each condition once. For one thread at a time."""

    def __init__(self, plan: Plan, is_known: Callable[[str], bool]) -> None:
        """`is_known` says whether the history has a rollout of this UUID."""
        network = plan.intent.network
        self._intent = plan.intent
        self._settings = desired_nodes(plan)
        self._desired = self._settings
        self._clock_error_ns = network.clock_error_ns
        self._promises = Promises(plan)
        # A full best-effort queue drops frames by design.
        self._no_drops = {
            each.number
            for each in plan.intent.classes.values()
            if each.role is not ClassRole.BEST_EFFORT
        }
        self._is_known = is_known
        self._conditions = Conditions()
        self._polls: dict[str, Poll | None] = {}
        self._drifted: dict[str, set[str]] = defaultdict(set)
        self._reported: dict[str, dict[str, str]] = defaultdict(dict)
        self._followed = {
            name: [(each.kind, each.looks(plan.intent, name)) for each in FOLLOWED]
            for name in network.managed
        }
        self._deltas: dict[tuple[str, str, Kind], CounterDelta[int]] = defaultdict(CounterDelta)
        self._streams = {name: StreamConditions() for name in self._settings}
        self._clocks: Mapping[str, clocks.Offset] = {}
        self._cabling = Cabling(network)
        self._unresolved = 0
        self._judged_from: datetime | None = datetime.min.replace(tzinfo=UTC)
        self._held = 0

    def take(self, observation: Observation) -> list[Event]:
        """The events of this observation."""
        match observation:
            case Poll():
                return self._take_poll(observation)
            case Neighbors():
                return self._take_neighbors(observation)
            case SwitchNotification():
                return self._take_notification(observation)
            case Unreachable():
                return self._take_unreachable(observation)

    def unresolved(self, rollouts: Sequence[Rollout], at: datetime) -> list[Event]:
        """Update the rollouts that wait for an operator's decision."""
        self._unresolved = len(rollouts)
        found: dict[str, str] = {}
        if rollouts:
            found[WHOLE] = "; ".join(describe(each) for each in rollouts)
        return self._conditions.settle(WHOLE, {Kind.UNFINISHED_ROLLOUT: found}, at)

    def note_left(self, left: LeftOver | None) -> None:
        """Name from the next poll on what is left of earlier plans; None: nothing is."""
        self._desired = left.noted(self._settings) if left else self._settings

    def snapshot(self) -> Snapshot:
        """The current state."""
        return Snapshot(
            polls=dict(self._polls),
            drifted=frozenset(
                PortRef(switch, port) for switch, ports in self._drifted.items() for port in ports
            ),
            clocks=self._clocks,
            conditions=tuple(self._conditions),
            unresolved=self._unresolved,
            desired=self._desired,
        )

    def hold(self) -> int:
        """Another plan is being brought to the switches: which of the two they run is not judged
        until `follow`, or `release` where they have kept the former one. Returns the number of the
        hold, which these end."""
        self._judged_from = None
        self._held += 1
        return self._held

    def release(self, at: datetime, held: int) -> None:
        """What switches have reported since then is judged again, unless there is a later hold."""
        if held == self._held:
            self._judged_from = at

    def follow(self, plan: Plan, at: datetime, held: int) -> None:
        """From then on the switches are to run another plan of the same network, whose classes and
        managed nodes are the same. A later hold stays."""
        self._settings = desired_nodes(plan)
        self._desired = self._settings
        self._promises = Promises(plan)
        self.release(at, held)

    def _take_poll(self, poll: Poll) -> list[Event]:
        desired = self._desired[poll.switch]
        self._polls[poll.switch] = poll
        found: dict[StrEnum, Mapping[str, str]] = {
            **judge.verdicts(poll, desired, self._is_known),
            **self._counter_conditions(poll),
        }
        if poll.state.agent is None:
            self._drifted[poll.switch] = set()
        else:
            self._drifted[poll.switch] = set(found[Kind.DRIFT])
            reported = self._reported[poll.switch]
            # The poll is newer than earlier notifications. A missing port is not part of it.
            for port in poll.state.ports:
                reported.pop(port, None)
            found[Kind.DRIFT] = {**reported, **found[Kind.DRIFT]}
            found |= judge.late(poll, desired, self._intent)
            found |= self._streams[poll.switch].update(poll, desired)
            for kind, looks in self._followed[poll.switch]:
                found[kind] = looks.update(poll.state)
        if self._judged_from is None or poll.at < self._judged_from:
            found.pop(Kind.CONFIGURATION, None)
            found.pop(Kind.DRIFT, None)
        return [
            *self._conditions.settle(poll.switch, found, poll.at),
            *self._compared(poll.state.answered_ns, poll.at),
        ]

    def _take_neighbors(self, heard: Neighbors) -> list[Event]:
        compared = self._cabling.update(heard.switch, heard.topology)
        return [
            event
            for switch, found in compared.items()
            for event in self._conditions.settle(switch, {Kind.CABLING: found}, heard.at)
        ]

    def _take_notification(self, received: SwitchNotification) -> list[Event]:
        notification, switch = received.notification, received.switch
        reported = self._reported[switch]
        port = notification.leaves.get("interface", "")
        events = []
        match notification.namespace, notification.name:
            case tree.TSN_LINUX, "agent-started":  # it reports remaining drift again
                reported.clear()
            case tree.TSN_LINUX, "port-restored":
                reported.pop(port, None)
            case tree.TSN_LINUX, "port-drift" if port in self._desired[switch]:
                reported[port] = notification.leaves.get("difference", "")
                drift = {**reported, **self._seen_drift(switch)}
                events = self._conditions.settle(switch, {Kind.DRIFT: drift}, received.at)
        return [*events, *messages.events(received)]

    def _seen_drift(self, switch: str) -> dict[str, str]:
        poll = self._polls.get(switch)
        return judge.drift(poll, self._desired[switch]) if poll else {}

    def _take_unreachable(self, unreachable: Unreachable) -> list[Event]:
        switch = unreachable.switch
        self._polls[switch] = None
        self._drifted[switch] = set()
        self._reported[switch].clear()  # the drift may end without a session
        self._cabling.lose(switch)
        return self._conditions.settle(
            switch, judge.unreachable(switch, unreachable.reason), unreachable.at
        )

    def _counter_conditions(self, poll: Poll) -> Verdicts:
        """The conditions of the counters of a switch."""
        found: dict[StrEnum, dict[str, str]] = {
            Kind.CONFIG_CHANGE_ERROR: {},
            Kind.OVERRUNS: {},
            Kind.DROPS: {},
        }
        for port in self._desired[poll.switch]:
            if (counters := poll.counters.get(port)) is None:
                continue
            errors = counters.config_change_errors
            drops = {c: count for c, count in counters.drops.items() if c in self._no_drops}
            for kind, counts, words in (
                (Kind.CONFIG_CHANGE_ERROR, {} if errors is None else {0: errors}, _late),
                (Kind.OVERRUNS, counters.overruns, _overrun),
                (Kind.DROPS, drops, _dropped),
            ):
                counter_delta = self._deltas[poll.switch, port, kind]
                if delta := counter_delta.update(counts, poll.state.answered_ns):
                    found[kind][port] = "; ".join(
                        words(number, count) for number, count in sorted(delta.items())
                    )
        return found

    def _compared(self, now_ns: int, at: datetime) -> list[Event]:
        """The events of comparing the clocks of the switches that answer."""
        states = {name: poll.state for name, poll in self._polls.items() if poll}
        self._clocks = clocks.offsets(states, now_ns)
        off = clocks.off_beyond(self._clocks, self._clock_error_ns)
        odd = clocks.odd_tai_offsets(states)
        broken = self._promises.broken(states, now_ns)
        events = self._conditions.settle(WHOLE, {Kind.CLOCK_ERROR: broken}, at)
        return events + [
            event
            for name in states
            for event in self._conditions.settle(
                name,
                {
                    Kind.CLOCK_OFFSET: {WHOLE: off[name]} if name in off else {},
                    Kind.TAI_OFFSET: {WHOLE: odd[name]} if name in odd else {},
                },
                at,
            )
        ]


def _late(_number: int, count: int) -> str:
    return f"{counted(count, 'schedule')} arrived after the base time"


def _overrun(number: int, count: int) -> str:
    return f"{counted(count, 'frame')} of class {number} still being sent when the gate closed"


def _dropped(number: int, count: int) -> str:
    return f"{counted(count, 'frame')} of class {number} dropped"
