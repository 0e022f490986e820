"""pyroute2 plugin for the ETF queueing discipline (`TCA_ETF_*` of linux/pkt_sched.h; tc-etf(8)).

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "etf", index, clockid=time.CLOCK_TAI, delta_ns=2_000_000, flags=OFFLOAD)
"""

# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT

OFFLOAD = 0x2  # TC_ETF_OFFLOAD_ON: the device sends at the time of transmission

parent = TC_H_ROOT


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request: frames leave the qdisc `delta_ns` before their time of
    transmission."""
    parms = {
        "delta": kwarg["delta_ns"],
        "clockid": kwarg["clockid"],
        "flags": kwarg.get("flags", 0),
    }
    return {"attrs": [["TCA_ETF_PARMS", parms]]}


class options(nla):  # noqa: N801  the name that pyroute2 looks for
    """`TCA_OPTIONS`."""

    nla_map = (("TCA_ETF_UNSPEC", "none"), ("TCA_ETF_PARMS", "tc_etf_qopt"))

    class tc_etf_qopt(nla):  # noqa: N801
        """struct tc_etf_qopt"""

        fields = (("delta", "i"), ("clockid", "i"), ("flags", "I"))
