"""The DSCP rules of bridged ports in the kernel: flower filters at the egress hook (clsact).

Each rule is four filters: for IPv4 and IPv6, without and with a VLAN tag. Ours are those with our
priorities; others on the same hook stay. A rule is replaced in place, so that no frame finds none.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import tcmsg

from agent.composition import Change, Contribution, KernelObject
from agent.kernel import cls_flower
from agent.kernel.cls_flower import EGRESS
from agent.kernel.refusal import reason
from agent.mechanism import KernelAdapter
from agent.mechanisms.bridged_classification.model import BridgedState
from agent.mechanisms.bridged_classification.rules import EgressFilters, repair
from agent.model import AgentError, PortState

tcmsg.plugins["flower"] = cls_flower

_IPV4, _IPV6, _VLAN = 0x0800, 0x86DD, 0x8100
_DSCP_MASK = 0xFC
_CLSACT = 0xFFFF0000  # the handle of the qdisc that carries the filters of both directions

Priorities = Mapping[int, int]


class _Kind(NamedTuple):
    """One of the four filters of a rule: where it stands, and what it matches beside the DSCP.

    The kernel keeps one Ethertype for each `prio`; `handle` is that of DSCP 0.
    """

    prio: int
    protocol: int
    handle: int
    vlan_ethertype: int | None = None

    def filter(self, dscp: int, priority: int) -> dict[str, Any]:
        behind = {} if self.vlan_ethertype is None else {"vlan_ethertype": self.vlan_ethertype}
        return {
            "handle": self.handle + dscp,
            "prio": self.prio,
            "protocol": self.protocol,
            **behind,
            "ip_tos": (dscp << 2, _DSCP_MASK),
            "action": {"kind": "skbedit", "priority": priority},
        }


_KINDS = (
    _Kind(prio=0x7A00, protocol=_IPV4, handle=1),
    _Kind(prio=0x7A01, protocol=_IPV6, handle=1),
    _Kind(prio=0x7A02, protocol=_VLAN, handle=1, vlan_ethertype=_IPV4),
    _Kind(prio=0x7A02, protocol=_VLAN, handle=0x101, vlan_ethertype=_IPV6),
)
_PRIOS = {kind.prio: kind.protocol for kind in _KINDS}


class FilterAdapter(KernelAdapter):
    """Needs CAP_NET_ADMIN. Not to be used by two threads at once."""

    def __init__(self, ipr: IPRoute) -> None:
        self._ipr = ipr
        self.objects = {EgressFilters: self._replace}
        # The ports that may have filters of ours; None until all have been looked at once.
        self._with_filters: set[int] | None = None
        self._disturbed: dict[str, int] = {}

    def read(self, states: Mapping[str, PortState]) -> dict[str, PortState]:
        found, self._disturbed, with_filters = dict(states), {}, set()
        for name, state in states.items():
            known = self._with_filters is None or state.ifindex in self._with_filters
            if state.bridge is None and not known:
                continue
            filters = self._filters(state.ifindex)
            priorities = _in_force(filters)
            if filters:
                with_filters.add(state.ifindex)
            if filters != _wanted(priorities):
                self._disturbed[name] = state.ifindex
            found[name] = state.with_part(BridgedState(priorities))
        self._with_filters = with_filters
        return found

    def repairs(self) -> Iterator[Change]:
        """A filter of another kind among ours, or one of the four of a rule that is missing."""
        for port, ifindex in self._disturbed.items():
            yield repair(port, ifindex)

    def _filters(self, ifindex: int) -> dict[tuple[int, int], Any]:
        """What stands in our places, by prio and handle: what `_described` makes of it."""
        messages = self._ipr.get_filters(index=ifindex, parent=EGRESS)
        return {
            (message["info"] >> 16, message["handle"]): _described(message)
            for message in messages
            if message["info"] >> 16 in _PRIOS and message["handle"]
        }

    def _replace(
        self, target: KernelObject, before: Sequence[Contribution], after: Sequence[Contribution]
    ) -> None:
        if target.port is None or target.ifindex is None:
            raise TypeError(f"{target} belongs to no port")
        try:
            self._set(target.ifindex, after[0].content if after else {})
        except (NetlinkError, OSError) as refusal:
            with suppress(NetlinkError, OSError):
                self._set(target.ifindex, before[0].content if before else {})
            why = reason(refusal) if isinstance(refusal, NetlinkError) else str(refusal)
            raise AgentError(
                f"port {target.port}: the kernel refused a filter (flower, at egress) for the "
                f"frames of its bridge: {why}"
            ) from refusal
        if self._with_filters is not None and after:
            self._with_filters.add(target.ifindex)

    def _set(self, ifindex: int, priorities: Priorities) -> None:
        if not priorities:
            self._remove(ifindex)
            return
        present = self._filters(ifindex)
        if not present:
            self._ensure_hook(ifindex)
        for kind in _KINDS:
            for dscp, priority in priorities.items():
                self._ipr.tc(
                    "replace-filter",
                    "flower",
                    ifindex,
                    parent=EGRESS,
                    **kind.filter(dscp, priority),
                )
        for prio, handle in present.keys() - _wanted(priorities).keys():
            self._ipr.tc(
                "del-filter",
                "flower",
                ifindex,
                handle=handle,
                parent=EGRESS,
                prio=prio,
                protocol=_PRIOS[prio],
            )

    def _ensure_hook(self, ifindex: int) -> None:
        try:
            self._ipr.tc("add", "clsact", ifindex)
        except NetlinkError as refusal:
            if refusal.code != errno.EEXIST:  # another program's, which serves as well
                raise

    def _remove(self, ifindex: int) -> None:
        """All of ours, and the hook if nothing else is on it."""
        for prio, protocol in _PRIOS.items():
            try:
                self._ipr.tc(
                    "del-filter", "flower", ifindex, parent=EGRESS, prio=prio, protocol=protocol
                )
            except NetlinkError as refusal:
                if refusal.code not in {errno.ENOENT, errno.EINVAL}:  # no filter, no hook
                    raise
        hooks = (EGRESS, EGRESS - 1)
        if not any(list(self._ipr.get_filters(index=ifindex, parent=hook)) for hook in hooks):
            with suppress(NetlinkError):  # there is none
                self._ipr.tc("del", "clsact", ifindex, _CLSACT)


def _wanted(priorities: Priorities) -> dict[tuple[int, int], Any]:
    """The filters of these rules as `FilterAdapter._filters` finds them."""
    return {
        (kind.prio, kind.handle + dscp): (kind.vlan_ethertype, dscp << 2, _DSCP_MASK, priority)
        for kind in _KINDS
        for dscp, priority in priorities.items()
    }


def _described(message: Any) -> tuple[int | None, int, int, int] | None:
    """What a filter matches and the priority it gives; None for one that the agent did not set."""
    options = message.get("TCA_OPTIONS")
    if message.get("TCA_KIND") != "flower" or options is None:
        return None
    actions = options.get("TCA_FLOWER_ACT")
    acts = [action for _, action in actions["attrs"]] if actions else []
    if [action.get("TCA_ACT_KIND") for action in acts] != ["skbedit"]:
        return None
    return (
        options.get("TCA_FLOWER_KEY_VLAN_ETH_TYPE"),
        options.get("TCA_FLOWER_KEY_IP_TOS"),
        options.get("TCA_FLOWER_KEY_IP_TOS_MASK"),
        acts[0].get("TCA_ACT_OPTIONS").get("TCA_SKBEDIT_PRIORITY"),
    )


def _in_force(filters: Mapping[tuple[int, int], Any]) -> dict[int, int]:
    """The priorities that all four filters of a rule give, by DSCP."""
    rules = [
        {
            found[1] >> 2: found[3]
            for (prio, handle), found in filters.items()
            if found and prio == kind.prio and found[0] == kind.vlan_ethertype
        }
        for kind in _KINDS
    ]
    common = set.intersection(*(set(each.items()) for each in rules))
    return dict(sorted(common))
