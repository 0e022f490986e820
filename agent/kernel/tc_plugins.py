"""The agent's plugins for pyroute2's traffic control; README.md says how each can go upstream.

A plugin is a module: `get_parameters` encodes what a request says, `options` is the netlink
attribute that it becomes and that a dump is read with; `parent` and `fix_request` where a request
needs them.
"""

from __future__ import annotations

from pyroute2.netlink.rtnl import tcmsg
from pyroute2.netlink.rtnl.tcmsg import common_act

from agent.kernel import (
    act_pedit,
    act_skbedit,
    cls_basic,
    cls_flower,
    sched_cbs,
    sched_etf,
    sched_mqprio,
    sched_prio,
    sched_taprio,
)

# Qdiscs and classifiers, and actions of these; by the kernel's names.
TC_PLUGINS = {
    "taprio": sched_taprio,
    "cbs": sched_cbs,
    "etf": sched_etf,
    "mqprio": sched_mqprio,
    "prio": sched_prio,
    "flower": cls_flower,
    "basic": cls_basic,
}
ACTION_PLUGINS = {"skbedit": act_skbedit, "pedit": act_pedit}


def register() -> None:
    """Let `IPRoute.tc()` and its dumps use them; those of pyroute2 with these names no longer."""
    tcmsg.plugins.update(TC_PLUGINS)
    common_act.plugins.update(ACTION_PLUGINS)
