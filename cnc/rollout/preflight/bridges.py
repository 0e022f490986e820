"""Checks, before a change, that a switch's bridge can forward the frames of streams as desired."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cnc.format import counted
from cnc.model import BridgeForwarding, PortRef
from cnc.rollout.preflight.finding import Check, Finding, Verdict
from cnc.rollout.wording import named
from cnc.switch.code_points import misleading
from cnc.switch.identification import MODULE
from cnc.switch.tree import PRIORITIES, BridgeReport, PortReport

EACH_PRIORITY = tuple(range(PRIORITIES))


def examine_bridge(
    ref: PortRef,
    desired: BridgeForwarding,
    report: PortReport | None,
    classes: Sequence[int] = EACH_PRIORITY,
) -> Iterator[Finding]:
    """All findings about the bridge `ref`. One that is to forward nothing need not be there.

    `classes` are the traffic classes of its ports, by priority.
    """
    bridge = report.forwarding if report else None
    failures = list(_failures(ref, desired, bridge)) if desired.members else []
    if bridge and desired.members:
        failures += _recoded(desired, bridge, classes)
    for text, hint in failures:
        yield Finding(*ref, Check.BRIDGE, Verdict.FAILED, text, hint)
    if bridge and not failures:
        text = f"{counted(len(bridge.ports), 'port')}, filters VLANs"
        yield Finding(*ref, Check.BRIDGE, Verdict.OK, text)


def _failures(
    ref: PortRef, desired: BridgeForwarding, bridge: BridgeReport | None
) -> Iterator[tuple[str, str]]:
    """What prevents it, and what to do about that."""
    device = ref.port
    if bridge is None:
        yield (
            "the switch has no such bridge",
            f"create it (ip link add {device} type bridge vlan_filtering 1), or correct the intent",
        )
        return
    if not bridge.filters_vlans:
        yield (
            "its VLAN filtering is off: it forwards by address alone",
            f"turn it on, on the switch: ip link set {device} type bridge vlan_filtering 1",
        )
    if missing := sorted(desired.members - {*bridge.ports}):
        yield (
            f"is not the bridge of {named(missing)}, by which frames of streams pass",
            f"add each on the switch: ip link set PORT master {device}",
        )
    if not bridge.snoops_multicast and any(address.is_group for address in desired.entries):
        yield (
            "its multicast snooping is off: frames of a group address would leave by all ports",
            f"turn it on, on the switch: ip link set {device} type bridge mcast_snooping 1",
        )
    if desired.translations and not bridge.identifies_streams:
        addresses = sorted(desired.translations, key=str)
        streams = named(desired.names.get(address, str(address)) for address in addresses)
        yield (
            f"cannot translate frames of {streams}: the YANG module {MODULE} is not installed",
            "update the switch's agent and its YANG modules, or let the talkers tag their frames",
        )


def _recoded(
    desired: BridgeForwarding, bridge: BridgeReport, classes: Sequence[int]
) -> Iterator[tuple[str, str]]:
    """Tables that lead frames of streams to another traffic class, here or at the next switch."""
    of_members = {port: its for port, its in bridge.recoded.items() if port in desired.members}
    for port, row in misleading(of_members, classes):
        what = f"the {row.table} of {port} makes {row.before} {row.after}"
        yield (
            f"{what}, which is the priority of another traffic class",
            f"remove the row with a NETCONF client ({row.table} of a bridge port)",
        )
