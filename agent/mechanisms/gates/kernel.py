"""The gates of every port in the kernel: what taprio does now, and what it is to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyroute2 import IPRoute

from agent.composition import Change, Contribution, KernelObject
from agent.kernel import clock
from agent.mechanism import KernelAdapter, Node
from agent.mechanisms.gates import (
    children,
    hardware,
    limits,
    taprio,
    taprio_dump,
    transmit_quota,
)
from agent.mechanisms.gates.children import Children
from agent.mechanisms.gates.dev_weight import DevWeight
from agent.mechanisms.gates.model import (
    GateConfig,
    GateSchedule,
    GateState,
    Taprio,
    TaprioMode,
    TransmitQuotaState,
)
from agent.mechanisms.gates.roots import Root
from agent.mechanisms.gates.taprio_dump import DumpedQdisc, LinkSpeed
from agent.model import NS_PER_S, AgentError, PortConfig, PortState
from agent.root_qdisc import (
    CLASSES,
    PREEMPTABLE,
    ROOT,
    PreemptableClasses,
    RootQdisc,
    root_of,
)


class GateAdapter(KernelAdapter):
    """Sets the root qdisc of a port, its children included, and the quota that software gates count
    on. Not to be used by two threads."""

    def __init__(self, ipr: IPRoute, quota_record: Path) -> None:
        self._ipr = ipr
        self._dev_weight = DevWeight(quota_record)
        self._is_quota_left = False
        # The newest taprio set on each interface: the kernel hides a waiting one's frame sizes.
        self._sent: dict[int, Taprio] = {}
        self.objects = {
            RootQdisc: self._replace,
            transmit_quota.TransmitQuota: self._dev_weight.replace,
        }

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        links = {
            state.ifindex: LinkSpeed(state.link_speed_bps, state.emulated)
            for state in states.values()
        }
        qdiscs = taprio_dump.read(self._ipr, clock.now_ns, links)
        quota = self._dev_weight.read()
        found = {
            name: self._with_gates(
                state, qdiscs.get(state.ifindex), hardware.peers(state, states), quota
            )
            for name, state in states.items()
        }
        is_asked_for = any(list(transmit_quota.contributions(each)) for each in found.values())
        is_settable = quota is not None and quota.is_settable
        self._is_quota_left = is_settable and not is_asked_for and self._dev_weight.is_raised
        return found

    def repairs(self) -> Iterator[Change]:
        if self._is_quota_left:
            yield transmit_quota.repair()

    def _with_gates(
        self,
        state: PortState,
        qdisc: DumpedQdisc | None,
        peers: tuple[str, ...],
        quota: TransmitQuotaState | None,
    ) -> PortState:
        gates = GateState(
            limits_by_mode=limits.limits_by_mode(state.driver),
            hardware_peers=peers,
            transmit_quota=quota,
        )
        if qdisc is None:
            return state.with_part(gates)
        gates = replace(
            gates,
            taprio=self._with_sent_limits(state.ifindex, qdisc),
            running=qdisc.running,
            pending=qdisc.pending,
            counters=qdisc.counters,
        )
        return replace(
            state,
            root_qdisc=qdisc.kind,
            foreign_qdisc=qdisc.foreign,
            statistics=_statistics(state.statistics, qdisc.drops),
        ).with_part(gates)

    def _with_sent_limits(self, ifindex: int, qdisc: DumpedQdisc) -> Taprio | None:
        """The kernel shows the frame size limits of the running schedule only, so those of one
        that waits are the ones sent with it; an agent that did not send it takes the former."""
        sent, shown = self._sent.get(ifindex), qdisc.taprio
        if sent and shown and qdisc.pending == sent.schedule:
            return replace(shown, max_sdu_octets=sent.max_sdu_octets)
        return shown

    def capability(self) -> str | None:
        return taprio.capability(self._ipr)

    def problems(self, config: PortConfig) -> Iterator[str]:
        desired = config[GateConfig].taprio
        if desired is None:
            return
        if reason := self.capability():
            yield reason
        if desired.max_sdu_octets and (reason := taprio.no_max_sdu()):
            yield reason

    def leaves(self) -> Node:
        refused = self.capability()
        return {"gates-refused": refused} if refused else {}

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        port, ifindex = target.port_and_ifindex()
        says_preemptable = any(each.place == PREEMPTABLE for each in (*before, *after))
        root, children_before = _split(before, says_preemptable=says_preemptable)
        new_root, children_after = _split(after, says_preemptable=says_preemptable)
        children.replace(
            self._ipr, port, ifindex, (root, children_before), (new_root, children_after)
        )
        if isinstance(new_root, Taprio):
            self._sent[ifindex] = new_root
        else:
            self._sent.pop(ifindex, None)

    def restart(
        self, states: Sequence[PortState], present: Mapping[KernelObject, Sequence[Contribution]]
    ) -> Mapping[str, str]:
        """Set the gate control lists of these ports again, to start with the next cycle; those that
        the hardware executes never stand still.

        Returns the kernel's reason by port where it refused; such a port may have no gates then.
        """
        refused: dict[str, str] = {}
        states = [each for each in states if not _is_offloaded(each)]
        for state in states:
            _, below = _split(present.get(root_of(state), ()))
            refused |= _refusal(partial(self._restart, state, below), state)
        # A schedule takes the place of another that has not started: both would not be set.
        waiting = [state for state in states if state[GateState].running and _pending(state)]
        cycles_ns = [running.cycle_time_ns for s in waiting if (running := s[GateState].running)]
        time.sleep(max(cycles_ns, default=0) / NS_PER_S)
        for state in waiting:
            refused |= _refusal(partial(self._set_pending, state), state)
        return refused

    def _restart(self, state: PortState, below: Children) -> None:
        gates = state[GateState]
        if first := _with_schedule(state, gates.running or gates.pending):
            children.restart(self._ipr, state.name, state.ifindex, first, below)

    def _set_pending(self, state: PortState) -> None:
        """The schedule that waited behind the running one waits again."""
        gates = state[GateState]
        running = _with_schedule(state, gates.running)
        pending = _with_schedule(state, gates.pending)
        taprio.change(self._ipr, state.name, state.ifindex, running, pending)


def _refusal(restart: Callable[[], None], state: PortState) -> dict[str, str]:
    try:
        restart()
    except (AgentError, OSError) as reason:
        return {state.name: str(reason)}
    return {}


def _split(
    contributions: Sequence[Contribution], *, says_preemptable: bool = False
) -> tuple[Root | None, Children]:
    """The root, which `says_preemptable` classes where there are or were some, and its children."""
    by_place = {each.place: each.content for each in contributions}
    below = {content.queue: content for place, content in by_place.items() if place > ROOT}
    root: Root | None = by_place.get(ROOT, by_place.get(CLASSES))
    if says_preemptable and isinstance(root, Taprio):
        classes = by_place.get(PREEMPTABLE, PreemptableClasses())
        root = replace(root, preemptable=classes.numbers)
    return root, below


def _is_offloaded(state: PortState) -> bool:
    own = state[GateState].taprio
    return own is not None and own.mode is TaprioMode.FULL_OFFLOAD


def _pending(state: PortState) -> GateSchedule | None:
    return state[GateState].pending


def _with_schedule(state: PortState, schedule: GateSchedule | None) -> Taprio | None:
    own = state[GateState].taprio
    if own is None or schedule is None:
        return None
    return replace(own, schedule=schedule, emulated=state.emulated)


def _statistics(counted: Mapping[str, int], drops: int) -> Mapping[str, int]:
    """What the gates dropped before the driver saw it counts as discarded, too (and no longer once
    the gates are removed)."""
    if not drops:
        return counted
    return {**counted, "out-discards": counted.get("out-discards", 0) + drops}
