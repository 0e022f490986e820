"""pyroute2 plugin for the credit-based shaper (`TCA_CBS_*` of linux/pkt_sched.h; tc-cbs(8)).

Registered (`agent.kernel.tc_plugins`) it serves `IPRoute.tc()` and the dump:

    ipr.tc("add", "cbs", index, idleslope=20_000, sendslope=-980_000, hicredit=31, locredit=-1512)

Slopes are in kbit/s, credits in octets. Optional: offload, 1 to have the device do it.
"""

# mypy: allow-subclassing-any

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl import TC_H_ROOT

PARAMETERS = ("offload", "hicredit", "locredit", "idleslope", "sendslope")

parent = TC_H_ROOT


def get_parameters(kwarg: Mapping[str, Any]) -> dict[str, Any]:
    """The `TCA_OPTIONS` of a request."""
    parms = {"offload": 0, **{name: kwarg[name] for name in PARAMETERS if name in kwarg}}
    return {"attrs": [["TCA_CBS_PARMS", parms]]}


class options(nla):  # noqa: N801  the name that pyroute2 looks for
    """`TCA_OPTIONS`."""

    nla_map = (("TCA_CBS_UNSPEC", "none"), ("TCA_CBS_PARMS", "tc_cbs_qopt"))

    class tc_cbs_qopt(nla):  # noqa: N801
        """struct tc_cbs_qopt"""

        fields = (
            ("offload", "B"),
            ("__pad", "3x"),
            ("hicredit", "i"),
            ("locredit", "i"),
            ("idleslope", "i"),
            ("sendslope", "i"),
        )
