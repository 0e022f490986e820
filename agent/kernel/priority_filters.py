"""Filters that give frames a priority as they enter or leave a port: flower with skbedit."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from pyroute2.netlink.rtnl.tcmsg.common import tc_actions

from agent.kernel import tc_plugins
from agent.kernel.hook_filters import CONTINUE, FilterForm, actions_of

tc_plugins.register()

_DSCP_MASK = 0xFC


class Match(NamedTuple):
    """What a frame has: a priority code point, an Ethertype behind its VLAN tag, a DSCP."""

    pcp: int | None = None
    vlan_ethertype: int | None = None
    dscp: int | None = None


class PriorityFilter(NamedTuple):
    """A filter: its place, what it matches, and the skb priority that it gives.

    The kernel keeps one Ethertype (`protocol`) for each `prio`. `label` is a number other than 0
    that the kernel keeps with the filter; it does nothing with it.
    """

    prio: int
    handle: int
    match: Match
    priority: int
    label: int | None = None


# What stands in our places; None: a filter that is none of ours.
Filters = Set[PriorityFilter | None]


def _request(wanted: PriorityFilter) -> Mapping[str, Any]:
    match = wanted.match
    keys: dict[str, Any] = {
        "vlan_prio": match.pcp,
        "vlan_ethertype": match.vlan_ethertype,
        "ip_tos": None if match.dscp is None else (match.dscp << 2, _DSCP_MASK),
        "classid": wanted.label,
    }
    return {
        **{key: value for key, value in keys.items() if value is not None},
        "action": {"kind": "skbedit", "priority": wanted.priority, "control": CONTINUE},
    }


def _parsed(message: Any) -> PriorityFilter | None:
    options = message.get("TCA_OPTIONS")
    if message.get("TCA_KIND") != "flower" or options is None:
        return None
    acts = actions_of(options.get("TCA_FLOWER_ACT"))
    if [action.get("TCA_ACT_KIND") for action in acts] != ["skbedit"]:
        return None
    tos = options.get("TCA_FLOWER_KEY_IP_TOS")
    if tos is not None and options.get("TCA_FLOWER_KEY_IP_TOS_MASK") != _DSCP_MASK:
        return None
    set_to = acts[0].get("TCA_ACT_OPTIONS")
    if set_to.get("TCA_SKBEDIT_PARMS")["action"] != tc_actions[CONTINUE]:
        return None
    match = Match(
        pcp=options.get("TCA_FLOWER_KEY_VLAN_PRIO"),
        vlan_ethertype=options.get("TCA_FLOWER_KEY_VLAN_ETH_TYPE"),
        dscp=None if tos is None else tos >> 2,
    )
    return PriorityFilter(
        prio=message["info"] >> 16,
        handle=message["handle"],
        match=match,
        priority=set_to.get("TCA_SKBEDIT_PRIORITY"),
        label=options.get("TCA_FLOWER_CLASSID"),
    )


def _flags(message: Any) -> int:
    return (message.get("TCA_OPTIONS") or {}).get("TCA_FLOWER_FLAGS") or 0


FLOWER = FilterForm("flower", _request, _parsed, _flags)
