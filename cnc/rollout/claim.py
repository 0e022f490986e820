"""A controller that is to act for a network says so to the switches, before it decides anything,
and asks them before that who else has.

Until then a switch would still apply what the former controller has on its way. Nothing else
changes: the switch keeps its configuration, the id of its rollout too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import uuid4

from cnc.data_tree.tree import AgentReport, KeptTerm
from cnc.rollout.compare import agent_down
from cnc.switch.device import ConnectOptions, Device, DeviceError, ManagedNode
from cnc.switch.parallel import answers
from cnc.switch.payload import edit_config
from cnc.switch.rollout_id import RolloutId, Term

CONFIRM_S = 10


@dataclass(frozen=True, slots=True)
class Met:
    """What a switch keeps of those who have acted for its network: the highest term, and the
    rollout whose lists it runs; None: nothing."""

    term: KeptTerm | None
    rollout: RolloutId | None


def meet(
    switches: Iterable[ManagedNode], *, connect: ConnectOptions
) -> dict[str, Met | DeviceError]:
    """Of each of these switches that can be reached, by name; nothing is changed."""

    def ask(switch: ManagedNode) -> Met:
        with Device(switch, connect) as device:
            return Met(_agent(device).kept_term, device.rollout_id())

    return answers([*switches], ask)


def claim(
    switches: Iterable[ManagedNode],
    term: Term,
    *,
    connect: ConnectOptions,
    take_over: bool = False,
    succeeds: bool = False,
) -> dict[str, KeptTerm | DeviceError | None]:
    """Name `term` to each of these switches that can be reached; by name the term that it keeps
    then, which is a higher one where another has taken over meanwhile.

    None: its agent keeps none. A DeviceError says why a switch was not told, such as that it
    belongs to another network; `take_over` has it leave that. Who `succeeds` a controller of the
    same login ends what is left of its sessions, with their locks.
    """

    def ask(switch: ManagedNode) -> KeptTerm | None:
        with Device(switch, connect) as device:
            if succeeds:
                device.end_other_sessions()
            return _claim(device, term, take_over=take_over)

    return answers([*switches], ask)


def _claim(device: Device, term: Term, *, take_over: bool) -> KeptTerm | None:
    agent = _agent(device)
    if not agent.keeps_terms:
        return None
    kept = agent.kept_term
    is_of_another = kept is not None and kept.network != term.network
    if kept and is_of_another and not take_over:
        raise DeviceError(device.name, str(kept), hint="`--take-over` has it leave that network")
    if kept and not is_of_another and kept.term >= term.number:
        return kept
    for datastore in ("running", "candidate"):
        device.lock(datastore)
    try:
        ours = RolloutId.of_this_controller(term=term)
        former = kept.network if kept and is_of_another else None
        stored = device.rollout_id()
        its = replace(
            ours,
            id=stored.id if stored else ours.id,
            clock_error_ns=stored.clock_error_ns if stored else None,
            apply_before_ns=stored.apply_before_ns if stored else None,
            former_network=former,
        )
        device.edit(edit_config({}, 0, {}, its))
        persist = str(uuid4())
        device.commit_confirmed(CONFIRM_S, persist)
        device.confirm(persist)
    finally:
        device.unlock()
    return _agent(device).kept_term


def _agent(device: Device) -> AgentReport:
    agent = device.state(()).agent
    if agent is None:
        raise agent_down(device.name)
    return agent
