"""pyroute2 plugin for the basic classifier with one match: the skb priority (tc-ematch(8), `meta`).

pyroute2's own does not read all that it writes. Registered in its place
(`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("replace-filter", "basic", index, handle=4, parent=EGRESS, prio=1, protocol=0x8100,
           skb_priority=3, action={"kind": "gact", "action": "ok"})

`protocol` is the Ethertype of the frame (0x8100: tagged). Without an `action` the request names a
filter only. Formats: linux/pkt_cls.h (`TCA_BASIC_*`, `struct tcf_ematch_hdr`), linux/tc_ematch/
tc_em_meta.h.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.tcmsg import common_act

from agent.kernel.cls_flower import fix_request
from agent.kernel.netlink_batch import attribute, attributes

__all__ = ["fix_request", "get_parameters", "options", "skb_priority_of"]

_TREE_HEADER, _TREE_LIST = 1, 2  # TCA_EMATCH_TREE_HDR, TCA_EMATCH_TREE_LIST
_EMATCH = struct.Struct("=HHHxx")  # identifier, kind, flags
_META = 4  # TCF_EM_META
_META_HEADER, _RIGHT_VALUE = 1, 3  # TCA_EM_META_HDR, TCA_EM_META_RVALUE
_META_SIDES = struct.Struct("=HBBHBB")  # of both sides: kind, shift, comparison
_PRIORITY, _VALUE = 0x1006, 0x1000  # TCF_META_TYPE_INT with TCF_META_ID_PRIORITY, _VALUE
_EQUAL = (_PRIORITY, 0, 0, _VALUE, 0, 0)
_U32 = struct.Struct("=I")


class options(nla):  # noqa: N801  pyroute2 looks for this name
    """The attributes of a filter."""

    nla_map = (
        ("TCA_BASIC_UNSPEC", "none"),
        ("TCA_BASIC_CLASSID", "uint32"),
        ("TCA_BASIC_EMATCHES", "cdata"),
        ("TCA_BASIC_ACT", "actions"),
        ("TCA_BASIC_POLICE", "hex"),
        ("TCA_BASIC_PCNT", "hex"),
    )
    actions = common_act.tca_act_prio


def get_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a request says of a filter beside its place."""
    if "action" not in values:
        return {"attrs": []}
    meta = attribute(_META_HEADER, _META_SIDES.pack(*_EQUAL))
    meta += attribute(_RIGHT_VALUE, _U32.pack(values["skb_priority"]))
    match = attribute(1, _EMATCH.pack(0, _META, 0) + meta)
    tree = attribute(_TREE_HEADER, struct.pack("=HH", 1, 0)) + attribute(_TREE_LIST, match)
    return {
        "attrs": [
            ["TCA_BASIC_EMATCHES", tree],
            ["TCA_BASIC_ACT", common_act.get_tca_action(dict(values))],
        ]
    }


def skb_priority_of(filter_options: Any) -> int | None:
    """The priority that a filter in a dump matches; None where it matches something else."""
    tree = dict(attributes(filter_options.get("TCA_BASIC_EMATCHES") or b""))
    matches = list(attributes(tree.get(_TREE_LIST, b"")))
    if len(matches) != 1:
        return None
    ((_number, match),) = matches
    _identifier, kind, flags = _EMATCH.unpack_from(match)
    meta = dict(attributes(match[_EMATCH.size :])) if kind == _META and not flags else {}
    value = meta.get(_RIGHT_VALUE, b"")
    if len(value) != _U32.size or _META_SIDES.unpack(meta[_META_HEADER]) != _EQUAL:
        return None
    return int(_U32.unpack(value)[0])
