"""Compares how a bridge is to forward the frames of streams with what is configured, and with what
its kernel does.

Only the VLANs of streams, and the ports that are members of them, are a rollout's: see
`cnc.mechanisms.composition.within`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cnc.data_tree.tree import BridgeReport, PortReport
from cnc.mechanism import Whose, described
from cnc.mechanisms.composition import differences, parts_while_clock_settles, within
from cnc.model import NO_FORWARDING, BridgeForwarding, StoredBridge, StoredPort
from cnc.support.wording import NO_BRIDGE, named


def configured_difference(desired: BridgeForwarding, stored: StoredPort) -> str | None:
    """What is not configured as desired, in words; None when all is."""
    actual = previous(desired, stored)
    if desired.entries and not (actual.entries or actual.members):
        return "no filtering entry of streams yet"
    return _named(desired, actual, _CONFIGURED)


def previous(desired: BridgeForwarding, stored: StoredPort) -> BridgeForwarding:
    """What is configured in the VLANs of streams."""
    return within(stored[StoredBridge].forwarding or NO_FORWARDING, desired)


def forwarding_difference(
    desired: BridgeForwarding,
    report: PortReport | None,
    _base_time_ns: int | None = None,
) -> str | None:
    """What the kernel does otherwise than desired, as text; None if nothing."""
    bridge = report.get(BridgeReport) if report else None
    if bridge is None:
        return NO_BRIDGE
    if not bridge.filters_vlans:
        return "its VLAN filtering is off: it forwards by address alone"
    return _named(desired, within(bridge.forwarding, desired), _KERNEL)


def drifted(
    desired: BridgeForwarding, _stored: StoredPort, report: PortReport | None
) -> str | None:
    """What the kernel does otherwise than is stored, as text; None if nothing."""
    return forwarding_difference(desired, report)


def difference_since(before: PortReport, now: PortReport) -> str | None:
    """Whether a bridge forwards otherwise than before, as text; None: it does not."""
    if before.get(BridgeReport) != now.get(BridgeReport):
        return "the forwarding of the bridge has changed"
    return None


def waits(desired: BridgeForwarding, report: PortReport) -> bool:
    """Whether all is as desired but what is done by the clock."""
    return forwarding_difference(parts_while_clock_settles(desired), report) is None


def _named(desired: BridgeForwarding, actual: BridgeForwarding, whose: Whose) -> str | None:
    return named(_differences(desired, actual, whose)) or None


_CONFIGURED: Whose = "configuration"
_KERNEL: Whose = "kernel"


def _differences(
    desired: BridgeForwarding, actual: BridgeForwarding, whose: Whose
) -> Iterator[str]:
    """What differs, in words. Of the configuration they say what a rollout would change, of the
    kernel what it does."""
    for address in sorted(desired.entries.keys() | actual.entries.keys(), key=str):
        before, after = actual.entries.get(address), desired.entries.get(address)
        if before != after:
            frames = f"frames of {described(address, desired.names)}"
            words = _configured_words if whose is _CONFIGURED else _kernel_words
            yield words(frames, before, after)
    for vlan_id in sorted(desired.vlans):
        yield from _membership(vlan_id, actual.vlans[vlan_id], desired.vlans[vlan_id], whose)
    yield from _trust(actual.trusting, desired.trusting, whose)
    yield from differences(desired, actual, whose)


def _configured_words(
    frames: str, before: Sequence[str] | None, after: Sequence[str] | None
) -> str:
    if after is None:
        return f"{frames} have no filtering entry any more"
    if before is None:
        return f"{frames} leave by {_list(after)}, by a new filtering entry"
    return f"{frames} leave by {_list(after)} instead of {_list(before)}"


def _kernel_words(frames: str, before: Sequence[str] | None, after: Sequence[str] | None) -> str:
    if after is None:
        return f"{frames} leave by {_list(before or ())}: the filtering entry is not in the plan"
    if before is None:
        return f"{frames} do not leave by {_list(after)}: the kernel has no filtering entry"
    missing, surplus = _beyond(after, before), _beyond(before, after)
    parts = [f"do not leave by {_list(missing)}"] if missing else []
    parts += [f"leave by {_list(surplus)}, which is not planned"] if surplus else []
    return f"{frames} {' and '.join(parts)}"


def _membership(
    vlan_id: int, before: Sequence[str], after: Sequence[str], whose: Whose
) -> Iterator[str]:
    missing, surplus = _beyond(after, before), _beyond(before, after)
    is_kernel = whose is _KERNEL
    if missing:
        verb = "is not registered at" if is_kernel else "is registered at"
        yield f"VLAN {vlan_id} {verb} {_list(missing)}"
    if surplus:
        verb = "is registered, but not planned, at" if is_kernel else "is no longer registered at"
        yield f"VLAN {vlan_id} {verb} {_list(surplus)}"


def _trust(before: Sequence[str], after: Sequence[str], whose: Whose) -> Iterator[str]:
    missing, surplus = _beyond(after, before), _beyond(before, after)
    is_kernel = whose is _KERNEL
    if missing:
        verb = "does not set" if is_kernel else "sets"
        yield f"the PCP of received frames {verb} their priority at {_list(missing)}"
    if surplus:
        verb = "sets, which is not planned," if is_kernel else "no longer sets"
        yield f"the PCP of received frames {verb} their priority at {_list(surplus)}"


def _beyond(these: Sequence[str], those: Sequence[str]) -> list[str]:
    """Those of `these` that are not among `those`."""
    return [port for port in these if port not in those]


def _list(ports: Sequence[str]) -> str:
    return " and ".join([", ".join(ports[:-1]), ports[-1]] if len(ports) > 1 else [*ports])
