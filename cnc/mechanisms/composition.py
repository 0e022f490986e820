"""Where the mechanisms of a bridge meet: what is done to all parts alike. No mechanism is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cnc.mechanism import Mechanism, Whose
from cnc.mechanisms.registry import MECHANISMS
from cnc.model import BridgeForwarding, GateControlList, Parts, StreamAddress
from cnc.support.format import counted, gate_summary


def each_part(function: Callable[[Mechanism[Any]], object]) -> Parts:
    """The parts that `function` returns, one for each mechanism."""
    return Parts.of(*(function(each) for each in MECHANISMS))


def within(its: BridgeForwarding, scope: BridgeForwarding) -> BridgeForwarding:
    """What of a bridge's forwarding belongs to the VLANs of `scope` and to their members, here or
    there.

    The rest of a bridge is not a rollout's: what other clients configured in other VLANs.
    """
    vlans = {vlan_id: its.vlans.get(vlan_id, ()) for vlan_id in scope.vlans}
    ports = scope.members.union(*vlans.values())
    return BridgeForwarding(
        entries={a: leaving for a, leaving in its.entries.items() if a.vlan_id in scope.vlans},
        vlans=vlans,
        trusting=tuple(port for port in its.trusting if port in ports),
        names=scope.names,
        parts=each_part(lambda each: each.changed.within(its[each.part], scope.vlans.keys())),
    )


def differences(desired: BridgeForwarding, actual: BridgeForwarding, whose: Whose) -> Iterator[str]:
    """What differs in the parts of mechanisms, in words."""
    for each in MECHANISMS:
        yield from each.changed.differences(
            desired[each.part], actual[each.part], whose, desired.names
        )


def named(its: BridgeForwarding) -> dict[StreamAddress, tuple[str, ...]]:
    """The streams that other tables of the switch refer to by the address that their frames come in
    with, and the ports, sorted, by which they do."""
    identified = {a for each in MECHANISMS for a in each.switch.identifies(its[each.part])}
    found: dict[StreamAddress, set[str]] = {}
    for each in MECHANISMS:
        for address, ports in each.switch.refers_to(its[each.part], identified).items():
            found.setdefault(address, set()).update(ports)
    return {address: tuple(sorted(ports)) for address, ports in found.items()}


def is_asked(its: BridgeForwarding, mechanism: Mechanism[Any]) -> bool:
    """Whether a bridge needs the mechanism: for its own part, or as it identifies streams for the
    tables of others."""
    is_own = its[mechanism.part] != mechanism.part()
    return is_own or (mechanism.switch.names_streams and bool(named(its)))


def parts_while_clock_settles(its: BridgeForwarding) -> BridgeForwarding:
    """What a bridge does while what it does by the clock waits for the clock."""
    return its.having(*(each.changed.while_clock_settles(its[each.part]) for each in MECHANISMS))


def settings_summary(gates: GateControlList | None, forwarding: BridgeForwarding | None) -> str:
    """What a port has in a table's cell; a bridge forwards frames and has no gates."""
    if forwarding is None:
        return gate_summary(gates)
    vlans = [str(vlan_id) for vlan_id, ports in sorted(forwarding.vlans.items()) if ports]
    word = {0: "no VLAN", 1: "VLAN "}.get(len(vlans), "VLANs ")
    asked = [counted(len(forwarding.entries), "filtering entry")]
    for each in MECHANISMS:
        asked += [counted(n, what) for n, what in each.summary(forwarding[each.part]) if n]
    # The numbers last: what follows them would read as one of them.
    return f"{', '.join(asked)}, {word}{', '.join(vlans)}"
