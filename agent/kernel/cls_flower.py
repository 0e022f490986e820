"""pyroute2 plugin for the flower classifier (`TCA_FLOWER_*` of linux/pkt_cls.h).

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("replace-filter", "flower", index, handle=47, parent=EGRESS, prio=1, protocol=0x8100,
           vlan_ethertype=0x86DD, ip_tos=(0xB8, 0xFC), action={"kind": "skbedit", "priority": 6})

`protocol` is the Ethertype of the frame (0x8100: tagged, 3: any), `vlan_prio` the priority code
point in its tag, `vlan_ethertype` what is behind the tag, `ip_tos` value and mask of the octet that
is TOS in IPv4 and the traffic class in IPv6. `classid` is kept with the filter; at the hooks of
clsact it has no effect. `flags` are those of `agent.kernel.filter_flags`. Without an `action` the
request names a filter only.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.tcmsg import common_act

INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3  # TC_H_CLSACT with TC_H_MIN_INGRESS, TC_H_MIN_EGRESS
ANY_PROTOCOL = 3  # ETH_P_ALL

_CLASSID, _ACT, _ETH_TYPE = 1, 3, 8
_FLAGS = 22
_VLAN_PRIO, _VLAN_ETH_TYPE, _IP_TOS, _IP_TOS_MASK = 24, 25, 73, 74
_TYPES = {
    _CLASSID: ("TCA_FLOWER_CLASSID", "uint32"),
    _ACT: ("TCA_FLOWER_ACT", "actions"),
    _ETH_TYPE: ("TCA_FLOWER_KEY_ETH_TYPE", "be16"),
    _FLAGS: ("TCA_FLOWER_FLAGS", "uint32"),
    _VLAN_PRIO: ("TCA_FLOWER_KEY_VLAN_PRIO", "uint8"),
    _VLAN_ETH_TYPE: ("TCA_FLOWER_KEY_VLAN_ETH_TYPE", "be16"),
    _IP_TOS: ("TCA_FLOWER_KEY_IP_TOS", "uint8"),
    _IP_TOS_MASK: ("TCA_FLOWER_KEY_IP_TOS_MASK", "uint8"),
}


class options(nla):  # noqa: N801  pyroute2 looks for this name
    """The attributes of a filter that the agent sets; the others stay as they are."""

    nla_map = tuple(
        _TYPES.get(number, (f"TCA_FLOWER_{number}", "hex")) for number in range(_IP_TOS_MASK + 1)
    )
    actions = common_act.tca_act_prio


def fix_request(request: dict[str, Any]) -> None:
    """Put protocol and priority of the filter into tcm_info, as all classifiers have them."""
    protocol, prio = request.get("protocol", 0), request.get("prio", 0)
    request["info"] = socket.htons(protocol) | prio << 16


def get_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says of a filter beside its place."""
    if "action" not in values:
        return {"attrs": []}
    attributes: list[tuple[str, Any]] = []
    if "classid" in values:
        attributes.append(("TCA_FLOWER_CLASSID", values["classid"]))
    if values["protocol"] != ANY_PROTOCOL:
        attributes.append(("TCA_FLOWER_KEY_ETH_TYPE", values["protocol"]))
    if "vlan_prio" in values:
        attributes.append(("TCA_FLOWER_KEY_VLAN_PRIO", values["vlan_prio"]))
    if "vlan_ethertype" in values:
        attributes.append(("TCA_FLOWER_KEY_VLAN_ETH_TYPE", values["vlan_ethertype"]))
    if "ip_tos" in values:
        tos, mask = values["ip_tos"]
        attributes.append(("TCA_FLOWER_KEY_IP_TOS", tos))
        attributes.append(("TCA_FLOWER_KEY_IP_TOS_MASK", mask))
    attributes.append(("TCA_FLOWER_FLAGS", values.get("flags", 0)))
    attributes.append(("TCA_FLOWER_ACT", common_act.get_tca_action(dict(values))))
    return {"attrs": [list(each) for each in attributes]}
