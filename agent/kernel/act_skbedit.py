"""pyroute2 plugin for the skbedit action: pyroute2's own, with a choice of what comes after it.

Registered by `agent.kernel.tc_plugins`:

    {"kind": "skbedit", "priority": 6, "control": "unspec"}

With `control` "unspec" (TC_ACT_UNSPEC, tc's `continue`) the filters that follow see the frame, too;
without it the action ends in "pipe", as pyroute2's does, and no further filter sees the frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2.netlink.rtnl.tcmsg import act_skbedit
from pyroute2.netlink.rtnl.tcmsg.common import tc_actions

options = act_skbedit.options


def get_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_ACT_OPTIONS` of a request."""
    parameters: dict[str, Any] = act_skbedit.get_parameters(values)
    control = {"action": tc_actions[values.get("control", "pipe")]}
    parameters["attrs"] = [
        [name, control if name == "TCA_SKBEDIT_PARMS" else value]
        for name, value in parameters["attrs"]
    ]
    return parameters
