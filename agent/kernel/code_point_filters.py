"""Filters that write a priority code point into the VLAN tag of frames that leave a port.

`basic` with the meta match finds frames with a tag by their skb priority, which flower cannot do.
act_vlan sets a code point only together with a VLAN identifier. So that one filter serves all
VLANs, the actions push a second tag, which moves the first one from beside the frame into it, edit
it there, and pop the second:

    basic match 'meta(priority eq 3)' action vlan push id 0
                                      action pedit munge eth + 12 (8100 and the tag)
                                      action vlan pop

The drop eligible indicator (DEI) of the tag is 0 afterwards: no frame is drop eligible in Linux.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pyroute2.netlink.rtnl.tcmsg.common import tc_actions

from agent.kernel import act_pedit, tc_plugins
from agent.kernel.cls_basic import skb_priority_of
from agent.kernel.hook_filters import CONTINUE, FilterForm, actions_of

tc_plugins.register()

_TAG_OFFSET_OCTETS = 12  # the Ethertype 0x8100 and the tag control information
_KEPT = 0xFFFF_0FFF  # the Ethertype and the VLAN identifier
_PCP_SHIFT = 13
_ACTIONS = ["vlan", "pedit", "vlan"]
_POP, _PUSH = 1, 2  # TCA_VLAN_ACT_POP, TCA_VLAN_ACT_PUSH


class CodePointFilter(NamedTuple):
    """Frames with this skb priority and a VLAN tag leave with this code point in it."""

    prio: int
    handle: int
    priority: int
    code_point: int


def _request(wanted: CodePointFilter) -> Mapping[str, Any]:
    return {
        "skb_priority": wanted.priority,
        "action": [
            {"kind": "vlan", "v_action": "push", "id": 0},
            {"kind": "pedit", "keys": [_key(wanted.code_point)]},
            {"kind": "vlan", "v_action": "pop", "action": CONTINUE},
        ],
    }


def _key(code_point: int) -> dict[str, int]:
    return {"offset": _TAG_OFFSET_OCTETS, "keep": _KEPT, "set": code_point << _PCP_SHIFT}


def _parsed(message: Any) -> CodePointFilter | None:
    options = message.get("TCA_OPTIONS")
    if message.get("TCA_KIND") != "basic" or options is None:
        return None
    priority = skb_priority_of(options)
    actions = actions_of(options.get("TCA_BASIC_ACT"))
    if priority is None or [each.get("TCA_ACT_KIND") for each in actions] != _ACTIONS:
        return None
    first, last = (each.get("TCA_ACT_OPTIONS").get("TCA_VLAN_PARMS") for each in actions[::2])
    ends_as_set = last["action"] == tc_actions[CONTINUE]
    if (first["v_action"], last["v_action"]) != (_PUSH, _POP) or not ends_as_set:
        return None
    keys = act_pedit.keys_of(actions[1].get("TCA_ACT_OPTIONS"))
    code_point = keys[0]["set"] >> _PCP_SHIFT if keys else 0
    if keys != [_key(code_point)]:
        return None
    return CodePointFilter(message["info"] >> 16, message["handle"], priority, code_point)


CODE_POINTS = FilterForm("basic", _request, _parsed)
