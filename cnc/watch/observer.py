"""From what is seen and heard of all switches to the events that an operator is told. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cnc.format import counted
from cnc.model import ClassRole, Plan, PortRef
from cnc.rollout.history import Rollout
from cnc.rollout.recovery import describe
from cnc.rollout.starvation import Starvation
from cnc.switch import tree
from cnc.switch.payload import desired_ports
from cnc.watch import clocks, judge, noting
from cnc.watch.condition import WHOLE, Condition, Conditions, Event, Kind
from cnc.watch.growth import Growth
from cnc.watch.observation import Look, Notice, Observation, Silence


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How things stand: of each switch its last answer, None while it gives none."""

    looks: Mapping[str, Look | None]
    drifted: frozenset[PortRef]
    clocks: Mapping[str, clocks.Offset]
    conditions: tuple[Condition, ...]
    unresolved: int


class Observer:
    """Remembers what is needed to tell each trouble once. For one thread at a time."""

    def __init__(self, plan: Plan, is_known: Callable[[str], bool]) -> None:
        """`is_known` says whether the history has a rollout of this UUID."""
        network = plan.intent.network
        self._wanted = {name: desired_ports(plan, name) for name in network.bridges}
        self._clock_error_ns = network.clock_error_ns
        # A best-effort queue that is full drops; that is what it is for.
        self._no_drops = {
            each.number
            for each in plan.intent.classes.values()
            if each.role is not ClassRole.BEST_EFFORT
        }
        self._is_known = is_known
        self._conditions = Conditions()
        self._looks: dict[str, Look | None] = {}
        self._drifted: dict[str, set[str]] = defaultdict(set)
        self._reported: dict[str, dict[str, str]] = defaultdict(dict)
        self._starvation = {name: Starvation(plan.intent) for name in network.bridges}
        self._growth: dict[tuple[str, str, Kind], Growth] = defaultdict(Growth)
        self._clocks: Mapping[str, clocks.Offset] = {}
        self._unresolved = 0

    def take(self, observation: Observation) -> list[Event]:
        """What there is to tell after this observation."""
        match observation:
            case Look():
                return self._looked(observation)
            case Notice():
                return self._heard(observation)
            case Silence():
                return self._lost(observation)

    def unresolved(self, rollouts: Sequence[Rollout], at: datetime) -> list[Event]:
        """Take over which rollouts wait for an operator's word."""
        self._unresolved = len(rollouts)
        found: dict[str, str] = {}
        if rollouts:
            found[WHOLE] = "; ".join(describe(each) for each in rollouts)
        return self._conditions.settle(WHOLE, {Kind.UNFINISHED_ROLLOUT: found}, at)

    def snapshot(self) -> Snapshot:
        """How things stand now."""
        return Snapshot(
            looks=dict(self._looks),
            drifted=frozenset(
                PortRef(switch, port) for switch, ports in self._drifted.items() for port in ports
            ),
            clocks=self._clocks,
            conditions=tuple(self._conditions),
            unresolved=self._unresolved,
        )

    def _looked(self, look: Look) -> list[Event]:
        wanted = self._wanted[look.switch]
        self._looks[look.switch] = look
        found = {
            **judge.verdicts(look, wanted, self._is_known),
            **self._grown(look),
        }
        if look.state.agent is None:
            self._drifted[look.switch] = set()
        else:
            self._drifted[look.switch] = set(found[Kind.DRIFT])
            reported = self._reported[look.switch]
            # What is seen after a report is newer. A port that is not there cannot be seen.
            for port in look.state.ports:
                reported.pop(port, None)
            found[Kind.DRIFT] = {**reported, **found[Kind.DRIFT]}
            found[Kind.STARVED] = self._starvation[look.switch].update(look.state)
        return [
            *self._conditions.settle(look.switch, found, look.at),
            *self._compared(look.state.answered_ns, look.at),
        ]

    def _heard(self, notice: Notice) -> list[Event]:
        told, switch = notice.notification, notice.switch
        reported = self._reported[switch]
        port = told.leaves.get("interface", "")
        events = []
        match told.namespace, told.name:
            case tree.TSN_LINUX, "agent-started":  # what is amiss still, it reports anew
                reported.clear()
            case tree.TSN_LINUX, "port-restored":
                reported.pop(port, None)
            case tree.TSN_LINUX, "port-drift" if port in self._wanted[switch]:
                reported[port] = told.leaves.get("difference", "")
                drift = {**reported, **self._seen_drift(switch)}
                events = self._conditions.settle(switch, {Kind.DRIFT: drift}, notice.at)
        return [*events, *noting.notes(notice)]

    def _seen_drift(self, switch: str) -> dict[str, str]:
        look = self._looks.get(switch)
        return judge.drift(look, self._wanted[switch]) if look else {}

    def _lost(self, silence: Silence) -> list[Event]:
        switch = silence.switch
        self._looks[switch] = None
        self._drifted[switch] = set()
        self._reported[switch].clear()  # it may be put right while nobody listens
        return self._conditions.settle(switch, judge.silent(switch, silence.reason), silence.at)

    def _grown(self, look: Look) -> dict[Kind, dict[str, str]]:
        """What the counters of a switch say since they were last at rest."""
        found: dict[Kind, dict[str, str]] = {
            Kind.CONFIG_CHANGE_ERROR: {},
            Kind.OVERRUNS: {},
            Kind.DROPS: {},
        }
        for port in self._wanted[look.switch]:
            if (counters := look.counters.get(port)) is None:
                continue
            errors = counters.config_change_errors
            drops = {c: count for c, count in counters.drops.items() if c in self._no_drops}
            for kind, counts, words in (
                (Kind.CONFIG_CHANGE_ERROR, {} if errors is None else {0: errors}, _late),
                (Kind.OVERRUNS, counters.overruns, _overrun),
                (Kind.DROPS, drops, _dropped),
            ):
                growth = self._growth[look.switch, port, kind]
                if grown := growth.update(counts, look.state.answered_ns):
                    found[kind][port] = "; ".join(
                        words(number, count) for number, count in sorted(grown.items())
                    )
        return found

    def _compared(self, now_ns: int, at: datetime) -> list[Event]:
        """What the switches that answer say of each other's clocks."""
        states = {name: look.state for name, look in self._looks.items() if look}
        self._clocks = clocks.offsets(states, now_ns)
        off = clocks.off_beyond(self._clocks, self._clock_error_ns)
        odd = clocks.odd_tai_offsets(states)
        return [
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
