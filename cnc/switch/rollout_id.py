"""The id of a rollout on a switch: written with the lists, and reverted with them.

It is configuration (`/tsn-linux:rollout`), so a switch that reverts to its previous lists also
reverts to their id. The id on a switch therefore names the rollout whose lists it runs, even if the
controller ended during the change.
"""

from __future__ import annotations

import getpass
import socket
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import uuid4

from lxml.builder import ElementMaker

from cnc.data_tree import reply
from cnc.data_tree.reply import Element
from cnc.data_tree.state import SwitchState
from cnc.data_tree.tree import NETCONF, TSN_LINUX

_TSNL = ElementMaker(namespace=TSN_LINUX, nsmap={None: TSN_LINUX})
_NAMESPACES = {"t": TSN_LINUX}
_LEAVES = reply.Leaves(TSN_LINUX)


@dataclass(frozen=True, slots=True)
class Term:
    """Who acts for a network, of several controllers: the one with the highest `number`.

    Switches that a rollout with a term has reached refuse those with a lower one, or with none.
    """

    network: str
    number: int


@dataclass(frozen=True, slots=True)
class RolloutId:
    """`id` is a UUID, the same on all switches of a rollout; `controller` is user@host; `time` is
    ISO 8601.

    `clock_error_ns` is how far its plan allows two clocks to differ. A switch that boots holds its
    gates back until its clock has settled to that; None: it holds none back, as there is no other
    clock. `apply_before_ns` is the instant, TAI by the clock of the switch, until which a switch
    may apply it for the first time; None: at any time. `term` is of whoever makes it; None: nobody
    acts for the network alone. `former_network` is the one that the switch leaves with it.
    """

    id: str
    controller: str
    time: str
    clock_error_ns: int | None = None
    apply_before_ns: int | None = None
    term: Term | None = None
    former_network: str | None = None

    @classmethod
    def of_this_controller(
        cls,
        clock_error_ns: int | None = None,
        apply_before_ns: int | None = None,
        term: Term | None = None,
    ) -> RolloutId:
        """The identity of a rollout that begins now."""
        return cls(
            str(uuid4()),
            this_controller(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            clock_error_ns,
            apply_before_ns,
            term,
        )


def this_controller() -> str:
    """Who uses this program, and where, as switches and the history have it."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def rollout_id_filter() -> Element:
    """Subtree filter: the rollout id."""
    return _TSNL("rollout")


def rollout_id_element(rollout_id: RolloutId) -> Element:
    """The rollout id as configuration, in place of what the rollout before it has left."""
    element = _TSNL(
        "rollout",
        {f"{{{NETCONF}}}operation": "replace"},
        _TSNL("id", rollout_id.id),
        _TSNL("controller", rollout_id.controller),
        _TSNL("time", rollout_id.time),
    )
    if rollout_id.apply_before_ns is not None:
        element.append(_TSNL("apply-before", str(rollout_id.apply_before_ns)))
    if rollout_id.clock_error_ns is not None:
        element.append(_TSNL("clock-error-ns", str(rollout_id.clock_error_ns)))
    if rollout_id.term is not None:
        element.append(_TSNL("network", rollout_id.term.network))
        element.append(_TSNL("term", str(rollout_id.term.number)))
    if rollout_id.former_network is not None:
        element.append(_TSNL("former-network", rollout_id.former_network))
    return element


def rollout_id_in(data: Element) -> RolloutId | None:
    """The rollout id in the reply to a get-config; None where no rollout was made."""
    rollout = data.find("t:rollout", _NAMESPACES)
    identity = None if rollout is None else reply.text(rollout, "t:id", _NAMESPACES)
    if rollout is None or identity is None:
        return None
    return RolloutId(
        identity,
        reply.text(rollout, "t:controller", _NAMESPACES) or "",
        reply.text(rollout, "t:time", _NAMESPACES) or "",
        _LEAVES.optional_number(rollout, "clock-error-ns"),
        _LEAVES.optional_number(rollout, "apply-before"),
        _term_in(rollout),
        reply.text(rollout, "t:former-network", _NAMESPACES),
    )


def _term_in(rollout: Element) -> Term | None:
    network = reply.text(rollout, "t:network", _NAMESPACES)
    number = _LEAVES.optional_number(rollout, "term")
    return None if network is None or number is None else Term(network, number)


def known_part(rollout_id: RolloutId, state: SwitchState, *, takes_over: bool = False) -> RolloutId:
    """What a switch is told of it: one whose agent does not say what keeps the clock, such as that
    of 0.1.0, has no leaf for the clock error, one that takes late commits none for their instant,
    and one that keeps no terms none for them. A switch of another network is told to leave that, if
    the rollout `takes_over`."""
    kept = state.agent.kept_term if state.agent else None
    if not (state.agent and state.agent.keeps_terms):
        rollout_id = replace(rollout_id, term=None)
    elif takes_over and kept and rollout_id.term and kept.network != rollout_id.term.network:
        rollout_id = replace(rollout_id, former_network=kept.network)
    if not (state.agent and state.agent.clock):
        rollout_id = replace(rollout_id, clock_error_ns=None)
    if not (state.agent and state.agent.refuses_late_rollouts):
        rollout_id = replace(rollout_id, apply_before_ns=None)
    return rollout_id
