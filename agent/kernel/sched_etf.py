"""pyroute2 plugin for the ETF queueing discipline (`TCA_ETF_*` of linux/pkt_sched.h; tc-etf(8)).

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "etf", index, clockid=time.CLOCK_TAI, delta_ns=2_000_000)
"""

# mypy: allow-subclassing-any

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT

_QOPT = struct.Struct("=iiI")  # struct tc_etf_qopt: delta, clockid, flags

parent = TC_H_ROOT


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request: frames leave `delta_ns` before their time of transmission."""
    return {"attrs": [["TCA_ETF_PARMS", _QOPT.pack(kwarg["delta_ns"], kwarg["clockid"], 0)]]}


class options(nla):  # noqa: N801  the name that pyroute2 looks for
    """`TCA_OPTIONS`."""

    nla_map = (("TCA_ETF_UNSPEC", "none"), ("TCA_ETF_PARMS", "cdata"))
